"""Scores of labels and of coefficients, and evidence for a number of clusters.

Functions take NumPy arrays and return numbers.
"""

from dcfsc.metrics.partition import (
    accuracy,
    ari,
    best_map,
    clustering_error,
    confusion,
    nmi,
    score,
    shared_information,
)
from dcfsc.metrics.representation import Connectivity, connectivity, subspace_preserving_error

__all__ = [
    "Connectivity",
    "accuracy",
    "ari",
    "best_map",
    "clustering_error",
    "confusion",
    "connectivity",
    "nmi",
    "score",
    "shared_information",
    "subspace_preserving_error",
]
