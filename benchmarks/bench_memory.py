"""Peak memory of every method against N, each fit in a process of its own.

    python benchmarks/bench_memory.py --json results/benchmarks/memory_cpu.json

K = 5 subspaces of dimension 4 in 100 dimensions, noise 0.1. Shown: the resident memory that the fit
adds to a process that has everything imported and the data made; it includes the affinity and the
spectral step, and for the iterative methods a few iterations, which is all that memory depends on.
"""

from __future__ import annotations

import json
import time
import warnings
from itertools import product

from measure import finish, in_a_process, parser, peak_rss

FEW = {
    "dcfsc": {"pretrain_epochs": 1, "steps": 2, "verbose": False},
    "dsc": {"pretrain_epochs": 1, "steps": 2, "verbose": False},
    "ssc": {"max_iter": 10},
    "kssc": {"max_iter": 10},
    "lrr": {"max_iter": 10},
}


def one(method: str, n: int) -> dict[str, object]:
    import torch

    from dcfsc.datasets import synthetic
    from dcfsc.estimators.registry import create

    warnings.simplefilter("ignore")
    data = synthetic(
        n_samples=n, n_clusters=5, subspace_dim=4, ambient_dim=100, noise=0.1, random_state=0
    )
    torch.linalg.eigh(torch.eye(64, dtype=torch.float64))  # libraries' own buffers
    before = peak_rss()
    start = time.perf_counter()
    create(method, n_clusters=5, random_state=0, device="cpu", **FEW.get(method, {})).fit(data.X)
    return {
        "method": method,
        "N": n,
        "peak_mib": (peak_rss() - before) / 2**20,
        "n_by_n_mib": n * n * 4 / 2**20,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--sizes", default="1000,2000,4000")
    options.add_argument("--one", nargs=2, metavar=("METHOD", "N"))
    args = options.parse_args()
    if args.one:
        print(json.dumps(one(args.one[0], int(args.one[1]))))
        return
    from dcfsc.estimators.registry import METHODS

    cases = product(METHODS, args.sizes.split(","))
    finish(args, "memory", [in_a_process(__file__, ["--one", *case]) for case in cases])


if __name__ == "__main__":
    main()
