"""Samples that occur several times, of which every value is compared once.

The nearest of a sample in a table of a few discrete columns are its copies. A graph of such
neighbors falls into groups of copies, which say nothing of each other. So neighbors are distinct
values: each copy has those of its value, and its first copy stands for a value that is a neighbor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .operator import Coding, RankedByCosine


class RepeatedForm(RankedByCosine):
    """An operator of n distinct samples as that of N samples, some of them equal.

    Parameters
    ----------
    distinct : RankedByCosine
        Compares the distinct samples.
    place : Tensor (N,)
        Which of them each sample is, numbered by first appearance.
    """

    def __init__(self, distinct: RankedByCosine, place: Tensor):
        self.distinct, self.place = distinct, place.to(distinct.device)
        self.n, self.dtype, self.device = len(place), distinct.dtype, distinct.device
        numbers = torch.arange(self.n, device=self.device)
        first = numbers.new_full((distinct.n,), self.n)
        self.first = first.scatter_reduce(0, self.place, numbers, "amin")
        self.lam, self.locally_scaled = distinct.lam, distinct.locally_scaled
        if distinct.leverage is not None:
            self.leverage = distinct.leverage[self.place]

    @property
    def effective_dof(self) -> float | None:
        return self.distinct.effective_dof

    def rows(self, start: int, stop: int) -> Tensor:
        C = self.distinct.dense()[self.place[start:stop]]
        return C.new_zeros(len(C), self.n).index_copy_(1, self.first, C)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return self._of_samples(k, *self.distinct.topk(k))

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self._of_samples(k, *self.distinct.topk_cosine(k))

    def neighbors(self, k: int, by_cosine: bool = False) -> list[tuple[Tensor, Tensor]]:
        return [self._of_samples(k, *found) for found in self.distinct.neighbors(k, by_cosine)]

    def code(self, z: Tensor) -> Tensor:
        assert isinstance(self.distinct, Coding)
        codes = self.distinct.code(z)
        return codes.new_zeros(len(codes), self.n).index_copy_(1, self.first, codes)

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        assert isinstance(self.distinct, Coding)
        values, columns = self.distinct.topk_code(z, k)
        return self._filled_up(min(k, self.n), values, self.first[columns])

    def _of_samples(self, k: int, values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Lists of samples from those of values."""
        place, first = self.place.to(columns.device), self.first.to(columns.device)
        lists = self._filled_up(min(k, self.n - 1), values[place], first[columns[place]])
        own = lists[1] == torch.arange(self.n, device=columns.device)[:, None]
        return lists[0], torch.where(own, first[place][:, None], lists[1])

    def _filled_up(self, k: int, values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Lists (n, k) of at most so many entries; copies, which have none, follow the others."""
        missing = k - columns.shape[1]
        if missing <= 0:
            return values, columns
        later = torch.ones(self.n, dtype=torch.bool, device=columns.device)
        later[self.first.to(columns.device)] = False
        filling = later.nonzero()[:missing, 0].expand(len(columns), -1)
        nothing = values.new_zeros(filling.shape)
        return torch.cat([values, nothing], dim=1), torch.cat([columns, filling], dim=1)

    def __repr__(self) -> str:
        return f"RepeatedForm({self.distinct!r}, N={self.n})"
