"""Several operators on the same samples, whose graphs are added."""

from __future__ import annotations

from torch import Tensor

from .operator import Operator


class Combined(Operator):
    """Operators on the same N samples; a sparse affinity adds the graphs of all of them.

    What only one can answer, the rows and the largest coefficients of a sample, the first answers;
    codes of unseen samples are the last one's.
    """

    def __init__(self, *parts: Operator):
        self._parts = parts
        first, last = parts[0], parts[-1]
        self.n, self.lam = first.n, first.lam
        self.dtype, self.device = first.dtype, first.device
        self.leverage, self.ranks_by_cosine = first.leverage, first.ranks_by_cosine
        self.codes_samples = last.codes_samples
        self.is_divisible = all(part.is_divisible for part in parts)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self._parts

    @property
    def effective_dof(self) -> float | None:
        return self._parts[0].effective_dof

    def rows(self, start: int, stop: int) -> Tensor:
        return self._parts[0].rows(start, stop)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return self._parts[0].topk(k)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self._parts[0].topk_cosine(k)

    def code(self, z: Tensor) -> Tensor:
        return self._parts[-1].code(z)

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return self._parts[-1].topk_code(z, k)

    def __repr__(self) -> str:
        return f"Combined({', '.join(map(repr, self._parts))})"
