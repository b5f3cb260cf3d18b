"""How long a fit with only K given takes, beside scikit-learn's spectral clustering, in one run.

    DCFSC_DATA=... python benchmarks/bench_seconds.py --json results/benchmarks/seconds.json
    DCFSC_DATA=... python benchmarks/bench_seconds.py --device cuda --json ...

"fast" is `dcfsc fit --fast`: the samples as they are, and plain k-means. Medians of ``--repeats``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_defaults import raw_mnist, whole
from generated_problems import Samples
from measure import finish, parser
from sklearn.cluster import SpectralClustering
from sklearn.preprocessing import normalize

from dcfsc import ClosedFormSubspaceClustering, EncoderFeatures, datasets
from dcfsc.metrics import clustering_error

FAST = {"representation": "given", "assign": "kmeans"}
PEER_SAMPLES = 10_000  # scikit-learn takes minutes beyond


def unequal(n: int, d: int = 64, K: int = 20) -> Samples:
    """Clusters of unequal sizes, in subspaces of 3 to 9 dimensions, with some noise."""
    random = np.random.default_rng(0)
    y = np.sort(random.choice(K, n, p=random.dirichlet(np.full(K, 2.0))))
    X = np.empty((n, d), np.float32)
    for k in range(K):
        basis = np.linalg.qr(random.normal(size=(d, int(random.integers(3, 10)))))[0]
        rows = np.flatnonzero(y == k)
        signal = random.normal(size=(len(rows), basis.shape[1])) @ basis.T
        X[rows] = signal + 0.1 / np.sqrt(d) * random.normal(size=(len(rows), d))
    return X, y


def some_mnist() -> Samples:
    X, y = raw_mnist()
    return X[:5000], y[:5000]


def photographs() -> Samples:
    """EfficientNet-Lite0's features of the folder photos under DCFSC_DATA, at unit length."""
    data = datasets.load(datasets.data_root() / "photos")
    assert data.y is not None
    return normalize(EncoderFeatures().fit_transform(data.X)), data.y


PROBLEMS: dict[str, Callable[[], Samples]] = {
    "digits": lambda: whole("digits"),
    "orl": lambda: whole("orl"),
    "photographs": photographs,
    "mnist-5000": some_mnist,
    "eyaleb": lambda: whole("eyaleb"),
    "coil100": lambda: whole("coil100"),
    "unequal-20000": lambda: unequal(20_000),
    "unequal-100000": lambda: unequal(100_000),
    "unequal-1000000": lambda: unequal(1_000_000),
}


def timed(model: Any, X: np.ndarray, y: np.ndarray, repeats: int) -> dict[str, Any]:
    seconds, processor = [], []
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        model.fit(X)
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    return {
        "seconds": statistics.median(seconds),
        "cpu_seconds": statistics.median(processor),
        "error": clustering_error(y, model.labels_),
    }


def main() -> None:
    options = parser(__doc__, device="cpu")
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    args = options.parse_args()
    figures: dict[str, Any] = {}
    for name in args.only.split(";") if args.only else PROBLEMS:
        X, y = PROBLEMS[name]()
        K = int(y.max()) + 1
        common: dict[str, Any] = {"device": args.device, "random_state": 0}
        ClosedFormSubspaceClustering(K, **common).fit(X[:: max(1, len(X) // 1000)])  # warm up
        record: dict[str, Any] = {"N": len(X), "K": K}
        for kind, given in (("default", {}), ("fast", FAST)):
            model = ClosedFormSubspaceClustering(K, **common, **given)
            record[kind] = timed(model, X, y, args.repeats)
        if len(X) <= PEER_SAMPLES:
            near = SpectralClustering(K, affinity="nearest_neighbors", random_state=0)
            record["scikit-learn"] = timed(near, X.reshape(len(X), -1), y, args.repeats)
            record["times"] = record["default"]["seconds"] / record["scikit-learn"]["seconds"]
        figures[name] = record
        print(name, record, flush=True)
        finish(args, "seconds", figures)


if __name__ == "__main__":
    main()
