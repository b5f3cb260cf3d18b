"""Time and memory against N: the closed form without N x N beside the N x N way.

    python -m research.benchmarks.bench_growth --json results/benchmarks/growth_cpu.json

The data are those of bench_scale. "without N x N" is the default estimator; "with N x N" is the
sample form (an N x N inverse), |B| + |B'| whole and a dense eigenproblem, on the same device, while
--bytes and --limit allow. Every run has a process of its own; memory is what it adds to the imports
and the data. Slopes are those of log seconds (or bytes) over log N, from where fixed costs no
longer lead: FIRST_FITTED. docs/figures/growth.py draws the curves.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from .bench_scale import K, M, cluster_in_stages, subspaces, warm_up
from .measure import finish, gpu_peak, growing, parser, peak_rss, timed

FIRST_FITTED = {
    "cpu": {"without N x N": 10_000, "with N x N": 2_000},
    "cuda": {"without N x N": 100_000, "with N x N": 3_000},
}


def dense_way(X: np.ndarray, device: str) -> np.ndarray:
    import torch

    from dcfsc import spectral
    from dcfsc.affinity import Symmetric
    from dcfsc.neighbors import unit_rows
    from dcfsc.pipeline.samples import as_float
    from dcfsc.self_expression import choose_lam, solve

    Z = unit_rows(as_float(X, torch.device(device)))
    operator = solve(Z, choose_lam(Z, K * M), form="samples")
    return spectral.cluster(Symmetric()(operator, K), K, random_state=0).labels


def closed_form(X: np.ndarray, device: str) -> np.ndarray:
    return cluster_in_stages(X, K, M, device)[0]


WAYS = {"without N x N": closed_form, "with N x N": dense_way}


def one(way: str, n: int, device: str, most: float) -> dict[str, Any]:
    from dcfsc.metrics import clustering_error

    # The inverse in float64, B and its affinity, the normalized affinity in float64.
    if way == "with N x N" and 32 * n * n > most:
        return {"failed": f"needs about {32 * n * n / 2**30:.0f} GiB"}
    warm_up(device)
    X, y = subspaces(n)
    if device == "cpu":  # the libraries' own buffers
        closed_form(X[:1000], device)
    before = peak_rss()
    seconds, labels = timed(lambda: WAYS[way](X, device))
    return {
        "seconds": seconds,
        "error_percent": clustering_error(y, labels),
        "added_rss": peak_rss() - before,
        **gpu_peak(device),
    }


def slope(rows: list[dict[str, Any]], key: str, first: int) -> float | None:
    """The exponent p of  key ~ N^p  by least squares on the logarithms, from N = first on."""
    kept = [r for r in rows if r.get(key) and r["N"] >= first]
    if len(kept) < 2:
        return None
    log_n, log_y = (np.log([r[name] for r in kept]) for name in ("N", key))
    return float(np.polyfit(log_n, log_y, 1)[0])


def measure_all(args: argparse.Namespace) -> dict[str, Any]:
    memory = "peak_gpu" if args.device.startswith("cuda") else "added_rss"
    figures: dict[str, Any] = {"device": args.device, "memory": memory}
    for way in WAYS:
        arguments = ["--device", args.device, "--bytes", str(args.bytes), "--one", way]
        figures[way] = {"runs": growing(__file__, way, args.sizes, arguments, args.limit)}
    fit(figures)
    return figures


def fit(figures: dict[str, Any]) -> None:
    """Write the exponents of both ways beside their runs."""
    for way, first in FIRST_FITTED[figures["device"].split(":")[0]].items():
        rows = figures[way]["runs"]
        figures[way].update(
            time_exponent=slope(rows, "seconds", first),
            memory_exponent=slope(rows, figures["memory"], first),
            fitted_from=first,
        )


def main() -> None:
    options = parser(__doc__, device="cpu")
    options.add_argument("--sizes", default="1000,2000,5000,10000,20000,50000,100000,1000000")
    options.add_argument("--limit", type=float, default=600.0, help="seconds for one run")
    options.add_argument("--bytes", type=float, default=12e9, help="memory for the N x N way")
    options.add_argument("--one", nargs=2, metavar=("WAY", "N"), help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.one:
        print(json.dumps(one(args.one[0], int(args.one[1]), args.device, args.bytes)))
    else:
        finish(args, "growth", measure_all(args))


if __name__ == "__main__":
    main()
