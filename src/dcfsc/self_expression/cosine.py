"""Coefficients without a ridge: the plain cosine of samples, the closed form's limit.

As lam grows, the whitened rows L^-1 z become z / sqrt(lam), and the closed form's ranking by
|H_ij| / sqrt(h_i h_j) becomes that by the cosine of the samples themselves,

    C_ij = z_i . z_j   (i != j),   |z_i| = 1.

Nothing is solved; memory is that of the samples.

A mirror image may join what belongs together, but does not displace the neighbors there are: the
graphs of the neighbor lists without and with mirror images are added.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dcfsc.neighbors import (
    among_in_order,
    larger_of_both,
    largest_among,
    largest_inner_products,
    scan_among,
)

from .operator import InnerProducts, RankedByCosine


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
        return f"{type(self).__name__}(N={self.n}, d={self.dim})"


class MirroredCosineForm(RankedByCosine):
    """Coefficients z_i . z_j, and codes max(|z . z_j|, |z . m_j|) with the mirror images m_j.

    Parameters
    ----------
    seen, mirrored : Tensor (N, d)
        Rows of unit length (or zero): the samples as they are, and their mirror images.
    """

    def __init__(self, seen: Tensor, mirrored: Tensor):
        self.seen, self.mirrored = CosineForm(seen), mirrored
        self.n, self.dim = seen.shape
        self.dtype, self.device = seen.dtype, seen.device

    def rows(self, start: int, stop: int) -> Tensor:
        return self.seen.rows(start, stop)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return self.seen.topk(k)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self.seen.topk(k)

    def neighbors(self, k: int, by_cosine: bool = False) -> list[tuple[Tensor, Tensor]]:
        """The samples' neighbors among the others, and among these and their mirror images."""
        Z = self.seen.directions
        among_samples = scan_among(Z, Z, k)
        among_both = larger_of_both(among_samples, scan_among(Z, self.mirrored, k))
        return [among_in_order(*among_samples), among_both]

    def code(self, z: Tensor) -> Tensor:
        return torch.maximum(self.seen.code(z).abs_(), (z @ self.mirrored.mT).abs_())

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        mirrored = largest_inner_products(z, self.mirrored, k)
        return larger_of_both(self.seen.topk_code(z, k), mirrored)

    def __repr__(self) -> str:
        return f"MirroredCosineForm(N={self.n}, d={self.dim})"
