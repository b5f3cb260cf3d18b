"""The k largest |y_i . y_j| per row where the rows of Y are divided among processes.

Every process scans its own rows against a block of another's at a time, which that one broadcasts,
and merges what it finds:

    products    N^2 d / R  a process of R
    traffic     N d numbers received by each process, once a scan
    memory      one block of rows, and 2 (k + SPARE) candidates a row

Of equal magnitudes the smallest column goes first, so that the result does not depend on how the
rows are divided, nor on whether they are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dcfsc import processes

from .exact import largest_inner_products

BLOCK_BYTES = {"cpu": 1 << 26, "cuda": 1 << 30}
# Candidates beyond k from every block: a scan of one block may leave out either of two equal
# magnitudes, so that the order of columns can only decide among those it returns.
SPARE = 4
TIE = 16


def largest_inner_products_of_all(Q: Tensor, Y: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """For each row of Q the k rows of all processes' Y, but its own, with the largest |q . y|.

    Q and Y are (n_r, d), a row each of this process's samples, N in all. Returns ``values``
    (n_r, k), signed, in descending order of magnitude, and ``indices`` (n_r, k) among the N samples
    in the order of the processes. To be called by all processes together.
    """
    counts = processes.row_counts(len(Y), Y.device)
    others = sum(counts) - 1
    k = min(k, others)
    me, own_start = processes.rank(), sum(counts[: processes.rank()])
    own = torch.arange(own_start, own_start + len(Y), device=Y.device)
    values = Q.new_zeros(len(Q), 0)
    indices = torch.zeros(len(Y), 0, dtype=torch.int64, device=Y.device)
    limit = BLOCK_BYTES.get(Y.device.type, BLOCK_BYTES["cpu"])
    step = max(1, limit // (Y.shape[1] * Y.element_size()))
    first = 0
    for source, count in enumerate(counts):
        for start in range(0, count, step):
            length = min(step, count - start)
            if source == me:
                block = Y[start : start + length].contiguous()
            else:
                block = Y.new_empty(length, Y.shape[1])
            processes.broadcast(block, source)
            # One more than wanted of the own rows: the point itself is among them.
            found, columns = largest_inner_products(Q, block, k + SPARE + (source == me))
            values, indices = _merged(
                torch.cat([values, found], 1),
                torch.cat([indices, columns + (first + start)], 1),
                own,
                k + SPARE,
            )
        first += count
    # Where there are fewer samples than candidates the last one is the point itself.
    values, indices = in_order(values[:, :others], indices[:, :others])
    return values[:, :k].contiguous(), indices[:, :k].contiguous()


def largest_among(Y: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest |y_i . y_j|, j != i, of each row, over the samples of all processes."""
    return among_in_order(*scan_among(Y, Y, k))


def scan_among(Q: Tensor, Y: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest |q_i . y_j|, j != i, of each row; equal magnitudes may come in any order."""
    if processes.active():
        return largest_inner_products_of_all(Q, Y, k)
    return largest_inner_products(Q, Y, k, diagonal=0)


def among_in_order(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """What :func:`scan_among` found, by :func:`in_order`; several processes have it so already."""
    return (values, indices) if processes.active() else in_order(values, indices)


def _merged(values: Tensor, indices: Tensor, own: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of the candidates (n, m), in order, a row's ``own`` column being the worst."""
    magnitude = values.abs().masked_fill_(indices == own[:, None], -1.0)
    order = magnitude.argsort(dim=1, descending=True, stable=True)[:, :k]
    return values.gather(1, order), indices.gather(1, order)


def in_order(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Values and their columns (n, k) by descending magnitude, equal magnitudes by column.

    Products with copies of a sample are equal, but for how each was rounded; so magnitudes within
    a few units in the last place of the row's largest count as equal, and are made so.
    """
    if values.shape[1] < 2:
        return values, indices
    m, order = values.abs().sort(dim=1, descending=True, stable=True)
    values, indices = values.gather(1, order), indices.gather(1, order)
    apart = m[:, :-1] - m[:, 1:] > TIE * torch.finfo(m.dtype).eps * m[:, :1]
    group = torch.zeros_like(indices)
    group[:, 1:] = apart.cumsum(1)
    # The first magnitude of every group, at all of its places.
    place = torch.arange(values.shape[1], device=values.device).expand_as(indices)
    leader = torch.where(F.pad(apart, (1, 0), value=True), place, 0).cummax(1).values
    values = m.gather(1, leader).copysign(values)
    by_column = indices.argsort(dim=1)
    order = by_column.gather(1, group.gather(1, by_column).argsort(dim=1, stable=True))
    return values.gather(1, order), indices.gather(1, order)
