"""The pipeline behind every estimator: coefficients -> affinity -> spectral -> labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import distributed, spectral
from dcfsc.self_expression.approximate import ApproximateNeighbours

from . import sharded
from .diagnostics import Diagnostics

# A sparse graph of up to so many points is solved on the CPU, wherever its coefficients live.
SMALL_GRAPH = 20_000


class SubspaceClusterer(Diagnostics, ClusterMixin, BaseEstimator):
    """An estimator that ends in spectral clustering of an affinity made from coefficients.

    A subclass computes the coefficients in ``fit`` and hands them to :meth:`_cluster`.
    """

    n_clusters: int
    affinity: Any
    assign: str

    labels_: np.ndarray

    def _cluster(
        self, coefficients: Any, n_clusters: int, random_state: np.random.RandomState
    ) -> None:
        """Set ``coefficients_``, ``affinity_matrix_``, ``embedding_`` and ``labels_``."""
        if distributed.active():
            sharded.cluster(self, coefficients, n_clusters, random_state)
            return
        self.coefficients_ = coefficients
        self.__dict__.pop("share_", None)
        make = affinities.get(self.affinity, n_clusters)
        if getattr(make, "search", "exact") == "approximate":
            self.coefficients_ = coefficients = ApproximateNeighbours(coefficients)
        matrix = make(coefficients, n_clusters)
        result = spectral.cluster(
            matrix,
            n_clusters,
            assign=self.assign,
            random_state=random_state,
            device=_spectral_device(coefficients, matrix),
        )
        self.affinity_matrix_ = matrix.cpu().numpy() if isinstance(matrix, Tensor) else matrix
        self.embedding_ = result.embedding
        self.labels_ = result.labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _spectral_device(coefficients: Any, matrix: Any) -> torch.device | None:
    """Where the eigenproblem is solved: a large sparse graph on the coefficients' GPU."""
    device = getattr(coefficients, "device", None)
    if isinstance(matrix, Tensor) or device is None or device.type != "cuda":
        return None
    return device if matrix.shape[0] > SMALL_GRAPH else None
