"""Coefficients without a ridge: the plain cosine of samples, the closed form's limit.

As lam grows, the whitened rows L^-1 z become z / sqrt(lam), and the closed form's ranking by
|H_ij| / sqrt(h_i h_j) becomes that by the cosine of the samples themselves,

    C_ij = z_i . z_j   (i != j),   |z_i| = 1.

With several views of each sample, such as its mirror image, the best one counts,
C_ij = max_a |z_i . z_ja|. Nothing is solved; memory is that of the views.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import torch
from torch import Tensor

from dcfsc.neighbours import largest_among, largest_inner_products, largest_over_views

from .operator import Operator


def best_products(z: Tensor, views: Iterable[Tensor]) -> Tensor:
    """max_a |z . z_ja| for rows z (n, d) and views Z_a (N, d), (n, N)."""
    magnitudes = ((z @ Z.mT).abs_() for Z in views)
    return reduce(lambda best, C: torch.maximum(best, C, out=best), magnitudes)


class CosineForm(Operator):
    """The cosine of samples as coefficients; see the module.

    Parameters
    ----------
    Z, *views : Tensor (N, d)
        Rows of unit length (or zero): the samples as they are, then other views of the same.
    """

    ranks_by_cosine = True
    codes_samples = True
    is_divisible = True

    def __init__(self, Z: Tensor, *views: Tensor):
        self.views = (Z, *views)
        self.n, self.dim = Z.shape
        self.dtype, self.device = Z.dtype, Z.device
        self.directions = None if views else Z

    def rows(self, start: int, stop: int) -> Tensor:
        C = self.code(self.views[0][start:stop])
        C[torch.arange(len(C)), torch.arange(start, start + len(C))] = 0.0
        return C

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        if len(self.views) == 1:
            return largest_among(self.views[0], k)
        return largest_over_views(self.views[0], self.views, k, diagonal=0)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self.topk(k)

    def code(self, z: Tensor) -> Tensor:
        if len(self.views) == 1:
            return z @ self.views[0].mT
        return best_products(z, self.views)

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        if len(self.views) == 1:
            return largest_inner_products(z, self.views[0], k)
        return largest_over_views(z, self.views, k)

    def __repr__(self) -> str:
        return f"CosineForm(N={self.n}, d={self.dim}, views={len(self.views)})"
