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

from dcfsc.neighbors import (
    among_in_order,
    largest_inner_products,
    largest_over_views,
    scan_among,
)

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

    _awaited = False  # whether a form with other views wants what a scan of the samples finds
    _scanned: tuple[int, tuple[Tensor, Tensor]] | None = None
    _alone: CosineForm | None = None

    ranks_by_cosine = True
    codes_samples = True
    is_divisible = True

    def __init__(self, Z: Tensor, *views: Tensor):
        self.views = (Z, *views)
        self.n, self.dim = Z.shape
        self.dtype, self.device = Z.dtype, Z.device
        self.directions = None if views else Z

    def with_views(self, *views: Tensor) -> CosineForm:
        """The form of the same samples with other views of them, (N, d) each.

        Its :meth:`topk` takes what the last one here found in the samples as they are, once: both
        for the cost of one scan less.
        """
        form = CosineForm(self.views[0], *views)
        form._alone, self._awaited = self, True
        return form

    def rows(self, start: int, stop: int) -> Tensor:
        C = self.code(self.views[0][start:stop])
        C[torch.arange(len(C)), torch.arange(start, start + len(C))] = 0.0
        return C

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        Z, *others = self.views
        if not others:
            found = scan_among(Z, k)
            self._scanned = (k, found) if self._awaited else None
            return among_in_order(*found)
        known = None if self._alone is None else self._alone._handed_over(k)
        views = self.views if known is None else others
        return largest_over_views(Z, views, k, diagonal=0, found=known)

    def _handed_over(self, k: int) -> tuple[Tensor, Tensor] | None:
        """What the last scan for k neighbors found, if there was one; it is not kept."""
        scanned, self._scanned = self._scanned, None
        return scanned[1] if scanned is not None and scanned[0] == k else None

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
