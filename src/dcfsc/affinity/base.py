"""What an affinity is: coefficients in, a non-negative symmetric matrix out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import scipy.sparse as sp
from torch import Tensor

if TYPE_CHECKING:  # stages do not import each other; this one only asks what operators declare
    from dcfsc.self_expression import Operator

AffinityMatrix: TypeAlias = "Tensor | sp.csr_array"


class Affinity(Protocol):
    """Coefficients (N, N) and the number of clusters -> A (N, N), A >= 0, A = A', dense or CSR."""

    def __call__(self, operator: Operator, n_clusters: int) -> AffinityMatrix: ...


@runtime_checkable
class RanksByCosine(Protocol):
    """Coefficients that rank neighbors by cosine."""

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]: ...


@runtime_checkable
class SearchesApproximately(Protocol):
    """Coefficients whose largest can be found from a small share of the pairs."""

    def approximate_topk(self, k: int) -> tuple[Tensor, Tensor]: ...
