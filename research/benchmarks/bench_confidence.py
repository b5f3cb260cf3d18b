"""Whether confidence tells where mistakes are: the default on image sets, labels only to check.

    DCFSC_DATA=... python -m research.benchmarks.bench_confidence \
        --json results/benchmarks/confidence.json

Each set is clustered whole, and again by its first half (in random order), which then labels the
second. Of either: the error in the quarters of the samples from the most to the least confident;
``area``, the probability that a right sample is more confident than a wrong one (area under the
curve); ``calibration``, the mean distance of confidence and accuracy over ten equal bins; and
``next_best``, the share of wrong samples whose next best cluster is the right one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import best_map
from research import data as datasets

from .measure import finish, parser

BINS = 10
QUARTERS = ("first", "second", "third", "last")
SETS = {
    "digits": ("digits", None, None),
    "ORL": ("orl", None, None),
    "COIL part": ("coil100", 20, None),
    "Yale part": ("eyaleb", 15, None),
    "MNIST part": ("mnist", None, 3000),
}


def samples(name: str, classes: int | None, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The set's first classes, at most so many samples of them, in random order."""
    data = datasets.load(name)
    assert data.y is not None
    order = np.random.default_rng(0).permutation(len(data.y))
    if classes is not None:
        order = order[data.y[order] < classes]
    order = order[:most]
    return np.asarray(data.X)[order], data.y[order]


def figures(right: np.ndarray, confidence: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    order = np.argsort(-confidence, kind="stable")
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    apart = [
        abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    mixed = 0 < right.mean() < 1
    return {
        "error": 100 * float(1 - right.mean()),
        "confidence": float(confidence.mean()),
        "quarters": {
            name: 100 * float(1 - right[part].mean())
            for name, part in zip(QUARTERS, np.array_split(order, 4), strict=True)
        },
        "area": float(roc_auc_score(right, confidence)) if mixed else None,
        "calibration": float(sum(apart)),
        "next_best": float(second[~right].mean()) if mixed else None,
    }


def measured(X: np.ndarray, y: np.ndarray, device: str) -> dict[str, Any]:
    K, half = len(np.unique(y)), len(y) // 2

    def fitted(n: int) -> tuple[Any, np.ndarray]:
        model = ClosedFormSubspaceClustering(K, random_state=0, device=device).fit(X[:n])
        classes = np.full(K, -1)
        classes[model.labels_] = best_map(y[:n], model.labels_)
        return model, classes

    model, classes = fitted(len(y))
    whole = figures(classes[model.labels_] == y, model.confidence_, classes[model.next_best_] == y)
    model, classes = fitted(half)
    p = model.predict_proba(X[half:])
    first, second = np.argsort(-p, axis=1, kind="stable")[:, :2].T
    unseen = figures(classes[first] == y[half:], p.max(axis=1), classes[second] == y[half:])
    return {"N": len(y), "K": K, "fitted": whole, "unseen": unseen}


def main() -> None:
    args = parser(__doc__, device="cpu").parse_args()
    record: dict[str, Any] = {}
    for name, (source, classes, most) in SETS.items():
        record[name] = measured(*samples(source, classes, most), args.device)
        finish(args, "confidence", record)


if __name__ == "__main__":
    main()
