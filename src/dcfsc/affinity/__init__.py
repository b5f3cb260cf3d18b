"""Affinities: turn coefficients into the weights of a graph.

One file per rule. They ask operators only what :class:`dcfsc.self_expression.Operator` declares.
"""

from .base import Affinity, AffinityMatrix
from .doubly_stochastic import DoublyStochastic, nearest_doubly_stochastic
from .joined import Joined, by_degrees
from .low_rank import LowRank
from .nearest_codes import NearestCodes
from .registry import get, names
from .row_space import RowSpace
from .symmetric import Symmetric
from .topk import TopK

__all__ = [
    "Affinity",
    "AffinityMatrix",
    "DoublyStochastic",
    "Joined",
    "LowRank",
    "NearestCodes",
    "RowSpace",
    "Symmetric",
    "TopK",
    "by_degrees",
    "get",
    "names",
    "nearest_doubly_stochastic",
]
