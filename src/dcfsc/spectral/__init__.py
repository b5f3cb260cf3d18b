"""Spectral clustering of an affinity: embedding, then labels.

`cluster` does both steps; `embed` and `assign` are the steps; `eigengap` ranks candidates for the
number of clusters; `memberships` says how sure the labels are. Everything between an affinity and
labels lives here.
"""

from dcfsc.spectral.assignment import assign
from dcfsc.spectral.clustering import (
    SpectralResult,
    cluster,
    default_components,
    place_for,
    place_for_rows,
)
from dcfsc.spectral.confidence import KEPT, Memberships, certain, memberships
from dcfsc.spectral.coupling import coupling, cut_share, halves
from dcfsc.spectral.embedding import Embedding, eigengap, embed

__all__ = [
    "KEPT",
    "Embedding",
    "Memberships",
    "SpectralResult",
    "assign",
    "certain",
    "cluster",
    "coupling",
    "cut_share",
    "default_components",
    "eigengap",
    "embed",
    "halves",
    "memberships",
    "place_for",
    "place_for_rows",
]
