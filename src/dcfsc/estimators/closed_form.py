"""The closed form on the given features: no network, no iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc import distributed
from dcfsc.errors import InputError
from dcfsc.self_expression import ClosedForm, lam_for_dof, solve
from dcfsc.self_expression.orbit import OrbitForm, View, orbit_gram
from dcfsc.self_expression.ways import Ways

from .base import SubspaceClusterer
from .neighbour_metric import check_metric, choose_metric, in_metric, plain_ridge
from .persistence import Persistent
from .pictures import Pictures, check_features, choose_pictures, may_scatter, mirror_form
from .prediction import vote
from .regularisation import ORBIT_SUBSPACE_DIM, lam_for, target_dof
from .sharded import check_choices, check_whole, common_random_state, total_samples
from .stability import ASSIGN
from .transformations import check_transformations, views_of
from .validation import (
    as_float,
    check_array,
    check_lam,
    check_n_clusters,
    resolve_device,
    unit_rows,
)


class ClosedFormSubspaceClustering(Persistent, SubspaceClusterer):
    """Subspace clustering by the closed form of ridge self-expression.

        min_C |Z - C Z|_F^2 + lam |C|_F^2   subject to   diag(C) = 0

    solved exactly, then an affinity from C, then spectral clustering. The literature knows it as
    least squares regression (LSR, Lu et al. 2012); Seo et al. (2019) use it as a network's layer.

    Choose it when the features are good as they are (embeddings, scattering coefficients, aligned
    faces), when there are many samples, or as the row to show beside every deep method. Cost
    N d^2 + d^3 for the coefficients and N^2 d for the neighbour scan of the sparse affinity;
    memory N d + N k: no N x N matrix with the default affinity.

    Parameters
    ----------
    n_clusters : int
        Number of clusters K.
    lam : float or "auto"
        Ridge parameter, or the one at which the effective degrees of freedom tr H are
        ``n_clusters * subspace_dim``.
    subspace_dim : float or None
        Expected dimension m of a subspace, used by ``lam="auto"``; None is 3, or 1.5 where
        transformations are used.
    normalize : bool
        Scale every sample to unit length first, so that lam means the same for each.
    transformations : "none", "shifts", "mirror" or "shifts+mirror"
        Changes after which a picture shows the same thing: a sample is then expressed over the
        others and over what they turn into by shifts of one pixel and by exchanging left and right
        (see :mod:`dcfsc.self_expression.orbit`).
    features : "auto", "given" or "scattering"
        The samples as they are given, or pictures by their scattering coefficients, in the metric
        of neighbours and with mirror images (:mod:`.pictures`). "auto": for pictures of 6 pixels a
        side to 4,096 in all the way whose partitions are the more stable (:mod:`.stability`),
        unless transformations, metric, lam or subspace_dim are given.
    metric : "auto", "none", "neighbours" or "neighbours-twice"
        The samples as they are, or in a metric in which the neighbours found by the closed form are
        close, where they are ranked by the plain cosine (:mod:`.neighbour_metric`); or in one made
        from the neighbours that this has found, in the same way. "auto": none or twice, by
        stability again, unless transformations, lam or subspace_dim are given.
    affinity : str or callable
        "topk" (sparse), "symmetric", "low_rank", a published protocol such as "dsc-orl", or an
        object such as ``dcfsc.affinity.TopK(k=10)``.
    assign : "filtered", "kmeans", "cluster_qr" or "discretize"
    form : "auto", "samples" or "features"
        How the closed form is solved; all give the same coefficients.
    n_neighbors : int
        How many training samples vote in ``predict``.
    device : "auto", "cpu", "cuda", ...
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : ndarray (N,)
    lam_, effective_dof_ : float
    features_, transformations_, metric_, stability_ : str, str, str, dict
        What was chosen, and the stability of the candidates where the data decided.
    leverage_ : ndarray (N,)
    affinity_matrix_ : ndarray or sparse array (N, N)
    embedding_ : dcfsc.spectral.Embedding

    Examples
    --------
    >>> from dcfsc import ClosedFormSubspaceClustering
    >>> from dcfsc.datasets import synthetic
    >>> data = synthetic(n_samples=200, n_clusters=3, subspace_dim=3, random_state=0)
    >>> ClosedFormSubspaceClustering(n_clusters=3, random_state=0).fit_predict(data.X).shape
    (200,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        lam: float | str = "auto",
        subspace_dim: float | None = None,
        normalize: bool = True,
        transformations: str = "none",
        features: str = "auto",
        metric: str = "auto",
        affinity: Any = "topk",
        assign: str = ASSIGN,
        form: str = "auto",
        n_neighbors: int = 10,
        device: Any = "auto",
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.lam = lam
        self.subspace_dim = subspace_dim
        self.normalize = normalize
        self.transformations = transformations
        self.features = features
        self.metric = metric
        self.affinity = affinity
        self.assign = assign
        self.form = form
        self.n_neighbors = n_neighbors
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> ClosedFormSubspaceClustering:
        """Cluster the rows of X (n, features), (n, h, w) or (n, c, h, w)."""
        X = check_array(self, X, reset=True, least_samples=1 if distributed.active() else 2)
        n_clusters = check_n_clusters(self.n_clusters, total_samples(X.shape[0]))
        check_choices(self, n_clusters)
        fixed = check_lam(self.lam)
        random_state = common_random_state(self.random_state)
        check_transformations(self.transformations, X.shape[1:])
        check_features(self.features)
        check_metric(self.metric)
        Z = self._see(self._features(X), n_clusters, fixed)
        self.lam_ = fixed or self._lam_for(Z, n_clusters)
        operator = self._operator = self._solve(Z)
        self.leverage_ = operator.leverage.cpu().numpy()
        self.effective_dof_ = operator.effective_dof
        self._cluster(operator, n_clusters, random_state)
        self._training_features = Z
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels of unseen samples, by the mass of their ridge codes over the training set."""
        check_is_fitted(self)
        check_whole(self)
        X = check_array(self, X, reset=False)
        k = max(1, int(self.n_neighbors))
        if self._operator is None:
            self._operator = self._solve(self._training_features)
        Z = self._features(X)
        if self._pictures is not None:
            Z = self._pictures.features(Z.reshape(len(Z), *self.sample_shape_).cpu().numpy())
        elif self._metric is not None:
            Z = in_metric(Z, self._metric)
        return vote(self._operator, self.labels_, int(self.n_clusters), Z, k)

    def _features(self, X: np.ndarray) -> Tensor:
        Z = as_float(X, resolve_device(self.device)).reshape(X.shape[0], -1)
        return unit_rows(Z) if self.normalize else Z

    def _see(self, Z: Tensor, n_clusters: int, fixed: float | None) -> Tensor:
        """Decide how the samples Z (N, d) are seen; returns them as they are seen then."""
        features, metric = self._wanted(n_clusters, fixed is not None)
        self.transformations_, self.features_ = self.transformations, "given"
        self.metric_, self._metric, scores = choose_metric(metric, Z, n_clusters)
        self._pictures = None
        if features != "given":
            self._pictures, scores = choose_pictures(
                features, Z, self.sample_shape_, n_clusters, scores
            )
        self.stability_ = scores
        if self._pictures is not None:
            self._metric, self.transformations_ = None, "mirror"
            self.features_, self.metric_ = "scattering", "neighbours"
            return self._pictures(Z)
        return Z if self._metric is None else in_metric(Z, self._metric)

    def _wanted(self, n_clusters: int, fixed: bool) -> tuple[str, str]:
        """The features and the metric of what is given, "auto" where stability is to decide."""
        ridge = fixed or self.subspace_dim is not None or not self.normalize
        settled = ridge or self.transformations != "none"
        if settled and self.metric not in ("auto", "none"):
            raise InputError(
                f"metric={self.metric!r} has no transformations, no lam or subspace_dim, and "
                "rows of unit length; leave them at their defaults or take metric='none'."
            )
        can = may_scatter(self.sample_shape_, self.affinity, n_clusters) and not settled
        if self.features == "scattering":
            if not can or self.metric not in ("auto", "neighbours"):
                raise InputError(
                    "features='scattering' is for images of at least 6 pixels a side and at most "
                    "4,096 in all, with the affinity 'topk', and no transformations, metric, lam "
                    "or subspace_dim given; ScatteringFeatures makes features of other images."
                )
            return "scattering", "none"
        can = can and self.metric == "auto"
        metric = "none" if settled else self.metric
        return self.features if can else "given", metric

    def _lam_for(self, Z: Tensor, n_clusters: int) -> float:
        if self.metric_ != "none":
            return plain_ridge(total_samples(len(Z)))
        if self.transformations_ == "none":
            return lam_for(Z, n_clusters, self.subspace_dim)
        squares = torch.linalg.eigvalsh(orbit_gram(self._views(Z))).clamp_min(0.0)
        dof = target_dof(n_clusters, self.subspace_dim, ORBIT_SUBSPACE_DIM)
        return lam_for_dof(squares, dof)

    def _solve(self, Z: Tensor) -> ClosedForm | OrbitForm | Ways:
        Z = Z.to(resolve_device(self.device))
        if self._pictures is not None:
            return mirror_form(Z, self.lam_, self.form)
        if self.transformations_ != "none":
            return OrbitForm(self._views(Z), self.lam_)
        return solve(Z, self.lam_, form=self.form)  # type: ignore[arg-type]

    def _views(self, Z: Tensor) -> list[View]:
        return views_of(self.transformations_, Z, self.sample_shape_)

    _operator: ClosedForm | OrbitForm | Ways | None
    _metric: Tensor | None
    _pictures: Pictures | None
    sample_shape_: tuple[int, ...]

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        check_whole(self)
        tensors = {
            "features": self._training_features,
            "labels": torch.from_numpy(self.labels_),
        }
        values = {
            "lam": self.lam_,
            "sample_shape": list(self.sample_shape_),
            "n_features_in": self.n_features_in_,
            "transformations": self.transformations_,
            "features": self.features_,
            "metric": self.metric_,
            "stability": self.stability_,
        }
        if self._pictures is not None:
            more, values["scattering"] = self._pictures.state()
            seen, mirrored = self._training_features.unbind(1)
            tensors.update(more, features=seen.contiguous(), mirrored=mirrored.contiguous())
        elif self._metric is not None:
            tensors["metric"] = self._metric
        return tensors, values

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        Z = tensors["features"].to(resolve_device(self.device))
        self.labels_ = tensors["labels"].numpy()
        self.lam_ = float(values["lam"])
        self.sample_shape_ = tuple(values["sample_shape"])
        self.n_features_in_ = int(values["n_features_in"])
        self.transformations_ = str(values["transformations"])
        self.stability_ = dict(values["stability"])
        self.features_ = str(values.get("features", "given"))
        self.metric_ = str(values["metric"])
        self._metric = self._pictures = None
        if self.features_ == "scattering":
            self._pictures = Pictures.restored(
                self.sample_shape_, tensors, values["scattering"], Z.device
            )
            Z = torch.stack((Z, tensors["mirrored"].to(Z.device)), dim=1)
        elif self.metric_ != "none":
            self._metric = tensors["metric"].to(Z.device)
        self._training_features = Z
        operator = self._operator = self._solve(Z)
        self.leverage_ = operator.leverage.cpu().numpy()
        self.effective_dof_ = operator.effective_dof
