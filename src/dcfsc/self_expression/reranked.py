"""Neighbors in clouds: the nearest by cosine, and the nearest in several kinds of rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dcfsc import processes

from .cosine import CosineForm
from .gram import row_chunks
from .operator import Coding, RankedByCosine

POOL = 64  # candidates of a sample, among which other rows look for its neighbors


class NearestForm(CosineForm):
    """The cosine of rows whose graph scales distances locally."""

    locally_scaled = (0,)


class RerankedForm(RankedByCosine):
    """The neighbors that an operator finds, and those of them that are nearest in other rows.

    The operator's nearest ``POOL`` are the candidates. Its own first k are one neighbor list, and
    the k candidates of largest positive cosine in each of the other rows are one more.

    Parameters
    ----------
    pool : RankedByCosine
        Finds the candidates.
    others : sequence of Tensor (N, m)
        Rows of unit length (or zero).
    """

    def __init__(self, pool: RankedByCosine, others: Sequence[Tensor]):
        self.pool, self.others = pool, list(others)
        self.n, self.dtype, self.device = pool.n, pool.dtype, pool.device
        self.locally_scaled = tuple(range(1, 1 + len(self.others)))

    def rows(self, start: int, stop: int) -> Tensor:
        return self.pool.rows(start, stop)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return self.pool.topk(k)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self.pool.topk_cosine(k)

    def neighbors(self, k: int, by_cosine: bool = False) -> list[tuple[Tensor, Tensor]]:
        """The pool's own neighbors, then those by each of the other rows, all (N, k)."""
        if not by_cosine:
            return self.pool.neighbors(k)
        values, columns = self.pool.topk_cosine(min(max(k, POOL), self.n - 1))
        # A pool need not come in order.
        order = values.abs().argsort(dim=1, descending=True, stable=True)
        values, columns = values.gather(1, order), columns.gather(1, order)
        lists = [nearest_of(columns, R, processes.gather_rows(R), k) for R in self.others]
        return [(values[:, :k], columns[:, :k]), *lists]

    def code(self, z: Tensor) -> Tensor:
        """The pool's coefficients (n, N) of unseen z: the pool's rows, then the others."""
        assert isinstance(self.pool, Coding)
        return self.pool.code(self._kinds(z)[0])

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The mean cosine in the other rows of those among the pool's candidates, the k largest."""
        assert isinstance(self.pool, Coding)
        own, *others = self._kinds(z)
        columns = self.pool.topk_code(own, min(max(k, POOL), self.n))[1]
        kinds = zip(others, self.others, strict=True)
        cosines = torch.stack([cosines_of(columns, part, R) for part, R in kinds]).mean(dim=0)
        values, order = cosines.clamp_min(0.0).topk(min(k, columns.shape[1]), dim=1)
        return values, columns.gather(1, order)

    def _kinds(self, z: Tensor) -> tuple[Tensor, ...]:
        """The parts of unseen rows: the pool's, then one for each of the other rows."""
        widths = [R.shape[1] for R in self.others]
        return z.split([z.shape[1] - sum(widths), *widths], dim=1)

    def __repr__(self) -> str:
        return f"RerankedForm({self.pool!r}, others={len(self.others)})"


def nearest_of(columns: Tensor, z: Tensor, R: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Of candidates (n, M) the k of largest positive cosine: values in descending order, columns.

    ``z`` (n, m) are the samples' rows and ``R`` (N, m) those of the candidates.
    """
    values, order = cosines_of(columns, z, R).clamp_min_(0.0).topk(min(k, columns.shape[1]), dim=1)
    return values, columns.gather(1, order)


def cosines_of(columns: Tensor, z: Tensor, R: Tensor) -> Tensor:
    """z_i . r_j for the columns j (n, M) of each row i."""
    values = torch.empty(columns.shape, dtype=R.dtype, device=R.device)
    for rows in row_chunks(len(z), columns.shape[1] * R.shape[1], R.device):
        # index_select copies whole rows, twice as quick as indexing
        candidates = R.index_select(0, columns[rows].reshape(-1)).view(*columns[rows].shape, -1)
        values[rows] = (candidates @ z[rows, :, None])[..., 0]
    return values
