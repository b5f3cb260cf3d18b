"""The default as it was when the first experiments were made: their scripts keep to it.

tr H = 3 K as samples are, 1.5 K with shifts and mirror images, six neighbours to the fourth power,
k-means on as many eigenvectors as clusters. docs/experiments.md tells what came after it.
"""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from dcfsc.affinity import TopK
from dcfsc.estimators.neighbour_metric import metric_rounds
from dcfsc.estimators.regularisation import lam_for
from dcfsc.estimators.stability import agreement
from dcfsc.self_expression import lam_for_dof, solve
from dcfsc.self_expression.orbit import OrbitForm, View, orbit_gram

SUBSPACE_DIM, ORBIT_SUBSPACE_DIM = 3.0, 1.5
AFFINITY, ASSIGN = TopK(6, 4.0), "kmeans"
SMALLEST_SIDE = 16  # of pictures that were seen by their scattering coefficients


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
