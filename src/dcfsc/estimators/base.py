"""The pipeline behind every estimator: coefficients -> affinity -> spectral -> labels."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dcfsc import affinity as affinities
from dcfsc import processes, spectral
from dcfsc.errors import InputError
from dcfsc.graphs import Graph
from dcfsc.machine import resolve_device
from dcfsc.parameters import CALLABLE, SEED, Kind, check, one_of, table, whole
from dcfsc.pipeline import Copies, Known, Partition, Recipe, cut, graph_of, partition
from dcfsc.pipeline.samples import groups_of_equal_samples
from dcfsc.progress import stage
from dcfsc.self_expression import LambdaPath, Operator, effective_dof, squared_singular_values
from dcfsc.spectral.assignment import METHODS as ASSIGNMENTS

from . import sharded
from .validation import check_n_clusters

HISTORY = "history_"
EXTRA_EIGENVALUES = 10
PATH_POINTS = 49
# N d min(N, d) up to which the leave-one-out error is computed along the path: seconds.
PATH_COST = 2e10
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
            X: Any = args[0] if args else kwargs.get("X")
            self._index = X.index if hasattr(X, "iloc") else None
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


class SubspaceClusterer(ClusterMixin, Estimator):
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
    affinity_matrix_: Any
    lam_: Any
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
        known: Known | None = None,
    ) -> None:
        """Set the attributes that all estimators have, from ``coefficients_`` to ``confidence_``.

        Where at most K of the samples X (n, ...) differ, equal ones are a cluster, whatever their
        coefficients say. The last three are for :func:`dcfsc.pipeline.partition`.
        """
        recipe = self._recipe(n_clusters)
        groups = groups_of_equal_samples(X, n_clusters) if known is None else None
        self.coefficients_ = operator
        if processes.active():
            sharded.cluster(self, operator, recipe, random_state, groups, order, copies)
            return
        self.__dict__.pop("share_", None)
        stage("linking %s samples to each other", f"{operator.n:,}")
        graph = graph_of(operator, recipe)
        stage("cutting the graph into %d clusters", n_clusters)
        if known is not None:
            graph = known.linked(graph, random_state)
        result = partition(graph, recipe, random_state, groups, None, order, copies, known)
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
            model._take_partition(
                Partition(self.labels_, spectral.certain(self.labels_, K), embedding)
            )
            return model
        rng, device = check_random_state(self.random_state), resolve_device(self.device)
        model._take_partition(cut(embedding, self.affinity_matrix_, self._recipe(K), rng, device))
        return model

    def to_frame(self) -> Any:
        """The clusters of the fitted samples as a pandas frame.

        Its columns are ``cluster``, ``confidence`` and ``next_best``. If ``fit`` was given a pandas
        frame, it has the index of that frame.
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas: pip install 'dcfsc[pandas]'.") from None
        columns = {
            "cluster": self.labels_,
            "confidence": self.confidence_,
            "next_best": self.next_best_,
        }
        return pd.DataFrame(columns, index=vars(self).get("_index"))

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

    def _ridge_features(self) -> Any:
        """The rows (N, d) whose closed form with a ridge was taken; None where there are none."""
        return None

    def spectrum(self, extra: int = EXTRA_EIGENVALUES) -> np.ndarray:
        """The K + ``extra`` leading eigenvalues of the normalized affinity, descending."""
        if not hasattr(self, "affinity_matrix_"):
            raise InputError(
                f"{type(self).__name__} has no affinity_matrix_; fit it first (a loaded model has "
                "none)."
            )
        A, device = self.affinity_matrix_, resolve_device(self.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a picture needs no tight residual
            wider = spectral.embed(
                A,
                min(self.n_clusters_ + extra, A.shape[0]),
                random_state=0,
                tol=1e-4,
                device=device if device.type == "cuda" else None,
            )
        return np.sort(wider.values)[::-1].astype(np.float64)

    def _has_lambda_path(self) -> bool:
        """Whether the estimator is fitted and its coefficients are the closed form's."""
        return "labels_" in vars(self) and self._ridge_features() is not None

    def lambda_path(self) -> np.ndarray:
        """Rows of lam, tr H and |Z - B Z|^2 / |Z|^2 over eight decades around ``lam_``, (49, 3).

        The last is NaN where it would take more than seconds. Only the closed form has a path.
        """
        if not self._has_lambda_path():
            raise InputError(
                f"{type(self).__name__} has no lambda path: it is not fitted, or its coefficients "
                "are not the closed form's (use DCFSC, or ClosedFormSubspaceClustering with "
                "representation='given'; other representations have none)."
            )
        Z = torch.as_tensor(self._ridge_features(), device=resolve_device(self.device))
        grid = self.lam_ * 10.0 ** np.linspace(-4.0, 4.0, PATH_POINTS)
        n, d = Z.shape
        if n * d * min(n, d) > PATH_COST:
            squares = squared_singular_values(Z)
            return np.array([(x, effective_dof(squares, x), np.nan) for x in grid])
        path = LambdaPath(Z)
        energy = max(float(path.squares.sum()), 1e-300)
        return np.array(
            [(x, path.effective_dof(x), path.leave_one_out_error(x) / energy) for x in grid]
        )

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
