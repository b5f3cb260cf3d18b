"""The pipeline behind every estimator: coefficients -> affinity -> spectral -> labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import distributed, spectral
from dcfsc.self_expression import Operator

from . import sharded
from .diagnostics import Diagnostics


class SubspaceClusterer(Diagnostics, ClusterMixin, BaseEstimator):
    """An estimator that ends in spectral clustering of an affinity made from coefficients.

    A subclass computes the coefficients in ``fit`` and hands them to :meth:`_cluster`.
    """

    n_clusters: int
    affinity: Any
    assign: str

    labels_: np.ndarray

    def _cluster(
        self, operator: Operator, n_clusters: int, random_state: np.random.RandomState
    ) -> None:
        """Set ``coefficients_``, ``affinity_matrix_``, ``embedding_`` and ``labels_``."""
        if distributed.active():
            sharded.cluster(self, operator, n_clusters, random_state)
            return
        self.coefficients_ = operator
        self.__dict__.pop("share_", None)
        matrix = affinities.get(self.affinity, n_clusters)(operator, n_clusters)
        result = spectral.cluster(
            matrix,
            n_clusters,
            assign=self.assign,
            random_state=random_state,
            device=spectral.place_for(matrix, operator.device),
            assign_device=spectral.place_for_rows(operator.device),
        )
        self.affinity_matrix_ = matrix.cpu().numpy() if isinstance(matrix, Tensor) else matrix
        self.embedding_ = result.embedding
        self.labels_ = result.labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
