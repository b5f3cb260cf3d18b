"""Digits with nothing but K given: errors over five seeds, unseen halves, and two peers.

    python benchmarks/bench_digits.py --json results/benchmarks/digits_cpu.json

Five random halves are clustered and the other half of each is predicted. The peers are
scikit-learn's k-means and nearest-neighbour spectral clustering on the same pixels.
"""

from __future__ import annotations

import warnings

import numpy as np
from measure import finish, parser
from sklearn.cluster import KMeans, SpectralClustering

from dcfsc import DCFSC, ClosedFormSubspaceClustering, datasets
from dcfsc.metrics import clustering_error

SEEDS = range(5)


def summary(errors: list[float]) -> dict[str, object]:
    return {
        "errors": [round(e, 3) for e in errors],
        "mean": float(np.mean(errors)),
        "std": float(np.std(errors, ddof=1)),
    }


def main() -> None:
    args = parser(__doc__ or "").parse_args()
    warnings.simplefilter("ignore")
    data = datasets.load("digits")
    X, y = data.X, data.y
    assert y is not None
    flat = X.reshape(len(X), -1).astype(float)
    peers = {
        "k-means": lambda s: KMeans(10, n_init=10, random_state=s).fit_predict(flat),
        "nearest-neighbour spectral clustering": lambda s: SpectralClustering(
            10, affinity="nearest_neighbors", random_state=s
        ).fit_predict(flat),
    }
    figures: dict[str, object] = {
        name: {"whole": summary([clustering_error(y, run(s)) for s in SEEDS])}
        for name, run in peers.items()
    }
    for cls in (ClosedFormSubspaceClustering, DCFSC):
        whole = [clustering_error(y, cls(10, random_state=s).fit(X).labels_) for s in SEEDS]
        fitted, predicted = [], []
        for seed in SEEDS:
            order = np.random.default_rng(seed).permutation(len(X))
            half, rest = order[: len(X) // 2 + 1], order[len(X) // 2 + 1 :]
            model = cls(10, random_state=seed).fit(X[half])
            fitted.append(clustering_error(y[half], model.labels_))
            predicted.append(clustering_error(y[rest], model.predict(X[rest])))
        figures[cls.__name__] = {
            "whole": summary(whole),
            "half": summary(fitted),
            "predicted_other_half": summary(predicted),
        }
    finish(args, "digits", figures)


if __name__ == "__main__":
    main()
