"""Clusters beside the true classes, where these are known."""

from __future__ import annotations

import numpy as np

from dcfsc import metrics


def matched_classes(
    truth: np.ndarray, n_classes: int, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray]:
    """Confusion (C, K) and the best class of each cluster (K,), or -1; empty without labels."""
    if not len(truth):
        return np.zeros((0, 0), np.int64), np.zeros(0, np.int32)
    flat = np.bincount(truth * n_clusters + labels, minlength=n_classes * n_clusters)
    confusion = flat.reshape(n_classes, n_clusters)
    best = np.full(n_clusters, -1, np.int32)
    best[labels] = metrics.best_map(truth, labels)
    best[best >= n_classes] = -1
    # a partner of which the cluster holds no sample is what the matching had left over
    best[(best >= 0) & (confusion[best, np.arange(n_clusters)] == 0)] = -1
    return confusion, best
