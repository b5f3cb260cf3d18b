"""The one contract of all coefficients: what an affinity, a vote or a layer may ask of them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.neighbors import approximately_largest_inner_products, recall

if TYPE_CHECKING:
    import scipy.sparse as sp

logger = logging.getLogger("dcfsc")


class Operator(ABC):
    """Coefficients C (N, N) of N samples over each other: C Z is close to Z.

    Every operator has :meth:`rows`, :meth:`dense` and :meth:`topk`. What only some have is declared
    below, so that nobody needs to probe for it; asking for what is not declared is one line.

    Attributes
    ----------
    n : int
        The number of samples N.
    dtype, device
        Of the values that the methods return.
    lam : float or None
        The ridge parameter; None where there is no ridge.
    ranks_by_cosine : bool
        Whether :meth:`topk_cosine` is there.
    codes_samples : bool
        Whether :meth:`code` and :meth:`topk_code` are there.
    is_linear : bool
        Whether :meth:`matmul`, :meth:`rmatmul` and :meth:`apply` are there.
    is_divisible : bool
        Whether it works where samples are divided among processes (:mod:`dcfsc.processes`).
    leverage : Tensor (N,) or None
        The diagonal h of the hat matrix H in float64; None where there is no ridge.
    directions : Tensor (N, d) or None
        Rows Y with C_ij = y_i . y_j up to a factor of row i, where there are such.
    sparse : csr_array or None
        C as a sparse matrix, where it is one.
    recall : float or None
        The share of the exact neighbors that the last :meth:`approximate_topk` found.
    """

    n: int
    dtype: torch.dtype
    device: torch.device
    lam: float | None = None
    ranks_by_cosine: bool = False
    codes_samples: bool = False
    is_linear: bool = False
    is_divisible: bool = False
    leverage: Tensor | None = None
    directions: Tensor | None = None
    sparse: sp.csr_array | None = None
    recall: float | None = None

    # What every operator provides -------------------------------------------------------------

    @abstractmethod
    def rows(self, start: int, stop: int) -> Tensor:
        """The rows start, ..., stop - 1 of C, (stop - start, N)."""

    @abstractmethod
    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k off-diagonal entries of largest magnitude in each row: values, indices (N, k)."""

    def dense(self) -> Tensor:
        """The whole of C, (N, N)."""
        return self.rows(0, self.n)

    def matrix(self) -> Tensor | sp.csr_array:
        """The whole of C, (N, N), sparse where it is stored so."""
        return self.dense()

    # What some have, None or themselves where not ---------------------------------------------

    @property
    def effective_dof(self) -> float | None:
        """tr H, the effective number of degrees of freedom, where there is a ridge."""
        return None

    @property
    def parts(self) -> tuple[Operator, ...]:
        """Operators on the same samples whose graphs are to be added; itself where it is one."""
        return (self,)

    # What some have, and others refuse --------------------------------------------------------

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest |H_ij| / sqrt(h_i h_j) of each row, i != j: values and indices (N, k).

        The cosine of the whitened samples. It ranks neighbors by direction alone, where |C_ij|
        prefers those j that stand out, of a large leverage h_j.
        """
        raise self._lacks("no ranking by cosine")

    def code(self, z: Tensor) -> Tensor:
        """Coefficients of unseen z (n, d) over the N samples, (n, N)."""
        raise self._lacks("no codes of unseen samples")

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k entries of largest magnitude in each row of :meth:`code`: values, indices."""
        raise self._lacks("no codes of unseen samples")

    def matmul(self, V: Tensor) -> Tensor:
        """C V for V of shape (N, p)."""
        raise self._lacks("no products with matrices")

    def rmatmul(self, V: Tensor) -> Tensor:
        """C' V for V of shape (N, p)."""
        raise self._lacks("no products with matrices")

    def apply(self, V: Tensor) -> Tensor:
        """C V with C held constant: gradients flow through V only."""
        raise self._lacks("no products with matrices")

    def approximate_topk(self, k: int) -> tuple[Tensor, Tensor]:
        """Nearly :meth:`topk`, from a small share of the pairs; sets :attr:`recall`."""
        Y = self.directions
        if Y is None:
            raise InputError(
                "an approximate search needs the closed form with more samples than features "
                f"(form='features'); got {type(self).__name__}. Use search='exact'."
            )
        values, indices = approximately_largest_inner_products(Y, k)
        self.recall = recall(Y, values)
        logger.info("approximate neighbors: recall %.4f", self.recall)
        return self._from_directions(values), indices

    def _from_directions(self, products: Tensor) -> Tensor:
        """Entries C_ij (N, k) from the inner products y_i . y_j of the directions."""
        return products.to(self.dtype)

    def _lacks(self, what: str) -> InputError:
        return InputError(f"{type(self).__name__} has {what}.")
