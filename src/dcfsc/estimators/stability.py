"""Whether pictures should be seen with their transformations: the data decide, labels do not.

A way to see the samples that fits them gives nearly the same partition whatever the ridge and the
number of neighbours. So both ways (as they are, and with shifts and mirror images) cluster a sample
of the data six times each, over three degrees of freedom and two numbers of neighbours, and the way
whose partitions agree better with each other, by the adjusted Rand index, is taken.
"""

from __future__ import annotations

import logging
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from dcfsc import distributed, metrics, spectral
from dcfsc.affinity import TopK
from dcfsc.affinity.topk import sparse_symmetric
from dcfsc.self_expression import lam_for_dof
from dcfsc.self_expression.orbit import OrbitForm, View, orbit_gram

from .sharded import total_samples
from .transformations import AUTO, resolve, views_of

logger = logging.getLogger("dcfsc")

MOST_SAMPLES = 3000
DIMENSIONS = (1.5, 2.0, 3.0)  # tr H = K times these
NEIGHBOURS = (5, 7)


def choose_transformations(
    name: str, Z: Tensor, sample_shape: tuple[int, ...], n_clusters: int
) -> tuple[str, dict[str, float]]:
    """The set of transformations for features Z (N, d), and each candidate's stability.

    Where samples are divided among processes all of them choose by the same sample.
    """
    name = resolve(name, sample_shape)
    if name != "auto":
        return name, {}
    Z = common_sample(Z)
    if len(Z) <= max(2 * n_clusters, max(NEIGHBOURS) + 1):
        return "none", {}
    with distributed.alone():
        found = {
            candidate: stability(views_of(candidate, Z, sample_shape), n_clusters)
            for candidate in ("none", AUTO)
        }
    best = AUTO if found[AUTO] > found["none"] else "none"
    told = ", ".join(f"{candidate} {score:.3f}" for candidate, score in found.items())
    logger.info("transformations of images: %s (stability: %s)", best, told)
    return best, found


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


def stability(views: list[View], n_clusters: int) -> float:
    """The mean adjusted Rand index between partitions along the path of the ridge."""
    G = orbit_gram(views)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)
    partitions = []
    for m in DIMENSIONS:
        operator = OrbitForm(views, lam_for_dof(squares, m * n_clusters), G.clone())
        values, indices = operator.topk_cosine(max(NEIGHBOURS))
        weights = values.to(torch.float64).abs().clamp_max(1.0) ** TopK.power
        for k in NEIGHBOURS:
            A = sparse_symmetric(weights[:, :k], indices[:, :k], operator.n)
            partitions.append(spectral.cluster(A, n_clusters, random_state=0).labels)
    pairs = list(combinations(partitions, 2))
    return sum(metrics.ari(a, b) for a, b in pairs) / len(pairs)
