"""The plain and the filtered neighbor scan on a GPU: from how many rows on does the filter pay?

    python -m research.benchmarks.bench_scan --json results/benchmarks/scan_gpu.json

Milliseconds (median of ``--repeats``) for the 16 largest |y_i . y_j| of every row, by the plain
scan in float32 and by the half-precision filter: points of 20 subspaces, copies, and rows that
are nearly the same, which the filter can prove nothing about.
"""

from __future__ import annotations

from functools import partial

from dcfsc.neighbors import largest_inner_products

from .check_cuda_topk import rows
from .measure import finish, interleaved, parser

SIZES = (10_000, 20_000, 40_000, 80_000, 100_000, 120_000, 200_000)
K = 16


def main() -> None:
    args = parser(__doc__).parse_args()
    figures = []
    for kind, d in (("subspaces", 16), ("subspaces", 64), ("duplicates", 64), ("ties", 64)):
        for n in SIZES:
            Y = rows(n, d, kind)
            scan = partial(largest_inner_products, Y, Y, K, diagonal=0)
            both = {name: partial(scan, scan=name) for name in ("plain", "half")}
            seconds = interleaved(both, args.repeats)  # a first run builds kernels
            times = {name: 1e3 * row["median"] for name, row in seconds.items()}
            figures.append({"rows": kind, "d": d, "N": n, "milliseconds": times})
            print(figures[-1], flush=True)
    finish(args, "scan", figures)


if __name__ == "__main__":
    main()
