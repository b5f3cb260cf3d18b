"""How stable partitions are: by this the data decide how they are seen, and labels do not.

A way to see the samples that fits them gives nearly the same partition when some samples are taken
away. So each way clusters random parts of a sample of the data, four fifths of it each, in the
metric and by the neighbours of the part. The way whose partitions agree best with each other where
the parts overlap, by the adjusted Rand index, is taken. (A metric kept from all samples would make
partitions agree by what the samples left out have said.)

References
----------
A. Ben-Hur, A. Elisseeff, I. Guyon. A stability based method for discovering structure in clustered
data. Pacific Symposium on Biocomputing 7, 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from dcfsc import distributed, metrics, spectral
from dcfsc.affinity import TopK
from dcfsc.self_expression import ClosedForm
from dcfsc.self_expression.orbit import OrbitForm
from dcfsc.self_expression.ways import Ways

from .sharded import total_samples

Operator: TypeAlias = "ClosedForm | OrbitForm | Ways"

MOST_SAMPLES = 3000
PARTS, SHARE = 6, 0.8
TOPK, ASSIGN = TopK(), "filtered"  # how the default clusters
STARTS = 3  # of k-means, each improved: a part's partition is only compared
ROOM = 3  # a part has more than so many times k samples


def common_sample(Z: Tensor) -> Tensor:
    """At most ``MOST_SAMPLES`` rows of all processes' Z, the same on each."""
    N = total_samples(len(Z))
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
    Z: Tensor,
    n_clusters: int,
    ways: Callable[[Tensor], Iterable[tuple[str, Operator]]],
    affinity: TopK = TOPK,
) -> dict[str, float]:
    """The mean adjusted Rand index between the default's partitions of random parts of Z, by way.

    ``ways`` names the ways to see the rows that it is given, and the coefficients that each has.
    """
    random, n = np.random.RandomState(0), len(Z)
    partitions: dict[str, list[np.ndarray]] = {}
    for _ in range(PARTS):
        part = np.sort(random.permutation(n)[: int(SHARE * n)])
        for name, operator in ways(Z[torch.from_numpy(part).to(Z.device)]):
            labels = np.full(n, -1)
            labels[part] = spectral.cluster(
                affinity(operator, n_clusters),  # type: ignore[arg-type]
                n_clusters,
                assign=ASSIGN,
                random_state=0,
                n_init=STARTS,
            ).labels
            partitions.setdefault(name, []).append(labels)
    return {name: mean_agreement(found) for name, found in partitions.items()}


def mean_agreement(partitions: list[np.ndarray]) -> float:
    """The mean adjusted Rand index of pairs of labels (n,) where neither is -1."""
    found = []
    for a, b in combinations(partitions, 2):
        both = (a >= 0) & (b >= 0)
        found.append(metrics.ari(a[both], b[both]))
    return sum(found) / len(found)
