"""The k largest |q_i . y_j| per row, exactly, without the N x N matrix.

Three scans with one result. The *direct* scan, for not too many columns on a CPU, multiplies out
some rows and ranks them whole. The *plain* scan multiplies in the precision of the data too, and
ranks a few groups of columns. The *half* scan, for float32 on a GPU with matrix units, multiplies
float16 copies as a filter: its error is bounded, so what it leaves out is known to be too small,
and what it keeps is multiplied again in float32. A row for which the bound does not prove that is
scanned plainly.
"""

from __future__ import annotations

import logging
import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dcfsc.errors import unknown_name
from dcfsc.machine import one_a_core
from dcfsc.progress import progress

from .half_filter import KERNEL_WIDTH, LANES, MOST_RANKED, HalfFilter, fused

logger = logging.getLogger("dcfsc")

_TILE_BYTES = {"cpu": 2 << 20, "cuda": 128 << 20}
_GATHER_BYTES = {"cpu": 2 << 20, "cuda": 256 << 20}
# A CPU ranks so many products of a row sooner than it looks for the groups that can matter.
_MOST_DIRECT = 40_000
_DIRECT_BYTES, _DIRECT_COLUMNS = 16 << 20, 1024  # of products together, and in the inner cache
_LEVELS = (8, 4)  # columns, and groups of them, that have one maximum
# Fewer columns are scanned plainly. From here on an H200 is faster by the filter, but for rows that
# are nearly the same (results/benchmarks/scan_gpu.json).
_SMALLEST_FILTERED = 10_000
# Of the rows that the first round leaves unproven, a larger share says that the bounds are too
# coarse for these data (near copies everywhere): more groups would cost more than the plain scan.
_HOPELESS = 0.25

# Multiply-adds that take minutes: worth a word on what else there is.
_LONG_SCAN = {"cpu": 1e13, "cuda": 1e16}

Scan = Literal["auto", "direct", "plain", "half"]


def largest_inner_products(
    Q: Tensor,
    Y: Tensor,
    k: int,
    *,
    diagonal: int | None = None,
    group: int | None = None,
    scan: Scan = "auto",
) -> tuple[Tensor, Tensor]:
    """For each row of Q the k rows of Y with the largest |q . y|.

    Q is (n, d), Y is (N, d). Returns ``values`` (n, k), the signed inner products in descending
    order of magnitude, and ``indices`` (n, k). With ``diagonal=o`` the pair (i, i + o) is left
    out (a point does not represent itself). Ties, up to the rounding of the data's precision, may
    fall either way.

    Plainly, columns are scanned in groups, and a row keeps only each group's largest magnitude. The
    k best columns lie in the k groups with the largest maxima (a group outside them would need k
    larger entries elsewhere), so only those groups are multiplied out again and ranked. Memory: one
    tile, plus n N / group maxima for a block of rows: a few hundred MiB.

    ``scan="half"`` takes upper bounds of the maxima from float16 products instead, and more
    groups than k (see :class:`HalfFilter`); "auto" does so for float32 on a GPU and many columns.
    ``scan="direct"`` has no groups; "auto" takes it on a CPU for fewer than 40,000 columns.
    """
    n, N = Q.shape[0], Y.shape[0]
    k = min(k, N - (diagonal is not None))
    own = None if diagonal is None else torch.arange(diagonal, diagonal + n, device=Q.device)
    if scan == "auto" and group is None and _kind(Q) == "cpu" and N <= _MOST_DIRECT:
        scan = "direct"
    elif scan == "auto":
        scan = "half" if _filter_pays(Q, N) else "plain"
    if n * N * Y.shape[1] > _LONG_SCAN[_kind(Q)]:
        logger.info(
            "neighbor scan: %.1e multiply-adds for %d x %d pairs; an approximate search does a "
            "few hundredths of them",
            n * N * Y.shape[1],
            n,
            N,
        )
    if scan == "direct":
        return _direct(Q, Y, k, own)
    if scan == "plain":
        return _plain(Q, Y, k, own, group)
    if scan == "half":
        return _filtered(Q, Y, k, own, group)
    raise unknown_name("scan", scan, ("auto", "direct", "plain", "half"))


def _filter_pays(Q: Tensor, N: int) -> bool:
    return (
        Q.is_cuda
        and Q.dtype == torch.float32
        and N >= _SMALLEST_FILTERED
        and Q.shape[1] <= KERNEL_WIDTH  # beyond, the products cost as much as what the filter saves
        and torch.cuda.get_device_capability(Q.device)[0] >= 8
    )


def _kind(Q: Tensor) -> str:
    return "cpu" if Q.device.type == "cpu" else "cuda"


def _direct(Q: Tensor, Y: Tensor, k: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
    """The k largest of all products of a row, some rows at a time, a share of them on each core.

    The products of some rows stay in a cache, with the largest magnitude of every few columns, and
    of every few of those. Each level is searched only below the k + 1 largest entries of the one
    above: the k best columns are there, as one group at most holds no column but the row's own.
    """
    n, N = Q.shape[0], Y.shape[0]
    values = torch.empty(n, k, dtype=Q.dtype, device=Q.device)
    indices = torch.empty(n, k, dtype=torch.int64, device=Q.device)
    columns = -(-N // math.prod(_LEVELS)) * math.prod(_LEVELS)
    Y = F.pad(Y, (0, 0, 0, columns - N))
    step = max(16, min(256, _DIRECT_BYTES // (columns * Q.element_size())))
    cores = min(torch.get_num_threads(), max(1, n // step))
    share = -(-n // cores)

    def scan(first: int) -> None:
        levels = [Y.new_empty(columns, step)]
        for width in _LEVELS:
            levels.append(Y.new_empty(len(levels[-1]) // width, step))
        last = min(first + share, n)
        for start in range(first, last, step):
            if first == 0:
                progress(start, share)
            rows = slice(start, min(start + step, last))
            views = [level[:, : rows.stop - start] for level in levels]
            mine = None if own is None else own[rows]
            _multiply(views, Y, Q[rows], mine, N)
            values[rows], indices[rows] = _search(views, N, k, mine)

    firsts = range(0, n, max(1, share))
    if len(firsts) < 2:
        for first in firsts:
            scan(first)
    else:
        one_a_core(scan, firsts, Q.device)
    return values, indices


def _multiply(levels: list[Tensor], Y: Tensor, Q: Tensor, own: Tensor | None, N: int) -> None:
    """The products Y Q' as the first level, and each other level's maxima of the one below it.

    Rows of Y from N on are padding: a group of nothing else comes after all others.
    """
    products, maxima = levels[:2]
    group = _LEVELS[0]
    for start in range(0, len(Y), _DIRECT_COLUMNS):
        tile = products[start : start + _DIRECT_COLUMNS]
        torch.mm(Y[start : start + _DIRECT_COLUMNS], Q.T, out=tile)
        if own is not None:
            _clear_own(tile, start, own)
        _largest_magnitudes(tile, group, maxima[start // group : (start + len(tile)) // group])
    for width, below, above in zip(_LEVELS[1:], levels[1:], levels[2:], strict=False):
        torch.amax(below.view(-1, width, len(Q)), 1, out=above)
    for depth, level in enumerate(levels[1:], start=1):
        level[-(-N // math.prod(_LEVELS[:depth])) :] = -1.0


def _search(levels: list[Tensor], N: int, k: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
    """Values and columns (b, k) of the largest magnitudes in the first of the levels (m, b)."""
    top = levels[-1].T
    columns = torch.arange(top.shape[1], device=top.device).expand(top.shape)
    for level, width in zip(levels[::-1], (*_LEVELS[::-1], 0), strict=True):
        entries = level.T.gather(1, columns)
        magnitude = entries.abs() if width == 0 else entries
        if width == 0:
            outside = columns >= N if own is None else (columns >= N) | (columns == own[:, None])
            magnitude.masked_fill_(outside, -1.0)
        chosen = _largest(magnitude, k + (width > 0))
        columns = columns.gather(1, chosen)
        if width:
            children = torch.arange(width, device=top.device)
            columns = (columns[:, :, None] * width + children).flatten(1)
    entries = entries.gather(1, chosen)
    order = entries.abs().argsort(dim=1, descending=True)
    return entries.gather(1, order), columns.gather(1, order)


def _largest(magnitude: Tensor, k: int) -> Tensor:
    """The places (b, k) of the k largest of each row, in any order."""
    most = magnitude.shape[1]
    if k >= most:
        return torch.arange(most, device=magnitude.device).expand(magnitude.shape)
    # several times as quick as topk, which makes pairs first
    places = np.argpartition(magnitude.cpu().contiguous().numpy(), most - k, axis=1)[:, most - k :]
    return torch.from_numpy(places).to(magnitude.device)


def _plain(
    Q: Tensor, Y: Tensor, k: int, own: Tensor | None, group: int | None
) -> tuple[Tensor, Tensor]:
    """The scan in the precision of the data; ``own`` (n,) is the column each row leaves out."""
    n, N = Q.shape[0], Y.shape[0]
    if group is None:
        group = 32 if Y.shape[1] <= 128 else 16
    n_groups = -(-N // group)
    keep = min(k, n_groups)
    offsets = torch.arange(group, device=Q.device)
    values = torch.empty(n, k, dtype=Q.dtype, device=Q.device)
    indices = torch.empty(n, k, dtype=torch.int64, device=Q.device)
    for rows in _row_blocks(Q, k, group, n_groups):
        progress(rows.start, n)
        mine = None if own is None else own[rows]
        maxima = _group_maxima(Q[rows], Y, group, mine)
        chosen = maxima.topk(keep, dim=0).indices.T  # (b, keep)
        columns = (chosen[:, :, None] * group + offsets).flatten(1)  # (b, keep * group)
        values[rows], indices[rows] = _rank(Q[rows], Y, columns, k, mine)
    return values, indices


def _row_blocks(Q: Tensor, k: int, group: int, n_groups: int) -> list[slice]:
    if _kind(Q) == "cpu":
        step = 512  # a tile of so many rows stays in the cache
    else:
        per_row = Q.element_size() * (k * group * (Q.shape[1] + 4) + n_groups)
        step = max(16, min(16384, _GATHER_BYTES["cuda"] // per_row))
    return [slice(start, start + step) for start in range(0, Q.shape[0], step)]


def _group_maxima(Q: Tensor, Y: Tensor, group: int, own: Tensor | None) -> Tensor:
    """max over each group of ``group`` columns of |Y Q'|, (N / group, b), own columns left out."""
    b, N = Q.shape[0], Y.shape[0]
    maxima = torch.empty(-(-N // group), b, dtype=Q.dtype, device=Q.device)
    step = max(group, _TILE_BYTES[_kind(Q)] // (b * Q.element_size()) // group * group)
    buffer = torch.empty(min(step, N), b, dtype=Q.dtype, device=Q.device)
    Qt = Q.T
    for start in range(0, N, step):
        stop = min(start + step, N)
        tile = torch.mm(Y[start:stop], Qt, out=buffer[: stop - start])  # (c, b)
        if own is not None:
            _clear_own(tile, start, own)
        whole = (stop - start) // group
        first = start // group
        if whole:
            _largest_magnitudes(tile[: whole * group], group, maxima[first : first + whole])
        if whole * group < stop - start:
            maxima[first + whole] = tile[whole * group :].abs().amax(0)
    return maxima


def _largest_magnitudes(tile: Tensor, group: int, out: Tensor) -> None:
    """The largest magnitude (c / group, b) in each ``group`` rows of a tile (c, b)."""
    grouped = tile.view(-1, group, tile.shape[1])
    # |t| <= m means -m <= t <= m: two reductions read the tile without rewriting it.
    torch.maximum(grouped.amax(1), grouped.amin(1).neg_(), out=out)


def _clear_own(tile: Tensor, start: int, own: Tensor) -> None:
    """Zero the entries (own_i - start, i) of a tile (c, b) that starts at column ``start``."""
    place = (own - start)[None, :]
    inside = (place >= 0) & (place < tile.shape[0])
    place = place.clamp(0, tile.shape[0] - 1)
    # Gathered and put back rather than indexed by a mask, which would wait for the device.
    tile.scatter_(0, place, tile.gather(0, place).masked_fill_(inside, 0.0))


def _rank(
    Q: Tensor, Y: Tensor, columns: Tensor, k: int, own: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Of the ``columns`` (b, m) of each row, those with the k largest magnitudes; >= N is none."""
    N = Y.shape[0]
    outside = columns >= N
    columns = columns.clamp_max(N - 1)
    step = max(1, _GATHER_BYTES[_kind(Q)] // (columns.shape[1] * Y[0].nbytes))
    products = torch.cat(
        [_products(q, Y, c) for q, c in zip(Q.split(step), columns.split(step), strict=True)]
    )
    magnitude = products.abs().masked_fill_(outside, -1.0)
    if own is not None:
        magnitude.masked_fill_(columns == own[:, None], -1.0)
    top = magnitude.topk(k, dim=1).indices
    return products.gather(1, top), columns.gather(1, top)


def _rank_groups(
    half: HalfFilter, Q: Tensor, Y: Tensor, groups: Tensor, k: int, own: Tensor | None
) -> tuple[Tensor, Tensor]:
    """:func:`_rank` of the columns of ``groups`` (b, keep)."""
    found = None
    if Q.shape[1] <= KERNEL_WIDTH and groups.shape[1] * half.group <= MOST_RANKED:
        none = groups.new_full((len(Q),), -1) if own is None else own
        found = fused("ranked_groups", Q, Y, none, groups, k, half.group, LANES)
    return _rank(Q, Y, half.columns(groups), k, own) if found is None else found


def _products(Q: Tensor, Y: Tensor, columns: Tensor) -> Tensor:
    """q_i . y_j for j in row i of ``columns`` (b, m), in the precision of the data: (b, m)."""
    rows = Y[columns.reshape(-1)].view(*columns.shape, Y.shape[1])
    if Q.is_cuda:
        # A matrix product might be rounded to TF32, by a setting that is not ours to change.
        return rows.mul_(Q[:, None, :]).sum(2)
    return torch.bmm(rows, Q[:, :, None])[:, :, 0]


def _filtered(
    Q: Tensor, Y: Tensor, k: int, own: Tensor | None, group: int | None
) -> tuple[Tensor, Tensor]:
    """The half scan: two rounds with more and more groups, then the plain scan for what is left."""
    n = Q.shape[0]
    Y = Y.contiguous()
    half = HalfFilter(Y, group)
    values = torch.empty(n, k, dtype=Q.dtype, device=Q.device)
    indices = torch.empty(n, k, dtype=torch.int64, device=Q.device)
    pending = torch.arange(n, device=Q.device)
    for keep in (2 * k + 8, 32 * (k + 4)):
        proven = []
        # A candidate takes its index, its product, its magnitude and what ranks them.
        step = _GATHER_BYTES[_kind(Q)] // (24 * keep * half.group)
        for rows in pending.split(max(1, min(half.block_rows, step))):
            mine = None if own is None else own[rows]
            q = Q[rows]
            groups, rest = half.groups(q, mine, keep)
            values[rows], indices[rows] = _rank_groups(half, q, Y, groups, k, mine)
            proven.append(half.proves(q, values[rows, -1].abs(), rest))
        pending = pending[~torch.cat(proven)]
        if len(pending) == 0:
            return values, indices
        if len(pending) > _HOPELESS * n:
            break
    logger.info("neighbor scan: %d of %d rows need the plain scan", len(pending), n)
    mine = None if own is None else own[pending]
    values[pending], indices[pending] = _plain(Q[pending], Y, k, mine, None)
    return values, indices
