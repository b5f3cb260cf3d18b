"""Are the classes the clusters? What the found partition, another one and the classes cut.

    DCFSC_DATA=... python -m research.benchmarks.bench_cuts --json results/benchmarks/cuts.json

The last step of the default is k-means on the rows of the spectral embedding. Here it starts forty
times with a single random start each, without exchanges. ``lowest`` is the partition of the lowest
sum of squares, ``next`` the lowest one that differs from it on a sample in a hundred at least, and
``classes`` the true one. ``excess`` is how far the sum of squares lies above the lowest, and
``cut`` the share of the graph's affinity that links different clusters, both in percent.
``clusters`` has a row for each class: how many of its samples are in each cluster of the default.
Labels only score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error, confusion
from dcfsc.spectral import cut_share
from dcfsc.spectral.assignment import filtered_rows
from dcfsc.spectral.kmeans import kmeans

from . import samples
from .measure import finish_row, parser

DATA = ("digits", "mnist-raw", "fashion-mnist")
STARTS = 40


def sum_of_squares(V: np.ndarray, labels: np.ndarray) -> float:
    """sum_i |v_i - c|^2 for the mean c of the cluster of each row of V (n, p)."""
    centers = np.stack([V[labels == k].mean(axis=0) for k in np.unique(labels)])
    return float(((V - centers[labels]) ** 2).sum())


def partitions(V: np.ndarray, K: int) -> dict[str, np.ndarray]:
    """The lowest that single starts end in, and the lowest of another kind, if there is one."""
    rows = torch.from_numpy(V)
    ends = [kmeans(rows, K, np.random.RandomState(seed), 1) for seed in range(STARTS)]
    ends.sort(key=lambda labels: sum_of_squares(V, labels))
    others = [labels for labels in ends if clustering_error(ends[0], labels) >= 1.0]
    return dict(zip(("lowest", "next"), ends[:1] + others[:1], strict=False))


def cuts(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = len(np.unique(y))
    model = ClosedFormSubspaceClustering(K, device="cpu", random_state=0).fit(X)
    V = filtered_rows(model._partition.embedding, K)
    found = partitions(V, K)
    lowest = sum_of_squares(V, found["lowest"])
    return {
        "N": len(X),
        "K": K,
        "representation": model.representation_,
        "error": clustering_error(y, model.labels_),
        "clusters": confusion(y, model.labels_).tolist(),
        **{
            kind: {
                "excess": 100 * (sum_of_squares(V, labels) / lowest - 1),
                "cut": 100 * cut_share(model.affinity_matrix_, labels),
                "error": clustering_error(y, labels),
            }
            for kind, labels in (found | {"classes": y}).items()
        },
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="*", default=DATA, choices=list(samples.SETS))
    args = options.parse_args()
    for name, (X, y) in samples.load(args.data):
        finish_row(args, "cuts", name, cuts(X, y))


if __name__ == "__main__":
    main()
