"""What tells each cluster of a table from the others: the features that lie far from the mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfsc.report.details import Details

SHOWN = 5  # features of a cluster
NOTABLE = 0.1  # standard deviations from the mean of all


def cluster_means(details: Details, n_clusters: int) -> np.ndarray:
    """The mean of every feature in each cluster, (n_clusters, f), from those of the parts."""
    means = details.profile[:-2].astype(np.float64)
    counts = np.zeros((n_clusters, len(means)))
    np.add.at(counts, (details.labels, details.parts), 1.0)
    return counts @ means / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def profiles(details: Details, n_clusters: int) -> list[list[dict[str, Any]]]:
    """For each cluster its most telling features: name, mean, and deviations z from the mean."""
    if not len(details.profile):
        return [[] for _ in range(n_clusters)]
    means = cluster_means(details, n_clusters)
    overall, deviation = details.profile[-2:].astype(np.float64)
    z = (means - overall) / np.where(deviation > 0, deviation, np.inf)
    found = []
    for k in range(n_clusters):
        order = np.argsort(-np.abs(z[k]), kind="stable")[:SHOWN]
        found.append(
            [
                {"name": str(details.feature_names[j]), "mean": means[k, j], "z": z[k, j]}
                for j in order
                if abs(z[k, j]) >= NOTABLE
            ]
        )
    return found
