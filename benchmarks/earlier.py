"""What the default was when experiments were made: their scripts keep to it.

The first had tr H = 3 K as samples are, 1.5 K with shifts and mirror images, six neighbours to the
fourth power, k-means on as many eigenvectors as clusters. All but the last judged ways to see the
samples by ``agreement``: parts were clustered in the metric and by the neighbours of all samples.
docs/experiments.md tells what came after it.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc import spectral
from dcfsc.affinity import TopK
from dcfsc.affinity.base import ways_of
from dcfsc.representations.neighbour_metric import metric_rounds
from dcfsc.estimators.regularisation import lam_for
from dcfsc.representations.stability import ASSIGN as FILTERED
from dcfsc.representations.stability import PARTS, SHARE, TOPK, Operator, mean_agreement
from dcfsc.self_expression import lam_for_dof, solve
from dcfsc.self_expression.orbit import OrbitForm, View, orbit_gram

SUBSPACE_DIM, ORBIT_SUBSPACE_DIM = 3.0, 1.5
AFFINITY, ASSIGN = TopK(6, 4.0), "kmeans"
SMALLEST_SIDE = 16  # of pictures that were seen by their scattering coefficients
SPARE = 3  # so many times k neighbours were searched, of which a part lost a fifth


def agreement(
    operator: Operator,
    n_clusters: int,
    affinity: TopK = TOPK,
    assign: str = FILTERED,
    share: float = SHARE,
    parts: int = PARTS,
) -> float:
    """The mean adjusted Rand index between partitions of random parts, neighbours searched once."""
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
    return mean_agreement(partitions)


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


def subspace_dim(views: list[View]) -> float:
    return SUBSPACE_DIM if len(views) == 1 else ORBIT_SUBSPACE_DIM


def orbit_form(views: list[View], n_clusters: int) -> OrbitForm:
    """The closed form with these views."""
    G = orbit_gram(views)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)
    return OrbitForm(views, lam_for_dof(squares, subspace_dim(views) * n_clusters), G)


def stability(views: list[View], n_clusters: int) -> float:
    return agreement(orbit_form(views, n_clusters), n_clusters, AFFINITY, ASSIGN)


def neighbour_metric(Z: Tensor, n_clusters: int, rounds: int) -> Tensor:
    """T (d, d) of the metric of neighbours after so many rounds."""
    first = solve(Z, lam_for(Z, n_clusters, SUBSPACE_DIM))
    found = metric_rounds(Z, n_clusters, first, AFFINITY)
    return next(islice(found, rounds - 1, None))[0]
