"""What an affinity is: coefficients in, a non-negative symmetric matrix out."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import scipy.sparse as sp
from torch import Tensor

AffinityMatrix: TypeAlias = "Tensor | sp.csr_array"


class Coefficients(Protocol):
    """The part of a self-expression that an affinity reads; rows are samples."""

    n: int

    def topk(self, k: int) -> tuple[Tensor, Tensor]: ...

    def dense(self) -> Tensor: ...


class Affinity(Protocol):
    """Coefficients (N, N) and the number of clusters -> A (N, N), A >= 0, A = A', dense or CSR."""

    def __call__(self, coefficients: Coefficients, n_clusters: int) -> AffinityMatrix: ...


def ways_of(coefficients: Any) -> tuple[Any, ...]:
    """The ways of coefficients that have several, whose graphs are added; others are one way."""
    return tuple(getattr(coefficients, "ways", (coefficients,)))
