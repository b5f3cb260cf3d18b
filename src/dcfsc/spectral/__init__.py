"""Spectral clustering of an affinity: embedding, then labels.

`embed` and `assign` are the steps; `eigengap` ranks candidates for the number of clusters;
`memberships` says how sure the labels are.
"""

from dcfsc.spectral.assignment import STARTS, assign, default_components, grouped_rows
from dcfsc.spectral.confidence import KEPT, Memberships, certain, memberships
from dcfsc.spectral.coupling import coupling, cut_share, halves
from dcfsc.spectral.embedding import Embedding, eigengap, embed

__all__ = [
    "KEPT",
    "STARTS",
    "Embedding",
    "Memberships",
    "assign",
    "certain",
    "coupling",
    "cut_share",
    "default_components",
    "eigengap",
    "embed",
    "grouped_rows",
    "halves",
    "memberships",
]
