"""Coefficients without a ridge: the plain cosine of samples, the closed form's limit.

As lam grows, the whitened rows L^-1 z become z / sqrt(lam), and the closed form's ranking by
|H_ij| / sqrt(h_i h_j) becomes that by the cosine of the samples themselves,

    C_ij = z_i . z_j   (i != j),   |z_i| = 1.

Nothing is solved; memory is that of the samples.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dcfsc.neighbors import largest_among, largest_inner_products

from .operator import InnerProducts


class CosineForm(InnerProducts):
    """The cosine of samples as coefficients: rows Z (N, d) of unit length (or zero)."""

    def __init__(self, Z: Tensor):
        self.directions = Z
        self.n, self.dim = Z.shape
        self.dtype, self.device = Z.dtype, Z.device

    def rows(self, start: int, stop: int) -> Tensor:
        C = self.code(self.directions[start:stop])
        C[torch.arange(len(C)), torch.arange(start, start + len(C))] = 0.0
        return C

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return largest_among(self.directions, k)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self.topk(k)

    def code(self, z: Tensor) -> Tensor:
        return z @ self.directions.mT

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return largest_inner_products(z, self.directions, k)

    def __repr__(self) -> str:
        return f"CosineForm(N={self.n}, d={self.dim})"
