"""The k largest |q_i . y_j| per row, exactly, without the N x N matrix."""

from __future__ import annotations

import torch
from torch import Tensor

_TILE_BYTES = {"cpu": 8 << 20, "cuda": 1 << 30}
_GATHER_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}


def largest_inner_products(
    Q: Tensor, Y: Tensor, k: int, *, diagonal: int | None = None, group: int | None = None
) -> tuple[Tensor, Tensor]:
    """For each row of Q the k rows of Y with the largest |q . y|.

    Q is (n, d), Y is (N, d). Returns ``values`` (n, k), the signed inner products in descending
    order of magnitude, and ``indices`` (n, k). With ``diagonal=o`` the pair (i, i + o) is left
    out (a point does not represent itself). Ties may fall either way.

    Columns are scanned in groups, and a row keeps only each group's largest magnitude. The k best
    columns lie in the k groups with the largest maxima (a group outside them would need k larger
    entries elsewhere), so only those groups are multiplied out again and ranked. Memory: one tile,
    plus n N / group maxima for a block of rows.
    """
    n, N = Q.shape[0], Y.shape[0]
    available = N - (diagonal is not None)
    k = min(k, available)
    if group is None:
        group = 32 if Y.shape[1] <= 128 else 16
    kind = Q.device.type if Q.device.type in _TILE_BYTES else "cuda"
    n_groups = -(-N // group)
    keep = min(k, n_groups)
    block = _block_rows(Q, k, group, kind, n_groups)
    values = torch.empty(n, k, dtype=Q.dtype, device=Q.device)
    indices = torch.empty(n, k, dtype=torch.int64, device=Q.device)
    for start in range(0, n, block):
        stop = min(start + block, n)
        own = None if diagonal is None else start + diagonal
        maxima = _group_maxima(Q[start:stop], Y, group, own, _TILE_BYTES[kind])
        chosen = maxima.topk(keep, dim=0).indices.T  # (b, keep)
        values[start:stop], indices[start:stop] = _rank_groups(
            Q[start:stop], Y, chosen, group, k, own
        )
    return values, indices


def _block_rows(Q: Tensor, k: int, group: int, kind: str, n_groups: int) -> int:
    per_row = Q.element_size() * (k * group * (Q.shape[1] + 4) + n_groups)
    return max(16, min(1024 if kind == "cpu" else 16384, _GATHER_BYTES[kind] // per_row))


def _group_maxima(Q: Tensor, Y: Tensor, group: int, own: int | None, tile_bytes: int) -> Tensor:
    """max over each group of ``group`` columns of |Y Q'|, (N / group, b), the diagonal left out."""
    b, N = Q.shape[0], Y.shape[0]
    maxima = torch.empty(-(-N // group), b, dtype=Q.dtype, device=Q.device)
    step = max(group, tile_bytes // (b * Q.element_size()) // group * group)
    buffer = torch.empty(min(step, N), b, dtype=Q.dtype, device=Q.device)
    Qt = Q.T
    for start in range(0, N, step):
        stop = min(start + step, N)
        tile = torch.mm(Y[start:stop], Qt, out=buffer[: stop - start])  # (c, b)
        if own is not None:
            _clear_diagonal(tile, start, own, b)
        whole = (stop - start) // group
        first = start // group
        if whole:
            grouped = tile[: whole * group].view(whole, group, b)
            # |t| <= m means -m <= t <= m: two reductions read the tile without rewriting it.
            torch.maximum(
                grouped.amax(1), grouped.amin(1).neg_(), out=maxima[first : first + whole]
            )
        if whole * group < stop - start:
            maxima[first + whole] = tile[whole * group :].abs().amax(0)
    return maxima


def _clear_diagonal(tile: Tensor, start: int, own: int, b: int) -> None:
    """Zero the entries (own + i, i) that fall into the tile's rows start, start + 1, ..."""
    first = max(start, own)
    last = min(start + tile.shape[0], own + b)
    if first < last:
        rows = torch.arange(first - start, last - start, device=tile.device)
        tile[rows, rows + (start - own)] = 0.0


def _rank_groups(
    Q: Tensor, Y: Tensor, chosen: Tensor, group: int, k: int, own: int | None
) -> tuple[Tensor, Tensor]:
    """Multiply the chosen groups out again and take the k largest magnitudes of them."""
    b, N = Q.shape[0], Y.shape[0]
    offsets = torch.arange(group, device=Q.device)
    columns = (chosen[:, :, None] * group + offsets).reshape(b, -1)  # (b, keep * group)
    outside = columns >= N
    columns = columns.clamp_max(N - 1)
    products = torch.bmm(Y[columns.reshape(-1)].view(b, columns.shape[1], -1), Q[:, :, None])
    products = products[:, :, 0]
    magnitude = products.abs()
    magnitude[outside] = -1.0
    if own is not None:
        magnitude[columns == (own + torch.arange(b, device=Q.device))[:, None]] = -1.0
    top = magnitude.topk(k, dim=1).indices
    return products.gather(1, top), columns.gather(1, top)
