"""The pipeline behind every estimator: coefficients -> affinity -> spectral -> labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import spectral


class SubspaceClusterer(ClusterMixin, BaseEstimator):
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
        self.coefficients_ = coefficients
        make = affinities.get(self.affinity, n_clusters)
        matrix = make(coefficients, n_clusters)
        result = spectral.cluster(
            matrix,
            n_clusters,
            assign=self.assign,
            random_state=random_state,
        )
        self.affinity_matrix_ = matrix.cpu().numpy() if isinstance(matrix, Tensor) else matrix
        self.embedding_ = result.embedding
        self.labels_ = result.labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
