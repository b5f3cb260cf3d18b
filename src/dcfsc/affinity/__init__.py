"""Affinities: from coefficients to a non-negative symmetric matrix, dense or sparse."""

from .base import Affinity, AffinityMatrix
from .low_rank import LowRank
from .registry import get, names
from .row_space import RowSpace
from .symmetric import Symmetric
from .topk import TopK

__all__ = ["Affinity", "AffinityMatrix", "LowRank", "RowSpace", "Symmetric", "TopK", "get", "names"]
