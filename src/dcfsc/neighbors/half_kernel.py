"""The steps of the half scan on a GPU, a kernel each: the tile of products is never stored.

Needs Triton, which PyTorch brings along on Linux with CUDA; import it only there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 64
# Rows are taken whole, up to ``KERNEL_WIDTH`` features. Longer ones would need a sum over parts,
# which Triton 3.6 got wrong on compute capability 9; the plain scan is as fast for them.


# Counts only bound what is read and written; a build for every kind of number would cost seconds.
@triton.jit(do_not_specialize=["b", "N", "n_groups", "width"])
def _bounds_kernel(
    Q, Y, own, error, U, maxima, b, N, n_groups, width,
    D: tl.constexpr, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """U[i, (s, l)] = error[(s, l)] + max over t < G of |q_i . y_(s G BN + t BN + l)|.

    And the maxima of C entries each. What is beyond the groups is -1. One program takes BM rows
    and the G BN columns of one s. Rows vary fastest over programs, so that those running together
    read the same columns.
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
    bound = tl.where((groups < n_groups)[None, :], best + margin[None, :], -1.0)
    place = rows.to(tl.int64)[:, None] * width
    inside = (rows < b)[:, None]
    tl.store(U + place + groups[None, :], bound, mask=inside & (groups < width)[None, :])
    stretches = tl.program_id(1) * (BN // C) + tl.arange(0, BN // C)
    largest = tl.max(tl.reshape(bound, (BM, BN // C, C)), axis=2)
    mask = inside & (stretches < width // C)[None, :]
    tl.store(maxima + place // C + stretches[None, :], largest, mask=mask)


def group_bounds(
    q: Tensor, Y: Tensor, own: Tensor, error: Tensor, group: int, lanes: int, stretch: int
) -> tuple[Tensor, Tensor]:
    """Bounds U (b, w) of the groups of Y (N, D) for the rows q (b, D), and maxima of stretches.

    q and Y are float16 and contiguous, D a power of two up to ``KERNEL_WIDTH``; own (b,) is
    the column each row leaves out, or -1; error (n_groups,) float32 is added to the maxima;
    ``group`` and ``lanes`` say how columns are grouped (:mod:`.half_filter`). w is the next
    multiple of ``stretch``, and maxima is (b, w / stretch).
    """
    b, D = q.shape
    N, n_groups = Y.shape[0], error.shape[0]
    width = triton.cdiv(n_groups, stretch) * stretch
    U = torch.empty(b, width, device=q.device)
    maxima = torch.empty(b, width // stretch, device=q.device)
    grid = (triton.cdiv(b, _ROWS), triton.cdiv(N, group * lanes))
    with torch.cuda.device(q.device):
        _bounds_kernel[grid](
            q, Y, own.to(torch.int32), error, U, maxima, b, N, n_groups, width,
            D=D, G=group, BM=_ROWS, BN=lanes, C=stretch, num_warps=4, num_stages=3,
        )  # fmt: skip
    return U, maxima


# Counts of rows and columns differ between calls; the rest is few numbers.
@triton.jit(do_not_specialize=["stretches"])
def _groups_kernel(
    U, maxima, picked, chosen, rest, stretches,
    KEEP: tl.constexpr, C: tl.constexpr, S: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """The KEEP largest entries of a row of U, in order, and the next: one program a row.

    ``maxima`` has the largest of each C entries. The KEEP + 1 stretches with the largest of them
    are picked first, then the entries from those alone.
    """
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, S)
    largest = tl.load(maxima + row * stretches + s, mask=s < stretches, other=-3.0)
    for k in range(KEEP + 1):
        # Of numbers that are none, any may be the largest, but no place outside the row.
        best = tl.minimum(tl.argmax(largest, axis=0), stretches - 1)
        tl.store(picked + row * (KEEP + 1) + k, best)
        largest = tl.where(s == best, -3.0, largest)
    tl.debug_barrier()
    m = tl.arange(0, M)
    inside = m < (KEEP + 1) * C
    stretch = tl.load(picked + row * (KEEP + 1) + m // C, mask=inside, other=0)
    place = stretch * C + m % C
    bound = tl.load(U + row * stretches * C + place, mask=inside, other=-3.0)
    for k in range(KEEP):
        best = tl.argmax(bound, axis=0)
        tl.store(chosen + row * KEEP + k, tl.sum(tl.where(m == best, place, 0), axis=0))
        bound = tl.where(m == best, -3.0, bound)
    tl.store(rest + row, tl.max(bound, axis=0))


def largest_groups(U: Tensor, maxima: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    """Places (b, keep) of the largest entries of U (b, w), and the next largest entry (b,).

    ``maxima`` (b, m) are those of stretches of w / m entries. Entries are at least -1, ``keep`` is
    less than m, and both are contiguous.
    """
    (b, w), stretches = U.shape, maxima.shape[1]
    picked = torch.empty(b, keep + 1, dtype=torch.int32, device=U.device)
    chosen = torch.empty(b, keep, dtype=torch.int32, device=U.device)
    rest = torch.empty(b, dtype=U.dtype, device=U.device)
    with torch.cuda.device(U.device):
        _groups_kernel[(b,)](
            U, maxima, picked, chosen, rest, stretches, KEEP=keep, C=w // stretches,
            S=triton.next_power_of_2(stretches),
            M=triton.next_power_of_2((keep + 1) * (w // stretches)), num_warps=2,
        )  # fmt: skip
    return chosen, rest


@triton.jit(do_not_specialize=["N"])
def _rank_kernel(
    Q, Y, own, groups, scratch, values, indices, N, d,
    K: tl.constexpr, KEEP: tl.constexpr, D: tl.constexpr, G: tl.constexpr, LANES: tl.constexpr,
    BC: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """The K largest |q . y| of a row over the columns of its groups: one program a row.

    Products are sums of float32 products in float32. Columns that are none, or the row's own, have
    the magnitude -1.
    """
    row = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, D)
    q = tl.load(Q + row * d + depth, mask=depth < d, other=0.0)
    mine = tl.load(own + row)
    for start in range(0, M, BC):
        m = start + tl.arange(0, BC)
        g = tl.load(groups + row * KEEP + m // G, mask=m < KEEP * G, other=0)
        column = g // LANES * (G * LANES) + m % G * LANES + g % LANES
        inside = (m < KEEP * G) & (column < N)
        place = Y + column.to(tl.int64)[:, None] * d + depth[None, :]
        y = tl.load(place, mask=inside[:, None] & (depth < d)[None, :], other=0.0)
        product = tl.sum(y * q[None, :], axis=1)
        product = tl.where(inside & (column != mine), product, float("nan"))
        tl.store(scratch + row * M + m, product)
    tl.debug_barrier()
    m = tl.arange(0, M)
    product = tl.load(scratch + row * M + m)
    magnitude = tl.where(product == product, tl.abs(product), -1.0)
    for k in range(K):
        best = tl.minimum(tl.argmax(magnitude, axis=0), KEEP * G - 1)
        g = tl.load(groups + row * KEEP + best // G)
        column = g // LANES * (G * LANES) + best % G * LANES + g % LANES
        tl.store(indices + row * K + k, column.to(tl.int64))
        tl.store(values + row * K + k, tl.sum(tl.where(m == best, product, 0.0), axis=0))
        magnitude = tl.where(m == best, -2.0, magnitude)


def ranked_groups(
    Q: Tensor, Y: Tensor, own: Tensor, groups: Tensor, k: int, group: int, lanes: int
) -> tuple[Tensor, Tensor]:
    """Signed products (b, k) with the largest magnitudes over the columns of ``groups`` (b, keep).

    And their columns. Q (b, d) and Y (N, d) are float32 and contiguous; own (b,) is the column
    each row leaves out, or -1; at least k columns are left.
    """
    (b, d), keep = Q.shape, groups.shape[1]
    most = triton.next_power_of_2(keep * group)
    scratch = torch.empty(b, most, dtype=Q.dtype, device=Q.device)
    values = torch.empty(b, k, dtype=Q.dtype, device=Q.device)
    indices = torch.empty(b, k, dtype=torch.int64, device=Q.device)
    with torch.cuda.device(Q.device):
        _rank_kernel[(b,)](
            Q, Y, own.to(torch.int32), groups.contiguous(), scratch, values, indices, Y.shape[0], d,
            K=k, KEEP=keep, D=triton.next_power_of_2(d), G=group, LANES=lanes,
            BC=min(64, most), M=most, num_warps=4,
        )  # fmt: skip
    return values, indices
