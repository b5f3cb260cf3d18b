"""An explicit coefficient matrix behind the same few methods that the closed form has."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Coefficients(Protocol):
    """What an affinity needs to know of a self-expression: rows are samples, C Z is close to Z."""

    n: int

    def rows(self, start: int, stop: int) -> Tensor: ...

    def topk(self, k: int) -> tuple[Tensor, Tensor]: ...

    def dense(self) -> Tensor: ...


class ExplicitCoefficients:
    """A dense C (N, N), as the sparse, low-rank and trained solvers return it."""

    def __init__(self, C: Tensor):
        self.C = C
        self.n = C.shape[0]

    def rows(self, start: int, stop: int) -> Tensor:
        return self.C[start:stop]

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k off-diagonal entries of largest magnitude per row: values and indices (N, k)."""
        magnitude = self.C.abs().fill_diagonal_(-1.0)
        indices = magnitude.topk(min(k, self.n - 1), dim=1).indices
        return self.C.gather(1, indices), indices

    def dense(self) -> Tensor:
        return self.C

    def __repr__(self) -> str:
        nonzero = int(torch.count_nonzero(self.C))
        return f"ExplicitCoefficients(N={self.n}, nonzero={nonzero})"
