"""Spectral clustering of an affinity: embedding, then labels.

`cluster` does both steps; `embed` and `assign` are the steps; `eigengap` ranks candidates for the
number of clusters; `memberships` says how sure the labels are.
"""

from dcfsc.spectral.assignment import STARTS, assign, grouped_rows
from dcfsc.spectral.clustering import SpectralResult, cluster, default_components
from dcfsc.spectral.confidence import KEPT, Memberships, certain, memberships
from dcfsc.spectral.coupling import coupling, cut_share, halves
from dcfsc.spectral.embedding import Embedding, eigengap, embed

__all__ = [
    "KEPT",
    "STARTS",
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
    "grouped_rows",
    "halves",
    "memberships",
]
