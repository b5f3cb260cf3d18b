"""The default with only the data and K given: five random orders of the samples, a seed for each.

    DCFSC_DATA=... python -m research.benchmarks.bench_defaults \
        --json results/benchmarks/defaults.json
    python -m research.benchmarks.bench_defaults --data digits \
        --json results/benchmarks/defaults.json

``--data`` measures some of the sets of samples.py and replaces their rows in the file. The random
parts that the choice of a representation is made on depend on the order, so it is made again for
each. Beside the default, in the first order: the error of every representation, whichever is
chosen.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error, nmi

from . import samples
from .measure import finish_row, parser, timed

SEEDS = range(5)
DATA = (
    *("orl", "eyaleb", "coil100", "digits", "mnist-scattering"),
    *("eyaleb-10", "eyaleb-20", "coil100-20", "mnist-raw", "mnist-images"),
)


def fit(X: np.ndarray, y: np.ndarray, device: str, seed: int, **options: Any) -> dict[str, Any]:
    """One fit, with the samples in the seed's order."""
    order, K = np.random.default_rng(seed).permutation(len(X)), int(y.max()) + 1
    model = ClosedFormSubspaceClustering(K, device=device, random_state=seed, **options)
    seconds, _ = timed(lambda: model.fit(X[order]))
    return {
        "error": clustering_error(y[order], model.labels_),
        "nmi": nmi(y[order], model.labels_),
        "representation": model.representation_,
        "stability": model.stability_,
        "seconds": seconds,
    }


def representations(X: np.ndarray) -> list[str]:
    """The names of the representations that are compared on such samples."""
    images = ["scattering"] if X.ndim > 2 else []
    return ["given", "metric", "metric-twice", *images]


def measure(X: np.ndarray, y: np.ndarray, device: str) -> dict[str, Any]:
    fits = [fit(X, y, device, seed) for seed in SEEDS]
    record: dict[str, Any] = {
        "N": len(X),
        "K": int(y.max()) + 1,
        "mean": statistics.fmean(f["error"] for f in fits),
        "std": statistics.stdev(f["error"] for f in fits),
        "nmi": statistics.fmean(f["nmi"] for f in fits),
        "seconds": statistics.median(f["seconds"] for f in fits),
        "fits": fits,
    }
    for name in representations(X):
        record[f"with {name}"] = fit(X, y, device, 0, representation=name)["error"]
    return record


def main() -> None:
    options = parser(__doc__, device="auto")
    options.add_argument("--data", nargs="*", default=DATA, choices=list(samples.SETS))
    args = options.parse_args()
    for name, (X, y) in samples.load(args.data):
        finish_row(args, "defaults", name, measure(X, y, args.device))


if __name__ == "__main__":
    main()
