"""Peak memory of every method against N, each fit in a process of its own.

    python -m research.benchmarks.bench_memory --json results/benchmarks/memory_cpu.json

K = 5 subspaces of dimension 4 in 100 dimensions, noise 0.1. Shown: the resident memory that the fit
adds to a process that has everything imported and the data made; it includes the affinity and the
spectral step, and for the iterative methods a few iterations, which is all that memory depends on.
Beside it stands the estimate of the solver's memory, by which a fit is refused beforehand.
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from typing import Any

from .measure import finish, in_a_process, parser, peak_rss, timed

FEW: dict[str, dict[str, Any]] = {name: {"max_iter": 10} for name in ("ssc", "kssc", "lrr")}
FEW |= {name: {"pretrain_epochs": 1, "steps": 2, "verbose": False} for name in ("dcfsc", "dsc")}
FEW |= {"views": {"effort": "quick", "steps": 2, "verbose": False}}


def one(method: str, n: int) -> dict[str, object]:
    import torch

    from dcfsc.estimators.registry import create
    from dcfsc.io import synthetic

    warnings.simplefilter("ignore")
    data = synthetic(n, 5, 4, 100, noise=0.1, random_state=0)
    torch.linalg.eigh(torch.eye(64, dtype=torch.float64))  # libraries' own buffers
    before = peak_rss()
    model: Any = create(method, n_clusters=5, random_state=0, device="cpu", **FEW.get(method, {}))
    seconds, _ = timed(lambda: model.fit(data.X))
    estimate = getattr(model, "_memory", None)
    return {
        "method": method,
        "N": n,
        "peak_mib": (peak_rss() - before) / 2**20,
        "n_by_n_mib": n * n * 4 / 2**20,
        "estimate_mib": estimate and estimate(n, 100, torch.float32) / 2**20,
        "seconds": seconds,
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
