"""The exact neighbor scan on a GPU: is it right, and from how many rows on does the filter pay?"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from dcfsc.neighbors import half_filter, largest_inner_products
from dcfsc.neighbors.half_filter import HalfFilter

from .measure import Figures, benchmark, interleaved, timed

ALLOWED = 1e-6
SAMPLE = 256
SMALL = ((1000, 3), (5003, 16), (20_000, 33), (20_000, 64), (9000, 130), (20_000, 500))
KINDS = ("subspaces", "ties", "duplicates", "uneven", "zeros")
SCANNED = (("subspaces", 16), ("subspaces", 64), ("duplicates", 64), ("ties", 64))
SIZES = (10_000, 20_000, 40_000, 80_000, 100_000, 120_000, 200_000)


@benchmark
def scan(repeats: int = 5) -> list[Figures]:
    """Milliseconds of the plain neighbor scan in float32 and of the half-precision filter.

    The 16 largest |y_i . y_j| of every row: of points of 20 subspaces, copies, and rows that are
    nearly the same, which the filter can prove nothing about.
    """
    figures = []
    for kind, d in SCANNED:
        for n in SIZES:
            Y = rows(n, d, kind)
            search = partial(largest_inner_products, Y, Y, 16, diagonal=0)
            both = {name: partial(search, scan=name) for name in ("plain", "half")}
            seconds = interleaved(both, repeats)  # a first run builds kernels
            times = {name: 1e3 * row["median"] for name, row in seconds.items()}
            figures.append({"rows": kind, "d": d, "N": n, "milliseconds": times})
    return figures


@benchmark
def cuda_topk() -> Figures:
    """The neighbor scan against float64: errors and times over many shapes.

    For each case the fused kernel, the same filter by PyTorch's products and the plain float32 scan
    must return the k largest magnitudes of every sampled row: "excess" is by how much an entry left
    out exceeds the smallest one returned, in units of |q| max |y| (float32's rounding is about
    1e-7), and must be below 1e-6. "bounds" compares the kernel's bounds with PyTorch's. The large
    cases are only timed and checked on a sample of rows.
    """
    cases = [case(n, d, kind, 5, plain=True) for n, d in SMALL for kind in KINDS]
    for n, d in ((70_000, 500), (200_000, 64), (1_000_000, 64)):
        cases.append(case(n, d, "subspaces", 8, plain=n <= 200_000))
    scans = [c[s] for c in cases for s in ("kernel", "products", "plain") if s in c]
    right = all(s["right"] for s in scans)
    return {"kernel_error": half_filter._failed, "all_right": right, "cases": cases}


def rows(n: int, d: int, kind: str) -> Tensor:
    g = torch.Generator("cuda").manual_seed(n + d)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, device="cuda")

    if kind == "ties":
        return normal(1, d) + 1e-5 * normal(n, d)
    if kind == "duplicates":
        return normal(max(1, n // 50), d).repeat(51, 1)[:n].contiguous()
    if kind == "uneven":
        return normal(n, d) * 10.0 ** (2 * normal(n, 1))
    if kind == "zeros":
        Y = normal(n, d)
        Y[::3] = 0.0
        return Y
    m = min(6, d)
    bases = torch.linalg.qr(normal(20, d, m)).Q  # (20, d, m)
    Y = torch.empty(n, d, device="cuda")
    for c in range(20):
        x = normal(len(Y[c::20]), m) @ bases[c].T
        scale = 0.1 * x.norm(dim=1, keepdim=True) / d**0.5
        Y[c::20] = x + scale * normal(*x.shape)
    return Y / Y.norm(dim=1, keepdim=True)


def without_kernel() -> Any:
    return mock.patch.object(half_filter, "_kernels", return_value=None)


def excess(Y: Tensor, found: tuple[Tensor, Tensor]) -> float:
    """By how much a column left out exceeds the k-th returned, over a sample of rows, float64."""
    values, indices = found
    n = len(Y)
    sample = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:SAMPLE].cuda()
    double = Y.double()
    largest = float(torch.linalg.vector_norm(double, dim=1).max())
    worst = 0.0
    for part in sample.split(16):
        exact = double[part] @ double.T
        unit = double[part].norm(dim=1).clamp_min(1e-300) * largest
        drift = (exact.gather(1, indices[part]) - values[part].double()).abs().amax(1) / unit
        smallest = exact.gather(1, indices[part]).abs().amin(1)
        exact.scatter_(1, part[:, None], 0.0)
        exact.scatter_(1, indices[part], 0.0)
        over = ((exact.abs().amax(1) - smallest) / unit).clamp_min(0.0)
        worst = max(worst, float(torch.maximum(over, drift).max()))
        assert (indices[part] != part[:, None]).all(), "a row found itself"
        assert (indices[part].sort(1).values.diff(dim=1) > 0).all(), "a column twice"
    return worst


def bounds_gap(Y: Tensor) -> float | None:
    """Largest difference between the kernel's bounds and PyTorch's; None without a kernel."""
    if half_filter._kernels() is None:
        return None
    half = HalfFilter(Y)
    own = torch.arange(min(300, len(Y)), device="cuda")
    ours = half._bounds(Y[:300], own)[0]
    with without_kernel():
        theirs = half._bounds(Y[:300], own)[0]
    return float((ours - theirs).abs().max())


def case(n: int, d: int, kind: str, k: int, plain: bool) -> Figures:
    Y = rows(n, d, kind)
    result: Figures = {"N": n, "d": d, "rows": kind, "k": k, "bounds": bounds_gap(Y)}
    scans = {"kernel": "half", "products": "half"} | ({"plain": "plain"} if plain else {})
    for name, scan in scans.items():
        run = partial(largest_inner_products, Y, Y, k, diagonal=0, scan=scan)  # type: ignore[arg-type]
        with without_kernel() if name == "products" else nullcontext():
            if n <= 200_000:
                run()  # builds and loads kernels
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            seconds, found = timed(run)
        worst = excess(Y, found)
        result[name] = {
            "seconds": seconds,
            "excess": worst,
            "right": worst <= ALLOWED,
            "added_bytes": torch.cuda.max_memory_allocated() - before,
        }
    return result
