"""Are the classes the clusters? What the found partition, the next best one and the classes cut.

    DCFSC_DATA=... python benchmarks/bench_cuts.py --json results/benchmarks/cuts.json

The last step of the default is k-means on the rows of the spectral embedding. Here it starts forty
times with a single random start each, without exchanges: ``lowest`` is the partition of the lowest
sum of squares, ``next`` the lowest one that differs from it on a sample in a hundred at least, and
``classes`` the true one. ``excess`` is how far the sum of squares lies above the lowest, in
percent, and ``cut`` the share of the graph's affinity that links different clusters. Labels only
score. ``--data NAME:N`` takes N random samples of a set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import samples
import torch
from measure import finish_row, parser
from scipy.sparse import coo_array

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error
from dcfsc.spectral.assignment import filtered_rows
from dcfsc.spectral.kmeans import kmeans

DATA = ("digits", "mnist:20000", "fashion-mnist:20000", "fashion-mnist:70000")
STARTS = 40


def sum_of_squares(V: np.ndarray, labels: np.ndarray) -> float:
    """sum_i |v_i - c|^2 for the mean c of the cluster of each row of V (n, p)."""
    centres = np.stack([V[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    return float(((V - centres[labels]) ** 2).sum())


def two_lowest(V: np.ndarray, K: int) -> list[np.ndarray]:
    """The lowest partition that single starts end in, and the lowest of another kind, if any."""
    rows = torch.from_numpy(V)
    ends = [kmeans(rows, K, np.random.RandomState(seed), 1) for seed in range(STARTS)]
    ends.sort(key=lambda labels: sum_of_squares(V, labels))
    others = (labels for labels in ends if clustering_error(ends[0], labels) >= 1.0)
    return [ends[0], *([other] if (other := next(others, None)) is not None else [])]


def cuts(name: str) -> dict[str, Any]:
    name, _, count = name.partition(":")
    X, y = samples.whole(name)
    if count:
        chosen = np.sort(np.random.default_rng(0).permutation(len(X))[: int(count)])
        X, y = X[chosen], y[chosen]
    K = len(np.unique(y))
    model = ClosedFormSubspaceClustering(K, device="cpu", random_state=0).fit(X)
    graph = coo_array(model.affinity_matrix_)
    V = filtered_rows(model._embedding, K)

    def row(labels: np.ndarray) -> dict[str, float]:
        between = graph.data[labels[graph.row] != labels[graph.col]].sum()
        return {
            "excess": 100 * (sum_of_squares(V, labels) / lowest - 1),
            "cut": 100 * float(between / graph.data.sum()),
            "error": clustering_error(y, labels),
        }

    partitions = two_lowest(V, K)
    lowest = sum_of_squares(V, partitions[0])
    return {
        "N": len(X),
        "K": K,
        "representation": model.representation_,
        "error": clustering_error(y, model.labels_),
        **{kind: row(labels) for kind, labels in zip(("lowest", "next"), partitions, strict=False)},
        "classes": row(y),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="*", default=DATA, metavar="NAME[:N]")
    args = options.parse_args()
    for name in args.data:
        finish_row(args, "cuts", name, cuts(name))


if __name__ == "__main__":
    main()
