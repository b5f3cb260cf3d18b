"""dcfsc beside other clustering libraries, on the same samples, in one run.

    DCFSC_DATA=... python -m research.benchmarks.bench_peers --json results/benchmarks/peers.json
    python -m research.benchmarks.bench_peers --data digits --json results/benchmarks/peers.json

``--data`` measures some of the sets and replaces their rows in the file. Every method runs in a
process of its own with one seed after the other, and first, untimed, on 200 samples, so that
nothing is compiled inside the times. For each seed all methods get the same samples in the same
random order. ``added_mib`` is the memory that the fits add to the imports, the data and the untimed
fit, at their peak. A method that is not finished after ``--limit`` seconds is stopped.

dcfsc gets images as images and nothing but K. Every other method gets the same samples flattened
and scaled to unit length, and its library's own defaults. HDBSCAN and EVoC choose the number of
clusters; "EVoC with K" is told it. What they call noise is scored as one more cluster. SSC-OMP and
EnSC are this library's implementations. EVoC and ClustPy are left out where they are not installed
(``pip install evoc clustpy``; ClustPy needs a C compiler). ``--trained`` measures ViewClustering
instead, on a GPU if there is one, for a file of its own and without an untimed fit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sklearn.cluster
from sklearn.preprocessing import normalize

from dcfsc.estimators import registry
from dcfsc.metrics import clustering_error, nmi

from . import samples
from .measure import finish_row, in_a_process, parser, peak_rss, timed

DATA = ("digits", "orl", "eyaleb-10", "coil100-20", "mnist-5000", "photographs")
SEEDS = range(3)
WARM_UP = 200
Cluster = Callable[[np.ndarray, int, int], Any]  # samples, K, seed -> labels


def ours(name: str, **options: Any) -> Cluster:
    make = partial(registry.create, name, **{"device": "cpu", **options})
    return lambda X, K, seed: make(n_clusters=K, random_state=seed).fit_predict(X)


def scikit_learn(name: str, takes_k: bool = True, **options: Any) -> Cluster:
    def run(X: np.ndarray, K: int, seed: int) -> Any:
        given = {"n_clusters": K, "random_state": seed} if takes_k else {}
        return getattr(sklearn.cluster, name)(**given, **options).fit_predict(X)

    return run


def evoc(takes_k: bool) -> Cluster:
    def run(X: np.ndarray, K: int, seed: int) -> Any:
        from evoc import EVoC

        given = {"approx_n_clusters": K} if takes_k else {}
        return EVoC(random_state=seed, **given).fit_predict(X)

    return run


def sub_k_means(X: np.ndarray, K: int, seed: int) -> Any:
    from clustpy.centroid import SubKmeans

    return SubKmeans(K, random_state=seed).fit(X).labels_


METHODS: dict[str, Cluster] = {
    "dcfsc": ours("closed-form"),
    "dcfsc --fast": ours("closed-form", representation="given", assign="kmeans"),
    "SSC-OMP (ours)": ours("ssc-omp"),
    "EnSC (ours)": ours("ensc"),
    "KMeans": scikit_learn("KMeans", n_init=10),
    "SpectralClustering": scikit_learn("SpectralClustering", affinity="nearest_neighbors"),
    "HDBSCAN": scikit_learn("HDBSCAN", takes_k=False, copy=True),
    "EVoC": evoc(takes_k=False),
    "EVoC with K": evoc(takes_k=True),
    "SubKmeans (ClustPy)": sub_k_means,
}
TRAINED = {"views": ours("views", device="auto", verbose=False)}
IMAGES = ("dcfsc", "dcfsc --fast", *TRAINED)  # these take images as images


def one(data: str, method: str) -> dict[str, Any]:
    """Every seed of a method on a set: the scores, seconds and peak memory."""
    warnings.simplefilter("ignore")
    X, y = samples.SETS[data]()
    K, cluster = len(np.unique(y)), (METHODS | TRAINED)[method]
    X = X if method in IMAGES else normalize(X.reshape(len(X), -1)).astype(np.float32)
    orders = [np.random.default_rng(seed).permutation(len(X)) for seed in SEEDS]
    if method in METHODS:
        cluster(X[orders[0][:WARM_UP]], min(K, WARM_UP // 10), 0)
    before, runs = peak_rss(), []
    for seed, order in zip(SEEDS, orders, strict=True):
        used = time.process_time()
        seconds, found = timed(partial(cluster, X[order], K, seed))
        used, labels = time.process_time() - used, np.asarray(found)
        runs.append(
            {
                "error": clustering_error(y[order], labels),
                "nmi": nmi(y[order], labels),
                "clusters": len(np.unique(labels[labels >= 0])),
                "noise_percent": 100 * float(np.mean(labels < 0)),
                "seconds": seconds,
                "cpu_seconds": used,
            }
        )
    record: dict[str, Any] = {
        key: {"mean": statistics.fmean(values), "std": statistics.stdev(values)}
        for key in runs[0]
        for values in [[run[key] for run in runs]]
    }
    return record | {"added_mib": (peak_rss() - before) / 2**20, "peak_mib": peak_rss() / 2**20}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="*", default=DATA, choices=list(samples.SETS))
    options.add_argument("--one", nargs=2, metavar=("DATA", "METHOD"), help=argparse.SUPPRESS)
    options.add_argument("--limit", type=float, default=600.0, help="seconds for all seeds")
    options.add_argument("--trained", action="store_true", help="ViewClustering instead")
    args = options.parse_args()
    if args.one:
        print(json.dumps(one(*args.one)))
        return
    for name, (X, y) in samples.load(args.data):
        row: dict[str, Any] = {"N": len(X), "K": len(np.unique(y)), "methods": {}}
        for method in TRAINED if args.trained else METHODS:
            row["methods"][method] = in_a_process(__file__, ["--one", name, method], args.limit)
            print(name, method, row["methods"][method].get("failed", ""), file=sys.stderr)
        finish_row(args, "peers_trained" if args.trained else "peers", name, row)


if __name__ == "__main__":
    main()
