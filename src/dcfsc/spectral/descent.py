"""Lloyd's descents of k-means, many at once, by matrix products where the points live.

Distances and the sums on the way are in float32, what a partition is judged by in float64. Sums
are taken a chunk of rows at a time, in a fixed order: no atomics, so that runs repeat to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_ITER = 300
# A descent stops where the centers' summed squared moves fall below this share of the mean
# variance of a coordinate: scikit-learn's rule and value.
TOLERANCE = 1e-4
_CHUNK_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 25}


@dataclass(frozen=True)
class Partitions:
    """B partitions of m rows: labels (B, m), and each cluster's sum (B, K, p) and number (B, K)."""

    labels: Tensor
    sums: Tensor
    counts: Tensor

    @classmethod
    def of(cls, V: Tensor, labels: Tensor, K: int) -> Partitions:
        """Of rows V (B or 1, m, p) in K clusters; a label of K is none. Sums are in float64."""
        sums, counts = _empty(V, len(labels), K)
        for part in chunks(V.shape[1], len(labels) * K, V.device):
            more, number = _sum(V[:, part].double(), labels[:, part], K)
            sums += more
            counts += number
        return cls(labels, sums, counts)

    def take(self, which: Tensor) -> Partitions:
        return Partitions(self.labels[which], self.sums[which], self.counts[which])

    @property
    def centers(self) -> Tensor:
        """The means of the clusters (B, K, p), 0 where there are no members."""
        return self.sums / self.counts.clamp_min(1.0)[..., None]

    @property
    def explained(self) -> Tensor:
        """n_k |c_k|^2 (B, K) of every cluster: the sum of squares is |V|_F^2 less their sum."""
        return self.sums.square().sum(2) / self.counts.clamp_min(1.0)


def tolerance(V: Tensor) -> float:
    """The summed squared moves at which descents of the rows of V (n, p) stop."""
    return TOLERANCE * float(V.var(0, correction=0).mean())


def descended(V: Tensor, centers: Tensor, allowed: float) -> Partitions:
    """Partitions of all rows of V (n, p) by descents from ``centers`` (B, K, p)."""
    labels, _ = descend(V[None], centers, allowed)
    return Partitions.of(V[None], labels, centers.shape[1])


def descend(
    V: Tensor,
    centers: Tensor,
    allowed: float,
    *,
    present: Tensor | None = None,
    max_iter: int = MAX_ITER,
) -> tuple[Tensor, Tensor]:
    """Lloyd's descents from ``centers`` (B, K, p) float64, of rows of their own or the same rows.

    The rows V are (B, m, p) or (1, m, p). Returns labels (B, m) int64 and the centers that they are
    nearest to. Where ``present`` (B, m) is False there is no row, and the label is K. A center that
    loses all its points stays.
    """
    B = len(centers)
    labels = torch.empty((B, V.shape[1]), dtype=torch.int64, device=V.device)
    centers = centers.clone()
    left = torch.arange(B, device=V.device)  # the descents that still move
    last = centers.new_full((B,), torch.inf)  # how far they moved
    for _ in range(max_iter):
        now = centers[left]
        labels[left], sums, counts = assign_and_sum(V, now, present)
        moved = torch.where(counts[..., None] > 0, sums / counts.clamp_min(1.0)[..., None], now)
        step = (moved - now).square().sum((1, 2))
        still = ((last > allowed) & (step > 0)).nonzero()[:, 0]
        if len(still) == 0:
            break
        if len(V) == 1 or 2 * len(still) <= len(left):  # fewer are worth a copy of their rows
            left, moved, step = left[still], moved[still], step[still]
            V = V[still] if len(V) > 1 else V
            present = None if present is None else present[still]
        centers[left], last = moved, step
    return labels, centers


def assign_and_sum(
    V: Tensor, centers: Tensor, present: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Nearest centers (B, m), and the sum (B, K, p) and number (B, K) of each center's rows."""
    B, K, _ = centers.shape
    c = centers.to(V.dtype).mT
    # |v - c|^2 = |v|^2 - 2 v.c + |c|^2, and |v|^2 does not choose.
    offset = -0.5 * c.square().sum(1, keepdim=True)
    labels = torch.empty((B, V.shape[1]), dtype=torch.int64, device=V.device)
    sums, counts = _empty(V, B, K)
    for part in chunks(V.shape[1], B * K, V.device):
        rows = V[:, part]
        nearest = torch.baddbmm(offset, rows.expand(B, -1, -1), c).argmax(2)
        if present is not None:
            nearest.masked_fill_(~present[:, part], K)
        labels[:, part] = nearest
        more, number = _sum(rows, nearest, K)
        sums += more
        counts += number
    return labels, sums, counts


def chunks(n: int, width: int, device: torch.device) -> Iterator[slice]:
    """Slices of n rows, so that a matrix of ``width`` columns has a bounded number of elements."""
    step = max(1, _CHUNK_ELEMENTS.get(device.type, 1 << 20) // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, start + step)


def _sum(rows: Tensor, labels: Tensor, K: int) -> tuple[Tensor, Tensor]:
    """The sums (B, K, p) and numbers (B, K) of rows (B or 1, b, p) by label (B, b)."""
    B, p = len(labels), rows.shape[2]
    if rows.device.type == "cpu":  # one after another, which GPUs do in any order
        bins = (labels + (K + 1) * torch.arange(B)[:, None]).flatten()
        sums = rows.new_zeros((B * (K + 1), p))
        sums.index_add_(0, bins, rows.expand(B, -1, -1).reshape(-1, p))
        counts = torch.bincount(bins, minlength=len(sums))
        return sums.view(B, K + 1, p)[:, :K], counts.view(B, K + 1)[:, :K]
    indicator = (labels[:, None] == torch.arange(K, device=rows.device)[:, None]).to(rows.dtype)
    return indicator @ rows.expand(B, -1, -1), indicator.sum(2, dtype=torch.float64)


def _empty(V: Tensor, B: int, K: int) -> tuple[Tensor, Tensor]:
    sums = torch.zeros((B, K, V.shape[2]), dtype=torch.float64, device=V.device)
    return sums, torch.zeros((B, K), dtype=torch.float64, device=V.device)
