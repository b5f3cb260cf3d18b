"""The pipeline behind every estimator: coefficients -> affinity -> spectral -> labels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dcfsc import affinity as affinities
from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.graphs import Graph
from dcfsc.machine import resolve_device
from dcfsc.parameters import CALLABLE, SEED, Kind, check, one_of, table, whole
from dcfsc.pipeline import Copies, Partition, Recipe, cut, graph_of, partition
from dcfsc.pipeline.samples import groups_of_equal_samples
from dcfsc.progress import stage
from dcfsc.self_expression import Operator
from dcfsc.spectral import certain
from dcfsc.spectral.assignment import METHODS as ASSIGNMENTS

from . import sharded
from .diagnostics import Diagnostics
from .validation import check_n_clusters

HISTORY = "history_"
DEVICE = Kind(lambda v: not isinstance(v, bool) and bool(resolve_device(v)), "a device")


class Estimator(BaseEstimator):
    """scikit-learn's estimator, which a ``fit`` that fails leaves unfitted.

    Neither an earlier fit nor half of the new one remains: parameters may have changed in between.
    Only the new ``history_`` stays, so that a callback may end a training and its losses be read.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            setattr(cls, "fit", _fitted_or_not(vars(cls)["fit"]))  # noqa: B010

    def __sklearn_is_fitted__(self) -> bool:
        return bool({*_fitted_names(self)} - {HISTORY})


def _fitted_or_not(fit: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("sample_weight", None) is not None:
            raise InputError(
                f"{type(self).__name__} does not support sample_weight: every sample counts once. "
                "Leave out the samples that should not count."
            )
        earlier = vars(self).get(HISTORY)
        try:
            check(self)
            return fit(self, *args, **kwargs)
        except BaseException:
            for name in _fitted_names(self):
                if name != HISTORY or vars(self)[name] is earlier:
                    delattr(self, name)
            raise

    return guarded


def _fitted_names(estimator: Any) -> list[str]:
    """The attributes that scikit-learn takes for signs of a fit."""
    return [name for name in vars(estimator) if name.endswith("_") and not name.startswith("__")]


class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """A transformer of samples of any shape to rows in single precision."""

    sample_shape_: tuple[int, ...]
    _images_only = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.input_tags.two_d_array = not self._images_only
        tags.input_tags.three_d_array = True
        return tags


class SubspaceClusterer(Diagnostics, ClusterMixin, Estimator):
    """An estimator that ends in spectral clustering of an affinity made from coefficients.

    A subclass computes the coefficients in ``fit`` and hands them to :meth:`_cluster`. It is a
    dataclass: its fields are the parameters, which scikit-learn wants stored as they are given.
    """

    n_clusters: Any
    affinity: Any
    assign: str
    device: Any
    random_state: Any

    _table = table(
        n_clusters=whole(1) | one_of("auto"),
        affinity=one_of(*affinities.names()) | CALLABLE,
        assign=one_of(*ASSIGNMENTS),
        device=DEVICE,
        random_state=SEED,
    )

    n_clusters_: int
    labels_: np.ndarray
    embedding_: np.ndarray
    eigenvalues_: np.ndarray
    confidence_: np.ndarray
    next_best_: np.ndarray
    sample_shape_: tuple[int, ...]
    _operator: Operator | None
    _partition: Partition

    def _affinity(self) -> Any:
        """The affinity, by name or as an object."""
        return self.affinity

    def _recipe(self, n_clusters: int) -> Recipe:
        """The settings that lead from the operator to the labels."""
        make = affinities.get(self._affinity(), n_clusters)
        shape = self.sample_shape_
        return Recipe(shape, n_clusters, affinity=make, assign=self.assign)

    def _cluster(
        self,
        X: Any,
        operator: Operator,
        n_clusters: int,
        random_state: np.random.RandomState,
        order: np.ndarray | None = None,
        copies: Copies | None = None,
    ) -> None:
        """Set the attributes that all estimators have, from ``coefficients_`` to ``confidence_``.

        Where at most K of the samples X (n, ...) differ, equal ones are a cluster, whatever their
        coefficients say. ``order`` and ``copies`` are for :func:`dcfsc.pipeline.partition`.
        """
        recipe, groups = self._recipe(n_clusters), groups_of_equal_samples(X, n_clusters)
        self.coefficients_ = operator
        if processes.active():
            sharded.cluster(self, operator, recipe, random_state, groups, order, copies)
            return
        self.__dict__.pop("share_", None)
        stage("linking %s samples to each other", f"{operator.n:,}")
        graph = graph_of(operator, recipe)
        stage("cutting the graph into %d clusters", n_clusters)
        result = partition(graph, recipe, random_state, groups, order=order, copies=copies)
        self._take_partition(result, graph)

    def cut(self, n_clusters: int) -> Self:
        """The same fit with fewer clusters: a model that shares the graph and the eigenvectors.

        ``n_clusters`` is at most that of this model, whose graph was made for it: the partition
        need not be the one that a fit with fewer clusters finds.
        """
        check_is_fitted(self)
        embedding = self._partition.embedding
        if embedding is None:
            raise InputError("a loaded model cannot be cut, because it has no embedding_.")
        K = check_n_clusters(n_clusters, self.n_clusters_)
        model = copy.copy(self)
        model.set_params(n_clusters=K)
        model.n_clusters_ = K
        if self.labels_.max() < K:
            model._take_partition(Partition(self.labels_, certain(self.labels_, K), embedding))
            return model
        rng, device = check_random_state(self.random_state), resolve_device(self.device)
        model._take_partition(cut(embedding, self.affinity_matrix_, self._recipe(K), rng, device))
        return model

    def _take_partition(self, result: Partition, graph: Graph | None = None) -> None:
        """Copy a partition's fields, and the graph's matrix, to the attributes."""
        self._partition, self.labels_ = result, result.labels
        self.confidence_ = result.memberships.confidence
        self.next_best_ = result.memberships.next_best
        if result.embedding is not None:
            self.embedding_ = result.embedding.vectors
            self.eigenvalues_ = result.embedding.values
        if graph is not None:
            self.affinity_matrix_ = graph.on_host

    @property
    def score(self) -> Any:
        """Only for estimators that label new samples."""
        raise AttributeError(
            f"{type(self).__name__} labels only the samples it was fitted on, so it has no score; "
            "compare labels_ with known classes by sklearn.metrics.adjusted_rand_score, or use "
            "ClosedFormSubspaceClustering or DCFSC."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = True
        return tags
