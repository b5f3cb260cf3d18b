"""ClosedFormSubspaceClustering without N x N: seconds, error and peak memory against N.

    python benchmarks/bench_scale.py --json results/benchmarks/scale_cpu.json

K = 20 subspaces of dimension 6 in 64 dimensions, noise a tenth of the signal's norm; each size runs
in a process of its own, so that its peak memory is its own. Memory of the imports is shown apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from measure import finish, parser, peak_rss


def one(n: int, device: str) -> dict[str, object]:
    import torch

    from dcfsc import ClosedFormSubspaceClustering
    from dcfsc.datasets import synthetic
    from dcfsc.metrics import clustering_error

    imports = peak_rss()
    data = synthetic(
        n_samples=n, n_clusters=20, subspace_dim=6, ambient_dim=64, noise=0.1, random_state=0
    )
    model = ClosedFormSubspaceClustering(
        n_clusters=20, subspace_dim=6, device=device, random_state=0
    )
    start = time.perf_counter()
    model.fit(data.X)
    seconds = time.perf_counter() - start
    gpu = torch.cuda.max_memory_allocated() if device.startswith("cuda") else None
    return {
        "N": n,
        "seconds": seconds,
        "error_percent": clustering_error(data.y, model.labels_),
        "peak_rss": peak_rss(),
        "rss_after_imports": imports,
        "peak_gpu": gpu,
    }


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--sizes", default="1000,10000,100000")
    options.add_argument("--device", default="cpu")
    options.add_argument("--one", type=int, help="run a single size in this process")
    args = options.parse_args()
    if args.one:
        print(json.dumps(one(args.one, args.device)))
        return
    figures = []
    for size in args.sizes.split(","):
        command = [sys.executable, __file__, "--one", size, "--device", args.device]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures.append(json.loads(done.stdout.splitlines()[-1]))
    finish(args, "scale", figures)


if __name__ == "__main__":
    main()
