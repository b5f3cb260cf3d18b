"""Several ways to express the same samples, whose graphs are added."""

from __future__ import annotations

from typing import Any

from torch import Tensor


class Ways:
    """Coefficients of the same N samples in several ways, each with its own k largest.

    A sparse affinity adds the graphs of all ``ways``. What is asked of one alone is answered by
    the first, codes of unseen samples by the last.
    """

    form = "ways"

    def __init__(self, *ways: Any):
        self.ways = ways
        first = ways[0]
        self.n, self.dim, self.lam = first.n, first.dim, first.lam
        self.dtype, self.device = first.dtype, first.device
        self.leverage, self.Y = first.leverage, ways[-1].Y

    @property
    def effective_dof(self) -> float:
        return float(self.ways[0].effective_dof)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.ways[0].topk(k)
        return found

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.ways[-1].topk_code(z, k)
        return found

    def __repr__(self) -> str:
        return f"Ways({', '.join(map(repr, self.ways))})"
