"""Triton kernels over maps with the channels last, read as a matrix of M pixels by C channels.

Imported by :mod:`dcfsc.networks.fused` alone, and only where Triton and a GPU are there.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _STEPS = 64, 16  # rows of a tile, tiles a program sums


@triton.jit
def _tile(start, M, C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """Offsets of ROWS rows from ``start``, and which of them exist."""
    rows = start + tl.arange(0, ROWS).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    inside = (rows < M)[:, None] & (columns < C)[None, :]
    return rows[:, None] * C + columns[None, :], inside


@triton.jit
def _channel(values, C: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    return tl.load(values + columns, mask=columns < C, other=0.0)[None, :]


@triton.jit
def _store_sums(sums, first, second, C: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    at = sums + tl.program_id(0).to(tl.int64) * 2 * C + columns
    tl.store(at, tl.sum(first, 0), mask=columns < C)
    tl.store(at + C, tl.sum(second, 0), mask=columns < C)


@triton.jit
def _moments(
    x,
    shift,
    sums,
    M,
    C: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    STEPS: tl.constexpr,
):
    s = _channel(shift, C, COLUMNS)
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * ROWS * STEPS
    for step in range(STEPS):
        at, inside = _tile(begin + step * ROWS, M, C, COLUMNS, ROWS)
        v = tl.where(inside, tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - s, 0.0)
        first += v
        second += v * v
    _store_sums(sums, first, second, C, COLUMNS)


@triton.jit
def _scale_relu(x, a, b, y, M, C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    at, inside = _tile(tl.program_id(0).to(tl.int64) * ROWS, M, C, COLUMNS, ROWS)
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    v = tl.maximum(_channel(a, C, COLUMNS) * v + _channel(b, C, COLUMNS), 0.0)
    tl.store(y + at, v.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _masked_moments(
    g,
    x,
    a,
    b,
    shift,
    sums,
    M,
    C: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    STEPS: tl.constexpr,
):
    scale, offset = _channel(a, C, COLUMNS), _channel(b, C, COLUMNS)
    s = _channel(shift, C, COLUMNS)
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * ROWS * STEPS
    for step in range(STEPS):
        at, inside = _tile(begin + step * ROWS, M, C, COLUMNS, ROWS)
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        u = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        u = tl.where(scale * v + offset > 0.0, u, 0.0)
        first += u
        second += u * (v - s)
    _store_sums(sums, first, second, C, COLUMNS)


@triton.jit
def _masked_gradient(
    g, x, a, b, p, q, out, M, C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr
):
    at, inside = _tile(tl.program_id(0).to(tl.int64) * ROWS, M, C, COLUMNS, ROWS)
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
    scale = _channel(a, C, COLUMNS)
    u = tl.where(scale * v + _channel(b, C, COLUMNS) > 0.0, u, 0.0)
    u = scale * u + _channel(p, C, COLUMNS) * v + _channel(q, C, COLUMNS)
    tl.store(out + at, u.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _overlap_add(
    spread,
    x,
    M,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    K: tl.constexpr,
    TOP: tl.constexpr,
    LEFT: tl.constexpr,
    STRIDE: tl.constexpr,
    PIXELS: tl.constexpr,
):
    pixel = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS).to(tl.int64)
    inside = pixel < M
    column = pixel % WIDTH
    row = (pixel // WIDTH) % HEIGHT
    total = tl.zeros((PIXELS,), tl.float32)
    for i in tl.static_range(K):
        for j in tl.static_range(K):
            r, c = row + TOP - i, column + LEFT - j
            there = inside & (r >= 0) & (r < HEIGHT) & (c >= 0) & (c < WIDTH)
            source = pixel + (TOP - i) * WIDTH + (LEFT - j)
            total += tl.load(spread + source * STRIDE + i * K + j, mask=there, other=0.0).to(
                tl.float32
            )
    tl.store(x + pixel, total.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _finish_forward(
    sums,
    shift,
    gamma,
    beta,
    running_mean,
    running_variance,
    out,
    count,
    eps,
    momentum,
    C: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sums (2, C) float64 -> out (4, C) float32: a, b, mean, deviation; running statistics."""
    c = tl.arange(0, COLUMNS)
    there = c < C
    first = tl.load(sums + c, mask=there, other=0.0) / count
    second = tl.load(sums + C + c, mask=there, other=0.0) / count
    mean = tl.load(shift + c, mask=there, other=0.0).to(tl.float64) + first
    variance = tl.maximum(second - first * first, 0.0)
    deviation = tl.sqrt(variance + eps)
    scale = (tl.load(gamma + c, mask=there, other=0.0) / deviation).to(tl.float32)
    offset = tl.load(beta + c, mask=there, other=0.0) - scale * mean
    tl.store(out + c, scale, mask=there)
    tl.store(out + C + c, offset.to(tl.float32), mask=there)
    tl.store(out + 2 * C + c, mean.to(tl.float32), mask=there)
    tl.store(out + 3 * C + c, deviation.to(tl.float32), mask=there)
    old = tl.load(running_mean + c, mask=there, other=0.0)
    tl.store(running_mean + c, old + momentum * (mean.to(tl.float32) - old), mask=there)
    old = tl.load(running_variance + c, mask=there, other=0.0)
    unbiased = (variance * (count / tl.maximum(count - 1.0, 1.0))).to(tl.float32)
    tl.store(running_variance + c, old + momentum * (unbiased - old), mask=there)


@triton.jit
def _finish_backward(sums, stats, out, count, C: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums (2, C) of u and u (x - mean) -> out (4, C) float32: dgamma, dbeta, p, q."""
    c = tl.arange(0, COLUMNS)
    there = c < C
    a = tl.load(stats + c, mask=there, other=0.0).to(tl.float64)
    mean = tl.load(stats + 2 * C + c, mask=there, other=0.0).to(tl.float64)
    deviation = tl.load(stats + 3 * C + c, mask=there, other=1.0).to(tl.float64)
    dbeta = tl.load(sums + c, mask=there, other=0.0)
    dgamma = tl.load(sums + C + c, mask=there, other=0.0) / deviation
    # dx = a (u - mean(u) - xhat mean(u xhat)) is a u + p x + q
    p = -a * dgamma / (deviation * count)
    q = -a * dbeta / count - p * mean
    tl.store(out + c, dgamma.to(tl.float32), mask=there)
    tl.store(out + C + c, dbeta.to(tl.float32), mask=there)
    tl.store(out + 2 * C + c, p.to(tl.float32), mask=there)
    tl.store(out + 3 * C + c, q.to(tl.float32), mask=there)


# What fused.py calls; x, g are (M, C) contiguous, the channels' values (C,) float32 ---------------


def moments(x: Tensor, shift: Tensor) -> Tensor:
    """sum (x - shift), sum (x - shift)^2 over the rows: (2, C) float64."""
    return _sums(_moments, x, (x, shift))


def masked_moments(g: Tensor, x: Tensor, a: Tensor, b: Tensor, shift: Tensor) -> Tensor:
    """sum u, sum u (x - shift) for u = g where a x + b > 0 and 0 elsewhere: (2, C) float64."""
    return _sums(_masked_moments, x, (g, x, a, b, shift))


def scale_relu(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """max(a x + b, 0), (M, C) like x."""
    y = torch.empty_like(x)
    _rowwise(_scale_relu, x, (x, a, b, y))
    return y


def masked_gradient(g: Tensor, x: Tensor, a: Tensor, b: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """a u + p x + q with u as in :func:`masked_moments`, (M, C) like x."""
    out = torch.empty_like(x)
    _rowwise(_masked_gradient, x, (g, x, a, b, p, q, out))
    return out


def forward_constants(sums: Tensor, shift: Tensor, norm: Any, count: int) -> Tensor:
    """a, b, mean and deviation (4, C) from :func:`moments`; moves the running statistics."""
    C = len(shift)
    out = torch.empty(4, C, dtype=torch.float32, device=shift.device)
    _finish_forward[(1,)](
        sums,
        shift,
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        out,
        float(count),
        float(norm.eps),
        float(norm.momentum),
        C,
        triton.next_power_of_2(C),
    )
    return out


def backward_constants(sums: Tensor, stats: Tensor, count: int) -> Tensor:
    """dgamma, dbeta, p and q (4, C) from :func:`masked_moments`."""
    C = stats.shape[1]
    out = torch.empty_like(stats)
    _finish_backward[(1,)](sums, stats, out, float(count), C, triton.next_power_of_2(C))
    return out


def overlap_add(
    spread: Tensor, n: int, height: int, width: int, kernel: int, top: int, left: int
) -> Tensor:
    """Patches (n h w, k^2 or more) summed where they overlap: (n, 1, h, w)."""
    x = torch.empty(n, 1, height, width, dtype=spread.dtype, device=spread.device)
    grid = (triton.cdiv(x.numel(), 256),)
    stride = spread.shape[1]
    _overlap_add[grid](spread, x, x.numel(), height, width, kernel, top, left, stride, 256)
    return x


def _sums(kernel: Any, x: Tensor, arguments: tuple[Tensor, ...]) -> Tensor:
    M, C = x.shape
    programs = triton.cdiv(M, _ROWS * _STEPS)
    sums = torch.empty(programs, 2, C, dtype=torch.float32, device=x.device)
    kernel[(programs,)](*arguments, sums, M, C, triton.next_power_of_2(C), _ROWS, _STEPS)
    return sums.sum(0, dtype=torch.float64)


def _rowwise(kernel: Any, x: Tensor, arguments: tuple[Tensor, ...]) -> None:
    M, C = x.shape
    kernel[(triton.cdiv(M, _ROWS),)](*arguments, M, C, triton.next_power_of_2(C), _ROWS)
