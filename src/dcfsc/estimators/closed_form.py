"""The closed form on the given features: no network, no iterations."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.machine import resolve_device
from dcfsc.parameters import one_of, table, whole
from dcfsc.pipeline import ASSIGN, Known, Recipe, common_sample, distinct
from dcfsc.pipeline.copies import restored as restored_copies
from dcfsc.pipeline.samples import Samples
from dcfsc.progress import announced
from dcfsc.representations import create, restore
from dcfsc.selection import announce_long_work, select, stability_of
from dcfsc.selection.stability import enough_samples
from dcfsc.self_expression import Operator, RankedByCosine, RepeatedForm
from dcfsc.self_expression.solve import Form

from .base import SubspaceClusterer
from .persistence import Persistent
from .prediction import LabelsUnseen, restored_partition
from .sharded import check_whole
from .start import begin
from .validation import GRAPH, SUBSPACE_DIM, check_array, fixed_lam


@dataclass(eq=False, repr=False)
class ClosedFormSubspaceClustering(LabelsUnseen, Persistent, SubspaceClusterer):
    """Subspace clustering by the closed form of ridge self-expression.

        min_C |Z - C Z|_F^2 + lam |C|_F^2   subject to   diag(C) = 0

    solved exactly; then an affinity from C, and spectral clustering. In the literature this is
    least squares regression (LSR, Lu et al. 2012); Seo et al. (2019) use it as a network's layer.

    This is the method to start with, for images, features and tables, and the one to compare every
    deep method with. Cost
    N d^2 + d^3 for the coefficients and N^2 d for the neighbor scan of the sparse affinity;
    memory N d + N k + N K: no N x N matrix with the default affinity.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters K; "auto" is the first candidate of :func:`dcfsc.suggest_k`.
    lam : float or "auto"
        Ridge parameter, or the one at which the effective degrees of freedom tr H are
        ``n_clusters * subspace_dim``.
    subspace_dim : float or None
        Expected dimension m of a subspace, used by ``lam="auto"``; None is 3.
    normalize : bool
        Scale every sample to unit length first, so that lam means the same for each.
    representation : str
        How samples are compared (:mod:`dcfsc.representations`):

        - "given": unchanged, by the closed form.
        - "joined": by the closed form, by half-whitened principal components and by columns on one
          scale; the three graphs are added.
        - "cosine": by the cosine alone.
        - "columns": by the cosine, after each column is centered and divided by its deviation.
        - "ranks": by the ranks of the numbers in each column.
        - "metric", "metric-twice": in a metric in which the neighbors found by the closed form are
          close.
        - "affine": by principal homogeneous coordinates, for few samples on flats of low dimension,
          such as the trajectories of points on moving bodies.
        - "counts": as "joined", by logarithms of word counts, with more weight for rare words.
          Counts that are seldom zero are brought to equal totals first.
        - "scattering": by scattering coefficients of images in such a metric, with mirror images.
        - "auto": "scattering" for images, unless light varies in them: then the most stable of
          "scattering", "given" and "metric-twice". "counts" for whole numbers that are mostly zero,
          "affine" for samples that lie on such flats nearly exactly, "given" for vectors that have
          opposites for neighbors, as in subspaces. For other vectors of at most 20 columns "ranks",
          of more columns "joined" ("counts" for whole numbers of unequal totals), unless "given",
          "cosine" or (of more columns) "columns" is clearly more stable. With an
          affinity other than an exact "topk", the most stable of "given" and "metric-twice".
          "given" if you set ``lam``, ``subspace_dim``, ``form`` or ``normalize=False``.
    working_size : "auto", None or (height, width)
        The size at which images are compared. "auto" keeps images of at most 4,096 values and
        reduces larger ones to at most 1,024 pixels, 32 x 32 if they are square
        (:mod:`dcfsc.io.working_size`). None never reduces them.
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
    n_clusters_ : int
        The number of clusters K that was used.
    confidence_, next_best_ : ndarray (N,)
        The probability of each sample's own cluster, and the likeliest of the others.
    representation_ : str
        The representation that was taken.
    working_shape_ : tuple
        The shape of a sample when it is compared, (h, w), (c, h, w) or (d,).
    stability_ : dict
        The stability of each candidate; empty if none were compared.
    rival_ : dict or None
        The partition by another representation that was nearly as stable, if there was one: its
        ``representation``, the share of samples that it has ``changed``, and which clusters it
        ``joins`` and ``splits``.
    lam_, effective_dof_ : float or None
        The ridge parameter and tr H; None for a representation without a ridge.
    leverage_ : ndarray (N,) or None
    affinity_matrix_ : ndarray or sparse array (N, N)
    embedding_ : ndarray (N, k)
        The spectral embedding: the k leading eigenvectors of the normalized affinity as columns.
    eigenvalues_ : ndarray (k,)
        Their eigenvalues, descending.

    Examples
    --------
    >>> from dcfsc import ClosedFormSubspaceClustering
    >>> from dcfsc.io import synthetic
    >>> data = synthetic(n_samples=200, n_clusters=3, subspace_dim=3, random_state=0)
    >>> ClosedFormSubspaceClustering(n_clusters=3, random_state=0).fit_predict(data.X).shape
    (200,)
    """

    n_clusters: int | Literal["auto"] = 8
    _: KW_ONLY
    lam: float | str = "auto"
    subspace_dim: float | None = None
    normalize: bool = True
    representation: str = "auto"
    working_size: Any = "auto"
    affinity: Any = "topk"
    assign: str = ASSIGN
    form: str = "auto"
    n_neighbors: int = 10
    device: Any = "auto"
    random_state: Any = None

    _table = table(
        **GRAPH,
        subspace_dim=SUBSPACE_DIM,
        form=one_of(*get_args(Form)),
        n_neighbors=whole(1),
    )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        known_labels: Any = None,
        must_link: Any = None,
        cannot_link: Any = None,
    ) -> ClosedFormSubspaceClustering:
        """Cluster the rows of X (n, features), (n, h, w) or (n, c, h, w).

        Parameters
        ----------
        X : array of shape (n, ...)
        y : ignored
        known_labels : array of n integers, optional
            The cluster of each sample that you know, 0 to K - 1, and -1 for all others. Known
            samples keep these labels, and the others follow where the data agree.
        must_link, cannot_link : array of shape (m, 2), optional
            Pairs of rows that are in one cluster, and that are not.
        """
        X, n_clusters, rng, device = begin(self, X)
        known = Known.of(len(X), n_clusters, known_labels, must_link, cannot_link)
        if known is not None and processes.active():
            raise InputError("known labels and links need all samples in one process.")
        samples = Samples.of(X, self.working_size)
        self.working_shape_ = samples.working_shape
        recipe = self._recipe(n_clusters)
        candidates = create(self.representation, recipe.on_part)
        if announced() and recipe.sparse_exact and not processes.active():
            announce_long_work(X.shape, n_clusters, candidates, device)
        rows = samples.rows(device)
        order = self._copies = None
        if self.representation != "given":
            rows, order, self._copies = distinct(rows, recipe, join=known is None)
        selected = select(candidates, rows, recipe.on_part, order)
        self._representation, self._training_features = selected.representation, selected.rows
        self.stability_ = selected.stability
        self._cluster(X, self._solve(), n_clusters, rng, order, self._copies, known)
        self.rival_ = None
        if selected.rival is not None and not processes.active():
            labels = self.labels_ if self._copies is None else self.labels_[self._copies.first]
            self.rival_ = selected.rival.difference(labels)
        return self

    def measure_stability(self, X: Any) -> dict[str, float]:
        """How well partitions of random parts of the training samples X agree, by representation.

        A fit measures the stability of representations only to choose between them. Where nothing
        was compared, this adds that of ``representation_`` to ``stability_``.
        """
        check_is_fitted(self)
        check_whole(self)
        if not self.stability_:
            recipe = self._recipe(self.n_clusters_).on_part
            (candidate,) = create(self.representation_, recipe)
            rows = self._rows(check_array(self, X, reset=False))
            sample = common_sample(*distinct(rows, recipe)[:2])
            if enough_samples(len(sample), self.n_clusters_):
                score = stability_of(candidate, sample, recipe)
                self.stability_ = {self.representation_: score}
        return self.stability_

    def _unseen(self, X: Any) -> tuple[Operator, Tensor]:
        check_is_fitted(self)
        check_whole(self)
        rows = self._rows(check_array(self, X, reset=False))
        operator = self._solve() if self._operator is None else self._operator
        return operator, self._representation.transform_unseen(self._representation.rows(rows))

    def _rows(self, X: Any) -> Tensor:
        return Samples(X, self.working_shape_).rows(resolve_device(self.device))

    def _recipe(self, n_clusters: int) -> Recipe:
        return Recipe(
            self.working_shape_,
            n_clusters,
            lam=fixed_lam(self.lam),
            subspace_dim=self.subspace_dim,
            form=self.form,
            unit_length=bool(self.normalize),
            affinity=affinities.get(self.affinity, n_clusters),
            assign=self.assign,
        )

    def _solve(self) -> Operator:
        """The operator of the training samples, and what it says of itself as attributes."""
        operator = self._representation.solve(self._training_features)
        leverage, copies = operator.leverage, self._copies
        if copies is not None and leverage is not None:
            leverage = processes.gather_rows(leverage)[copies.index[copies.mine]]
        if copies is not None and not processes.active():
            assert isinstance(operator, RankedByCosine)
            operator = RepeatedForm(operator, copies.index)
        self._operator = operator
        self.leverage_ = None if leverage is None else leverage.cpu().numpy()
        self.lam_, self.effective_dof_ = operator.lam, operator.effective_dof
        self.representation_ = self._representation.name
        return operator

    def _ridge_features(self) -> Tensor | None:
        return self._training_features if self.representation_ == "given" else None

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = self._representation.state()
        tensors = {f"representation.{name}": tensor for name, tensor in tensors.items()}
        features = tensors["features"] = self._training_features
        if self._copies is not None:
            tensors["copies"] = self._copies.index
            tensors["features"] = features[self._copies.index.to(features.device)]
        return tensors | self._partition_state(), {
            "sample_shape": list(self.sample_shape_),
            "working_shape": list(self.working_shape_),
            "n_features_in": self.n_features_in_,
            "representation": self.representation_,
            "representation_values": values,
            "stability": self.stability_,
            "rival": self.rival_,
        }

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        device = resolve_device(self.device)
        self._take_partition(restored_partition(tensors, self.n_clusters_))
        self.sample_shape_ = tuple(values["sample_shape"])
        self.working_shape_ = tuple(values.get("working_shape", values["sample_shape"]))
        self.n_features_in_ = int(values["n_features_in"])
        self.stability_, self.rival_ = dict(values["stability"]), values.get("rival")
        prefix = "representation."
        self._representation = restore(
            str(values["representation"]),
            self._recipe(self.n_clusters_).on_part,
            {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)},
            values["representation_values"],
            device,
        )
        Z = tensors["features"].to(device)
        copies = self._copies = restored_copies(tensors.get("copies"), len(Z))
        Z = self._training_features = Z if copies is None else Z[copies.first]
        if tuple(Z.shape[1:]) != self._representation.row_shape:
            raise InputError("its features do not match its samples; fit and save it again.")
        self._solve()
