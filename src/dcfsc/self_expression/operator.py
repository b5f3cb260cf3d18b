"""Coefficients as operators: what an affinity, a vote or a layer may ask of them.

Every operator is an :class:`Operator`. Some rank neighbors by cosine (:class:`RankedByCosine`),
some also search them approximately (:class:`InnerProducts`), and some code unseen samples
(:class:`Coding`). An operator that lacks something does not have the method. Solvers return theirs
in a :class:`Solution`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from dcfsc.neighbors import approximately_largest_inner_products, recall

if TYPE_CHECKING:
    import scipy.sparse as sp

logger = logging.getLogger("dcfsc")


class Operator(ABC):
    """Coefficients C (N, N) of N samples over each other: C Z is close to Z.

    Attributes
    ----------
    n : int
        The number of samples N.
    dtype, device
        Of the values that the methods return.
    lam : float or None
        The ridge parameter; None without a ridge, as are the next two.
    leverage : Tensor (N,) or None
        The diagonal h of the hat matrix H in float64.
    effective_dof : float or None
        tr H, the effective number of degrees of freedom.
    locally_scaled : tuple of int
        The neighbor lists whose cosines are those of clouds, where distances mean something only
        beside those of a sample's other neighbors.
    """

    n: int
    dtype: torch.dtype
    device: torch.device
    lam: float | None = None
    leverage: Tensor | None = None
    locally_scaled: tuple[int, ...] = ()

    @property
    def effective_dof(self) -> float | None:
        return None

    @abstractmethod
    def rows(self, start: int, stop: int) -> Tensor:
        """The rows start, ..., stop - 1 of C, (stop - start, N)."""

    @abstractmethod
    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k off-diagonal entries of largest magnitude in each row: values, indices (N, k)."""

    def diagonal(self) -> Tensor:
        """The diagonal of C, (N,)."""
        return self.dense().diagonal()

    def neighbors(self, k: int, by_cosine: bool = False) -> list[tuple[Tensor, Tensor]]:
        """One or several neighbor lists, values and indices (N, k); their graphs are added.

        ``by_cosine`` is for a :class:`RankedByCosine`; others rank by magnitude in any case.
        """
        return [self.topk(k)]

    def dense(self) -> Tensor:
        """The whole of C, (N, N)."""
        return self.rows(0, self.n)

    def matrix(self) -> Tensor | sp.csr_array:
        """The whole of C, (N, N), sparse where it is stored so."""
        return self.dense()


class RankedByCosine(Operator):
    """Coefficients of a zero diagonal, with a ranking of neighbors by direction alone."""

    @abstractmethod
    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest |H_ij| / sqrt(h_i h_j) of each row, i != j: values and indices (N, k).

        The cosine of the whitened samples, where |C_ij| prefers those j that stand out, of a large
        leverage h_j.
        """

    def neighbors(self, k: int, by_cosine: bool = False) -> list[tuple[Tensor, Tensor]]:
        return [self.topk_cosine(k) if by_cosine else self.topk(k)]

    def diagonal(self) -> Tensor:
        return torch.zeros(self.n, dtype=self.dtype, device=self.device)


class InnerProducts(RankedByCosine):
    """C_ij = y_i . y_j up to a factor of row i, so that neighbors can be searched approximately.

    Attributes
    ----------
    directions : Tensor (N, d), the rows Y.
    recall : float or None
        The share of the exact neighbors that the last :meth:`approximate_topk` found.
    """

    directions: Tensor
    recall: float | None = None

    def approximate_topk(self, k: int) -> tuple[Tensor, Tensor]:
        """Nearly :meth:`topk`, from a small share of the pairs; sets :attr:`recall`."""
        values, indices = approximately_largest_inner_products(self.directions, k)
        self.recall = recall(self.directions, values)
        logger.info("approximate neighbors: recall %.4f", self.recall)
        return self._from_directions(values), indices

    def _from_directions(self, products: Tensor) -> Tensor:
        """Entries C_ij (N, k) from the inner products y_i . y_j of the directions."""
        return products.to(self.dtype)


@runtime_checkable
class Coding(Protocol):
    """An operator that codes unseen samples over its own."""

    def code(self, z: Tensor) -> Tensor:
        """Coefficients of unseen z (n, d) over the N samples, (n, N)."""
        ...

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k entries of largest magnitude in each row of :meth:`code`: values, indices."""
        ...


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, and how their computation ended.

    Attributes
    ----------
    operator : Operator
        The coefficients C: Z ~ C Z.
    n_iter : int
        Iterations made; 0 or 1 for a closed form.
    residual : float
        What the stopping rule compared last with its tolerance.
    converged : bool
        Whether the stopping rule was met.
    objective : float or None
        The problem's value at the solution, where it is computed.
    clean, error : Tensor (N, d) or None
        Where the problem separates them: the samples that C expresses, and their gross errors.
    """

    operator: Operator
    n_iter: int = 1
    residual: float = 0.0
    converged: bool = True
    objective: float | None = None
    clean: Tensor | None = None
    error: Tensor | None = None

    @property
    def coefficients(self) -> Tensor | sp.csr_array:
        """C (N, N), as a tensor or where it is sparse as a SciPy array."""
        return self.operator.matrix()
