"""How long a fit with only K given takes, beside scikit-learn's spectral clustering, in one run.

    DCFSC_DATA=... python -m research.benchmarks.bench_seconds \
        --json results/benchmarks/seconds.json
    DCFSC_DATA=... python -m research.benchmarks.bench_seconds --device cuda --json ...

"fast" is `dcfsc fit --fast`: the samples as they are, and plain k-means. Medians of ``--repeats``.
"expected" is what the estimate says before a fit (dcfsc.selection.estimate) on this machine.
``--data`` measures some of the sets of samples.py and replaces their rows in the file.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from sklearn.cluster import SpectralClustering

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.machine import resolve_device
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Recipe
from dcfsc.representations import create
from dcfsc.selection.estimate import estimate, rate

from . import samples
from .measure import finish_row, parser

DATA = (
    *("digits", "orl", "photographs", "mnist-5000", "eyaleb", "coil100"),
    *("unequal-20000", "unequal-100000", "unequal-1000000"),
)
FAST: dict[str, Any] = {"representation": "given", "assign": "kmeans"}
PEER_SAMPLES = 10_000  # scikit-learn takes minutes beyond


def measure(model: Any, X: np.ndarray, y: np.ndarray, repeats: int) -> dict[str, Any]:
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


def expected(X: np.ndarray, K: int, device: str) -> dict[str, float]:
    """Seconds and bytes that the default is expected to take."""
    found = estimate(len(X), K, create("auto", Recipe(X.shape[1:], K)))
    return {"seconds": found.flops / rate(resolve_device(device)), "bytes": found.bytes}


def main() -> None:
    options = parser(__doc__, device="cpu")
    options.add_argument("--data", nargs="*", default=DATA, choices=list(samples.SETS))
    args = options.parse_args()
    for name, (X, y) in samples.load(args.data):
        K = int(y.max()) + 1
        common: dict[str, Any] = {"device": args.device, "random_state": 0}
        ClosedFormSubspaceClustering(K, **common).fit(X[:: max(1, len(X) // 1000)])  # warm up
        record: dict[str, Any] = {"N": len(X), "K": K, "expected": expected(X, K, args.device)}
        ways: dict[str, dict[str, Any]] = {"default": {}, "fast": FAST}
        for kind, given in ways.items():
            model = ClosedFormSubspaceClustering(K, **common, **given)
            record[kind] = measure(model, X, y, args.repeats)
        if len(X) <= PEER_SAMPLES:
            near = SpectralClustering(K, affinity="nearest_neighbors", random_state=0)
            record["scikit-learn"] = measure(near, X.reshape(len(X), -1), y, args.repeats)
        finish_row(args, "seconds", name, record)


if __name__ == "__main__":
    main()
