"""Nearly the k largest |y_i . y_j| per row, for more points than an exact scan can afford.

An inverted file: the rows' directions are grouped into C cells, a cell being the points whose
direction is nearest to its center c up to sign, argmax_c |y . c|. A point meets only the points of
p cells, by plain matrix products of one cell's rows with theirs: its own, and those that are among
the p / 4 nearest of the most points of its own cell (near to the cell's points, that is: centers of
cells that share a border can be far apart). With N points of d features:

    cells       S C d per round on a sample of S rows,  then  N C d
    products    N (p N / C) d,  a share p / C of the exact scan's N^2 d
    memory      N (d + k), and one tile

C = 2 sqrt(N) by default, so that p = 32 leaves 1.6 % of the products at a million points and 0.5 %
at ten million. What is lost is measured: `recall` is the share of the exact neighbors, of a sample
of rows, that were found.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dcfsc.errors import InputError

from .exact import largest_inner_products
from .rows import unit_rows

N_PROBE = 32
SAMPLE_PER_CELL = 40
ROUNDS = 8
RECALL_ROWS = 1000
_TILE_BYTES = {"cpu": 16 << 20, "cuda": 512 << 20}


def default_cells(n: int) -> int:
    return max(1, min(n // 8, round(2 * n**0.5)))


def approximately_largest_inner_products(
    Y: Tensor, k: int, *, n_cells: int | None = None, n_probe: int = N_PROBE, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """For each row of Y (N, d), nearly all of the k other rows with the largest |y_i . y_j|.

    Returns values (N, k), signed, in descending order of magnitude, and indices (N, k). With
    ``n_probe >= n_cells`` the result is exact.
    """
    n = Y.shape[0]
    k = min(k, n - 1)
    if n_cells is None:
        n_cells = default_cells(n)
    if not 1 <= n_cells <= n or n_probe < 1:
        raise InputError(
            f"n_cells={n_cells} and n_probe={n_probe}: give 1 to {n} cells and at least one probe."
        )
    centers = _centers(Y, n_cells, seed)
    nearest = _nearest(Y, centers, min(n_cells, max(2, n_probe // 4)))
    cell = nearest[:, 0]
    order = torch.argsort(cell, stable=True)
    counts = torch.bincount(cell, minlength=n_cells)
    ends = counts.cumsum(0).tolist()
    values = torch.empty(n, k, dtype=Y.dtype, device=Y.device)
    indices = torch.empty(n, k, dtype=torch.int64, device=Y.device)
    probes = _probes(nearest, n_cells, n_probe)
    _lengthen(probes, centers, counts, k + 1)
    for c, probed in enumerate(probes):
        members = order[ends[c - 1] if c else 0 : ends[c]]
        if len(members) == 0:
            continue
        candidates = torch.cat([order[ends[p - 1] if p else 0 : ends[p]] for p in probed])
        # A cell is the first of its own candidates, so that row i is candidate i.
        values[members], places = largest_inner_products(Y[members], Y[candidates], k, diagonal=0)
        indices[members] = candidates[places]
    return values, indices


def recall(Y: Tensor, values: Tensor, *, rows: int = RECALL_ROWS, seed: int = 0) -> float:
    """Share of the exact k largest |y_i . y_j| among ``values`` (N, k), over a sample of rows."""
    n, k = values.shape
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:rows].to(Y.device)
    found, columns = largest_inner_products(Y[chosen], Y, k + 1)
    # The point itself is among its k + 1 nearest, unless others are even nearer.
    magnitude = found.abs().masked_fill(columns == chosen[:, None], -1.0)
    threshold = magnitude.topk(k, dim=1).values[:, -1:]
    # Ties count as found: by value, not by index, and up to rounding.
    slack = 1e-5 * magnitude.amax(1, keepdim=True)
    return float((values[chosen].abs() >= threshold - slack).double().mean())


def _centers(Y: Tensor, n_cells: int, seed: int) -> Tensor:
    """Unit centers (C, d) by k-means of directions up to sign, on a sample of the rows.

    A cell's new center is the mean of its members, each with the sign that agrees with the old one.
    """
    n = Y.shape[0]
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(n, generator=generator)[: n_cells * SAMPLE_PER_CELL].to(Y.device)
    sample = unit_rows(Y[chosen])
    centers = sample[:n_cells].clone()
    for _ in range(ROUNDS):
        cell = _nearest(sample, centers, 1)[:, 0]
        sign = (sample * centers[cell]).sum(1, keepdim=True).sign()
        order = torch.argsort(cell, stable=True)
        counts = torch.bincount(cell, minlength=n_cells)
        # Sums of stretches rather than atomic additions: they repeat to the bit.
        sums = torch.segment_reduce((sign * sample)[order], "sum", lengths=counts, initial=0.0)
        centers = torch.where((counts > 0)[:, None], unit_rows(sums), centers)
    return centers


def _nearest(Y: Tensor, centers: Tensor, count: int) -> Tensor:
    """The ``count`` cells with the largest |y . c| for every row, nearest first: (n, count)."""
    kind = "cpu" if Y.device.type == "cpu" else "cuda"
    step = max(1, _TILE_BYTES[kind] // (len(centers) * Y.element_size()))
    return torch.cat(
        [(rows @ centers.T).abs_().topk(count, dim=1).indices for rows in Y.split(step)]
    )


def _probes(nearest: Tensor, n_cells: int, n_probe: int) -> list[list[int]]:
    """For each cell itself and the n_probe - 1 cells that its points name most often."""
    if n_probe >= n_cells:
        return [[c, *range(c), *range(c + 1, n_cells)] for c in range(n_cells)]
    named, votes = torch.unique(nearest[:, :1] * n_cells + nearest, return_counts=True)
    cell, other = named // n_cells, named % n_cells
    # Every point names its own cell, so that no other has more votes; it must come first.
    votes = votes + (cell == other)
    order = torch.argsort(cell * (int(votes.max()) + 1) - votes, stable=True)
    sizes = torch.bincount(cell, minlength=n_cells)
    first = sizes.cumsum(0) - sizes
    rank = torch.arange(len(order), device=order.device) - first[cell[order]]
    kept = order[rank < n_probe]
    return [part.tolist() for part in other[kept].cpu().split(sizes.clamp_max(n_probe).tolist())]


def _lengthen(probes: list[list[int]], centers: Tensor, counts: Tensor, least: int) -> None:
    """Give cells whose probes hold fewer than ``least`` points the nearest centers' cells too."""
    sizes = counts.tolist()
    for c, probed in enumerate(probes):
        if not sizes[c] or sum(sizes[p] for p in probed) >= least:
            continue
        for p in (centers @ centers[c]).abs().argsort(descending=True).tolist():
            if p not in probed:
                probed.append(p)
                if sum(sizes[q] for q in probed) >= least:
                    break
