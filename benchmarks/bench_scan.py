"""The plain and the filtered neighbour scan on a GPU: from how many rows on does the filter pay?

    python benchmarks/bench_scan.py --json results/benchmarks/scan_gpu.json

Milliseconds (median of ``--repeats``) for the 16 largest |y_i . y_j| of every row, by the plain
scan in float32 and by the half-precision filter: points of 20 subspaces, copies, and rows that
are nearly the same, which the filter can prove nothing about.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from check_cuda_topk import rows
from measure import finish, parser, synchronise
from torch import Tensor

from dcfsc.neighbours import largest_inner_products

SIZES = (10_000, 20_000, 40_000, 80_000, 100_000, 120_000, 200_000)
K = 16


def milliseconds(Y: Tensor, scan: Any, repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):  # the first builds kernels
        synchronise()
        start = time.perf_counter()
        largest_inner_products(Y, Y, K, diagonal=0, scan=scan)
        synchronise()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def main() -> None:
    options = parser(__doc__ or "")
    args = options.parse_args()
    figures = []
    for kind, d in (("subspaces", 16), ("subspaces", 64), ("duplicates", 64), ("ties", 64)):
        for n in SIZES:
            Y = rows(n, d, kind)
            times = {scan: milliseconds(Y, scan, args.repeats) for scan in ("plain", "half")}
            figures.append({"rows": kind, "d": d, "N": n, "milliseconds": times})
            print(figures[-1], flush=True)
    finish(args, "scan", figures)


if __name__ == "__main__":
    main()
