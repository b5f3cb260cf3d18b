"""Spectral clustering of a non-negative, symmetric affinity: embedding, then labels.

`cluster` does both steps; `embed` and `assign` are the steps; `eigengap` ranks candidates for the
number of clusters. Everything between an affinity and labels lives here.
"""

from dcfsc.spectral.assignment import assign
from dcfsc.spectral.clustering import SpectralResult, cluster, place_for, place_for_rows
from dcfsc.spectral.embedding import Embedding, eigengap, embed

__all__ = [
    "Embedding",
    "SpectralResult",
    "assign",
    "cluster",
    "eigengap",
    "embed",
    "place_for",
    "place_for_rows",
]
