"""How stable partitions are: the choice of a representation uses the data only, never labels.

A representation that fits the samples gives nearly the same partition when some of them are taken
away. So each candidate clusters random parts of a sample of the data, four fifths of it each, in
the metric and by the neighbours of the part. Its stability is how well these partitions agree with
each other where the parts overlap, by the adjusted Rand index. (A metric kept from all samples
would make partitions agree by what the samples left out have said.)

References
----------
A. Ben-Hur, A. Elisseeff, I. Guyon. A stability based method for discovering structure in clustered
data. Pacific Symposium on Biocomputing 7, 2002.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from dcfsc import distributed, metrics, spectral
from dcfsc.affinity import TopK

from .base import Part, Representation, Setting

MOST_SAMPLES = 3000
PARTS, SHARE = 6, 0.8
TOPK, ASSIGN = TopK(), "filtered"  # how the default clusters
STARTS = 10  # of k-means, each improved; with three the choice hangs on the seed
ROOM = 3  # a part has more than so many times k samples


def common_sample(Z: Tensor) -> Tensor:
    """At most ``MOST_SAMPLES`` rows of all processes' Z, the same on each."""
    N = distributed.total_count(len(Z))
    if N <= MOST_SAMPLES:
        return distributed.gather_rows(Z)
    chosen = np.sort(np.random.RandomState(0).permutation(N)[:MOST_SAMPLES])
    counts = distributed.row_counts(len(Z), Z.device)
    first = sum(counts[: distributed.rank()])
    own = chosen[(chosen >= first) & (chosen < first + len(Z))] - first
    return distributed.gather_rows(Z[torch.from_numpy(own).to(Z.device)])


def enough_samples(n: int, n_clusters: int) -> bool:
    """Whether parts of n samples have room for the clusters and for every sample's neighbours."""
    return n > max(2 * n_clusters, ROOM * TOPK.k) / SHARE


def stabilities(
    candidates: Sequence[Representation], Z: Tensor, setting: Setting, affinity: TopK = TOPK
) -> dict[str, float]:
    """The mean adjusted Rand index between partitions of random parts of Z (n, d), by name."""
    n = len(Z)
    partitions: dict[str, list[np.ndarray]] = {c.name: [] for c in candidates}
    for candidate in candidates:
        candidate.prepare(Z)
    for index in random_parts(n):
        part = Part(Z, torch.from_numpy(index).to(Z.device), setting)
        for candidate in candidates:
            labels = np.full(n, -1)
            labels[index] = spectral.cluster(
                affinity(candidate.solve_part(part), setting.n_clusters),
                setting.n_clusters,
                assign=ASSIGN,
                random_state=0,
                n_init=STARTS,
                assign_device=spectral.place_for_rows(Z.device),
            ).labels
            partitions[candidate.name].append(labels)
    return {name: mean_agreement(labels) for name, labels in partitions.items()}


def random_parts(n: int) -> Iterator[np.ndarray]:
    """Sorted indices of ``PARTS`` random parts of n samples."""
    random = np.random.RandomState(0)
    for _ in range(PARTS):
        yield np.sort(random.permutation(n)[: int(SHARE * n)])


def mean_agreement(partitions: list[np.ndarray]) -> float:
    """The mean adjusted Rand index of pairs of labels (n,) where neither is -1."""
    agreements = []
    for a, b in combinations(partitions, 2):
        both = (a >= 0) & (b >= 0)
        agreements.append(metrics.ari(a[both], b[both]))
    return sum(agreements) / len(agreements)
