"""Bounds of groups' largest |q . y| in one pass on a GPU: the tile of products is never stored.

Needs Triton, which PyTorch brings along on Linux with CUDA; import it only there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 128
# Rows are taken whole, up to ``KERNEL_WIDTH`` features. Longer ones would need a sum over parts,
# which Triton 3.6 got wrong on compute capability 9; the plain scan is as fast for them.


# Counts only bound what is read and written; a build for every kind of number would cost seconds.
@triton.jit(do_not_specialize=["b", "N", "n_groups"])
def _bounds_kernel(
    Q, Y, own, error, U, b, N, n_groups, stride_u,
    D: tl.constexpr, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """U[i, (s, l)] = error[(s, l)] + max over t < G of |q_i . y_(s G BN + t BN + l)|.

    One program takes BM rows and the G BN columns of one s. Rows vary fastest over programs, so
    that those running together read the same columns.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    lanes = tl.arange(0, BN)
    depth = tl.arange(0, D)
    first = tl.program_id(1) * (G * BN)
    mine = tl.load(own + rows, mask=rows < b, other=-1)
    q_place = Q + rows.to(tl.int64)[:, None] * D + depth[None, :]
    best = tl.zeros((BM, BN), dtype=tl.float32)
    q = tl.load(q_place, mask=(rows < b)[:, None], other=0.0)
    for t in range(G):
        columns = first + t * BN + lanes
        y_place = Y + columns.to(tl.int64)[None, :] * D + depth[:, None]
        y = tl.load(y_place, mask=(columns < N)[None, :], other=0.0)
        product = tl.abs(tl.dot(q, y))
        product = tl.where(columns[None, :] == mine[:, None], 0.0, product)
        best = tl.maximum(best, product)
    groups = tl.program_id(1) * BN + lanes
    margin = tl.load(error + groups, mask=groups < n_groups, other=0.0)
    place = U + rows.to(tl.int64)[:, None] * stride_u + groups[None, :]
    inside = (rows < b)[:, None] & (groups < n_groups)[None, :]
    tl.store(place, best + margin[None, :], mask=inside)


def group_bounds(
    q: Tensor, Y: Tensor, own: Tensor, error: Tensor, U: Tensor, group: int, lanes: int
) -> None:
    """Fill U (b, >= n_groups) with the bounds of the groups of Y (N, D) for the rows q (b, D).

    q and Y are float16 and contiguous, D a power of two up to ``KERNEL_WIDTH``; own (b,) is
    the column each row leaves out, or -1; error (n_groups,) float32 is added to the maxima;
    ``group`` and ``lanes`` say how columns are grouped (:mod:`.half_filter`).
    """
    b, D = q.shape
    N = Y.shape[0]
    grid = (triton.cdiv(b, _ROWS), triton.cdiv(N, group * lanes))
    with torch.cuda.device(q.device):
        _bounds_kernel[grid](
            q, Y, own.to(torch.int32), error, U, b, N, error.shape[0], U.stride(0),
            D=D, G=group, BM=_ROWS, BN=lanes, num_warps=8, num_stages=3,
        )  # fmt: skip
