"""How stable partitions are: by this the data decide how they are seen, and labels do not.

A way to see the samples that fits them gives nearly the same partition when some samples are taken
away. So each way clusters random parts of a sample of the data, four fifths of it each, and the way
whose partitions agree best with each other where the parts overlap, by the adjusted Rand index, is
taken. The neighbours are searched once: those of a part are the nearest among those that are left.

References
----------
A. Ben-Hur, A. Elisseeff, I. Guyon. A stability based method for discovering structure in clustered
data. Pacific Symposium on Biocomputing 7, 2002.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc import distributed, metrics, spectral
from dcfsc.affinity import TopK
from dcfsc.affinity.base import ways_of
from dcfsc.self_expression import ClosedForm
from dcfsc.self_expression.orbit import OrbitForm
from dcfsc.self_expression.ways import Ways

from .sharded import total_samples

MOST_SAMPLES = 3000
PARTS, SHARE = 6, 0.8
TOPK, ASSIGN = TopK(), "filtered"  # how the default clusters
SPARE = 3  # so many times k neighbours are searched, of which a part loses a fifth


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
    return n > max(2 * n_clusters, SPARE * TOPK.k) / SHARE


def agreement(
    operator: ClosedForm | OrbitForm | Ways,
    n_clusters: int,
    affinity: TopK = TOPK,
    assign: str = ASSIGN,
    share: float = SHARE,
    parts: int = PARTS,
) -> float:
    """The mean adjusted Rand index between the default's partitions of random parts."""
    lists = []
    for way in ways_of(operator):
        values, indices = way.topk_cosine(SPARE * affinity.k)
        weights = values.to(torch.float64).abs().clamp_max(1.0).cpu().numpy() ** affinity.power
        lists.append((weights, indices.cpu().numpy()))
    random, n = np.random.RandomState(0), operator.n
    partitions = []
    for _ in range(parts):
        part = np.sort(random.permutation(n)[: int(share * n)])
        labels = np.full(n, -1)
        A = sum(graph_of_part(*neighbours, part, affinity.k) for neighbours in lists)
        labels[part] = spectral.cluster(A, n_clusters, assign=assign, random_state=0).labels
        partitions.append(labels)
    agreements = []
    for a, b in combinations(partitions, 2):
        both = (a >= 0) & (b >= 0)
        agreements.append(metrics.ari(a[both], b[both]))
    return sum(agreements) / len(agreements)


def graph_of_part(
    weights: np.ndarray, columns: np.ndarray, part: np.ndarray, k: int = TopK.k
) -> sp.csr_array:
    """The graph among the samples of ``part``, (n, n), from all samples' neighbours.

    ``weights`` and ``columns`` (N, s), by descending weight; the first k within the part count.
    """
    place = np.full(len(columns), -1)
    place[part] = np.arange(len(part))
    inside = place[columns[part]]
    kept = (inside >= 0) & (np.cumsum(inside >= 0, axis=1) <= k)
    rows = np.nonzero(kept)[0]
    shape = (len(part), len(part))
    W = sp.csr_array((weights[part][kept], (rows, inside[kept])), shape=shape)
    return sp.csr_array(W + W.T)
