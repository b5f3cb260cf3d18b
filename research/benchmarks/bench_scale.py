"""ClosedFormSubspaceClustering without N x N: seconds by stage, error and peak memory against N.

    python -m research.benchmarks.bench_scale --json results/benchmarks/scale_cpu.json
    python -m research.benchmarks.bench_scale --n 1000000 --device cuda \\
        --json results/benchmarks/scale_gpu.json

K = 20 subspaces of dimension 6 in 64 dimensions, noise a tenth of the signal's norm; each size runs
in a process of its own, so that its peak memory is its own. Memory of the imports is shown apart.
On a GPU a small problem runs first, so that no kernel is built inside the times.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .measure import finish, gpu_peak, in_a_process, parser, peak_rss, timed

K, M, D = 20, 6, 64
SEARCHES = ("topk", "topk_cosine", "approximate_topk")


class Stages(dict[str, float]):
    """Seconds of named stages."""

    def __call__(self, name: str, run: Callable[[], Any]) -> Any:
        seconds, result = timed(run)
        self[name] = self.get(name, 0.0) + seconds
        return result


class TimedSearch:
    """An operator whose neighbor searches count as the stage "search"."""

    def __init__(self, operator: Any, stages: Stages) -> None:
        self._operator, self._stages, self.parts = operator, stages, (self,)
        self.searches: list[int] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._operator, name)
        return partial(self._search, value) if name in SEARCHES else value

    def _search(self, search: Callable[[int], Any], k: int) -> Any:
        self.searches.append(k)
        return self._stages("search", lambda: search(k))


def cluster_in_stages(
    X: np.ndarray,
    n_clusters: int,
    subspace_dim: float | None,
    device: str,
    seed: int = 0,
    search: str = "exact",
) -> tuple[np.ndarray, dict[str, Any]]:
    """Labels, and figures by stage, of ClosedFormSubspaceClustering with ``assign="kmeans"``."""
    import torch

    from dcfsc import spectral
    from dcfsc.affinity import TopK
    from dcfsc.neighbors import unit_rows
    from dcfsc.pipeline import Recipe
    from dcfsc.pipeline.samples import as_float
    from dcfsc.representations import choose, create

    stages = Stages()
    begin = time.perf_counter()
    Z = stages("features", lambda: unit_rows(as_float(X, torch.device(device))))
    recipe = Recipe(X.shape[1:], n_clusters, subspace_dim=subspace_dim)
    seen, Z, _ = stages("choice", lambda: choose(create("auto", recipe), Z, recipe))
    R = stages("features", lambda: seen.transform(Z))
    operator: Any = stages("solve", lambda: seen.solve(R))
    timed: Any = TimedSearch(operator, stages)
    make = TopK(search=search)  # type: ignore[arg-type]
    A = stages("affinity", lambda: make(timed, n_clusters))
    stages["affinity"] -= stages.get("search", 0.0)
    place = spectral.place_for(A, operator.device)
    random = np.random.RandomState(seed)
    where: Any = {"random_state": random, "device": place}
    embedding = stages("embedding", lambda: spectral.embed(A, n_clusters, **where))
    labels = stages("assignment", lambda: spectral.assign(embedding, n_clusters, **where))
    return labels, {
        "seconds": time.perf_counter() - begin,
        "stages": dict(stages),
        "representation": seen.name,
        "searches": timed.searches,
        "recall": operator.recall,
        "edges": int(A.nnz),
        "solver": embedding.solver,
        "residual": embedding.residual,
        "connected_components": embedding.n_connected,
    }


def warm_up(device: str, dimension: int = D) -> float:
    """Seconds of a small problem of the same kind, which builds and loads the GPU's kernels."""
    import torch

    start = time.perf_counter()
    if device.startswith("cuda"):
        cluster_in_stages(subspaces(60_000, dimension=dimension)[0], K, M, device)
        torch.cuda.reset_peak_memory_stats()
    return time.perf_counter() - start


def subspaces(n: int, noise: float = 0.1, dimension: int = D) -> tuple[np.ndarray, np.ndarray]:
    from dcfsc.io import synthetic

    data = synthetic(n, K, M, dimension, noise=noise, random_state=0)
    assert data.y is not None
    return np.asarray(data.X), data.y


def one(n: int, args: argparse.Namespace) -> dict[str, Any]:
    import dcfsc.estimators  # noqa: F401
    from dcfsc.metrics import clustering_error

    imports = peak_rss()
    warm = warm_up(args.device)
    X, y = subspaces(n, args.noise)
    labels, figures = cluster_in_stages(X, K, M, args.device, search=args.search)
    return {
        "N": n,
        "noise": args.noise,
        "search": args.search,
        **figures,
        "error_percent": clustering_error(y, labels),
        "warm_up_seconds": warm,
        "peak_rss": peak_rss(),
        "rss_after_imports": imports,
        "data_bytes": X.nbytes,
        **gpu_peak(args.device),
    }


def main() -> None:
    options = parser(__doc__, device="cpu")
    options.add_argument("--sizes", "--n", default="1000,10000,100000")
    options.add_argument("--noise", type=float, default=0.1)
    options.add_argument("--search", choices=("exact", "approximate"), default="exact")
    options.add_argument("--one", type=int, help="run a single size in this process")
    args = options.parse_args()
    if args.one:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        print(json.dumps(one(args.one, args)))
        return
    figures: list[dict[str, Any]] = []
    for size in args.sizes.split(","):
        run = ["--one", size, "--device", args.device, "--search", args.search]
        figures.append(in_a_process(__file__, [*run, "--noise", str(args.noise)]))
    finish(args, "scale", figures)


if __name__ == "__main__":
    main()
