"""Training on views, as a part of DCFSC: the closed form teaches an encoder, then clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import networks, processes, spectral
from dcfsc.affinity import Joined, TopK, by_degrees
from dcfsc.machine import resolve_device
from dcfsc.parameters import Kind, real, whole
from dcfsc.pipeline import ASSIGN
from dcfsc.self_expression import Operator
from dcfsc.training import Checkpoint, History, check_compilable, check_precision
from dcfsc.training.progress import progress_bar
from dcfsc.views import (
    Clustering,
    Schedule,
    ViewOptions,
    ViewTraining,
    agreed,
    view_features,
)

from .closed_form import ClosedFormSubspaceClustering
from .deep import NetworkEstimator
from .network_choice import VIEW_NETWORKS, NetworkInputs, as_inputs, scale_to_one, view_specs_for
from .prediction import CLUSTERS, PROBABILITIES
from .sharded import check_whole
from .validation import check_array, local_generator

TRAININGS = ("reconstruction", "views")
NUMBERS = Kind(
    lambda v: (
        isinstance(v, Mapping)
        and all(isinstance(name, str) and real(0.0).test(x) for name, x in v.items())
    ),
    "a mapping from names to numbers of at least 0, as {'contrast': 1.0}",
)
# With a GPU and without; chosen with labels in view, on image sets.
STEPS, STEPS_CPU = 1500, 300
BATCH, BATCH_CPU = 512, 256
LEARNING_RATE = 3e-3
# Where the samples' own clusters are not to be trusted: four views of each sample, as often as this
# and no fewer steps; without a GPU two views.
EPOCHS_ALONE, FEWEST_ALONE, STEPS_ALONE_CPU = 200, 20_000, 2400
BATCH_ALONE, LEARNING_RATE_ALONE, VIEWS_ALONE = 128, 0.06, 4
# Of samples whose clusters by their features and as they are differ; chosen with labels in view.
FEW = 0.05
# Of more samples from views alone each has more neighbors, in proportion: the nearest ones of very
# many are of the same part of a class. Chosen with labels in view, on CIFAR-10.
NEIGHBORLY = 20_000
FROM_VIEWS = (
    "view_strengths_",
    "view_consistency_",
    "representation_",
    "stability_",
    "_closed_form",
)
# What the clustering of the features leaves as the model's own.
CLUSTERING = (
    "labels_",
    "all_labels_",
    "share_",
    "coefficients_",
    "affinity_matrix_",
    "embedding_",
    "eigenvalues_",
    "confidence_",
    "next_best_",
    "_partition",
    "_whole_partition",
)
CLOSED_FORM = "closed_form."  # before the names of its tensors in a saved model


class ViewEstimator(NetworkEstimator):
    """What ``training="views"`` adds to :class:`DCFSC`, whose parameters it reads."""

    n_clusters_: int
    lam: float | str
    subspace_dim: float | None
    training: str | None
    views: Any
    losses: Mapping[str, float] | None
    partners: int
    steps: int | None
    batch_size: int | None
    precision: str | None
    compile: bool
    affinity: Any
    assign: str | None
    n_neighbors: int

    sample_shape_: tuple[int, ...]
    labels_: np.ndarray
    view_strengths_: dict[str, float]
    view_consistency_: dict[str, float]
    lam_: float | None
    effective_dof_: float | None
    leverage_: np.ndarray | None
    representation_: str
    stability_: dict[str, float]
    _closed_form: ClosedFormSubspaceClustering
    _cuts: tuple[float, float] | None  # of the clusters and of those that the samples alone have

    def _training(self) -> str:
        """What ``training`` says, or what the network is made for."""
        if self.training is not None:
            return self.training
        specs = networks.ResidualSpec, networks.HeadSpec
        for_views = isinstance(self.network, specs) or (
            isinstance(self.network, str) and self.network in VIEW_NETWORKS
        )
        return "views" if for_views else "reconstruction"

    def _assign(self) -> str:
        return self.assign or (ASSIGN if self._training() == "views" else "kmeans")

    def _has_views(self) -> bool:
        """Whether the fit, if there was one, was on views."""
        return "view_strengths_" in vars(self)

    def _forget_views(self) -> None:
        for name in FROM_VIEWS:
            self.__dict__.pop(name, None)

    def _fit_views(
        self,
        X: Any,
        n_clusters: int,
        random_state: np.random.RandomState,
        checkpoint: Checkpoint | None,
    ) -> None:
        """Train an encoder on views, and cluster its features by the closed form."""
        device = resolve_device(self.device)
        options = self._view_options(device, processes.total_number(len(X)))
        specs = view_specs_for(self.network, self.sample_shape_, n_clusters, device.type == "cpu")
        self.input_scale_ = scale_to_one(X)
        inputs = as_inputs(X, device, self.input_scale_)
        if processes.active():
            inputs = processes.gather_rows(inputs[:])
        training = ViewTraining(
            inputs,
            specs,
            _ClosedFormTeacher(n_clusters, device, self.sample_shape_),
            options,
            generator=local_generator(random_state),
            checkpoint=checkpoint,
        )
        with progress_bar(self.verbose, 0, training.schedule.steps) as bar:
            self.history_ = History(callbacks=(*self.callbacks, bar))
            model = training.fit(self.history_)
        self.history_ = History(self.history_)  # the callbacks stay behind
        self.network_ = model.network
        self.view_strengths_, self.view_consistency_ = model.strengths, model.consistency
        Z = view_features(self.network_, inputs)
        self._cluster_features(len(X), Z, n_clusters, random_state, model.samples)

    def _view_options(self, device: torch.device, n: float) -> ViewOptions:
        gpu = device.type == "cuda"
        precision = ("bfloat16" if gpu else "float32") if self.precision is None else self.precision
        check_precision(precision, device)
        if self.compile:
            check_compilable(device, None)
        changes = None if isinstance(self.views, str) else self.views
        if gpu:
            usual = Schedule(STEPS, BATCH, LEARNING_RATE)
            steps = max(FEWEST_ALONE, int(EPOCHS_ALONE * n / BATCH_ALONE))
            alone = Schedule(steps, BATCH_ALONE, LEARNING_RATE_ALONE, VIEWS_ALONE, sgd=True)
        else:
            usual = Schedule(STEPS_CPU, BATCH_CPU, LEARNING_RATE)
            alone = replace(usual, steps=STEPS_ALONE_CPU)
        rest = int(self.partners), changes, self.losses, precision, bool(self.compile)
        return ViewOptions(self._given(usual), self._given(alone), *rest)

    def _given(self, schedule: Schedule) -> Schedule:
        """The schedule with what the person has asked for."""
        names = ("steps", "batch_size", "learning_rate")
        asked = {name: x for name in names if (x := getattr(self, name)) is not None}
        whole(2).check("batch_size", asked.get("batch_size", 2))
        return replace(schedule, **asked)

    def _cluster_features(
        self,
        n: int,
        Z: Tensor,
        n_clusters: int,
        random_state: np.random.RandomState,
        samples: Clustering | None,
    ) -> None:
        """Cluster by the closed form of the features Z of all samples, n of them this process's.

        An affinity of nearest neighbors is joined with the graph of the ``samples``: by a small
        weight or, where few of the labels differ from the samples', as its equal. Then both graphs
        are good, and their mistakes are not the same. Without such a graph, as of views alone, it
        has more neighbors where there are many samples.
        """
        start = sum(processes.row_counts(n, Z.device)[: processes.rank()])
        Z = Z[start : start + n]
        closed = self._closed_form = self._closed_form_of(n_clusters, random_state)
        own = affinities.get(self.affinity, n_clusters)
        self._cuts = None
        if not isinstance(own, TopK):
            closed.fit(Z)
        elif samples is None:
            many = processes.total_number(n) / NEIGHBORLY
            closed.affinity = replace(own, k=round(own.k * max(1.0, many)))
            closed.fit(Z)
        else:
            closed.affinity = joined = Joined(**{**vars(own), "other": samples.graph})
            closed.fit(Z)
            if _differing(closed, samples.labels) < FEW:
                closed.affinity = replace(joined, weight=1.0)
                closed._cluster(Z.cpu().numpy(), closed.coefficients_, n_clusters, random_state)
            if not processes.active():
                graphs = samples.graph, own(closed.coefficients_, n_clusters)
                self._cuts = _cut(closed.labels_, *graphs), _cut(samples.labels, *graphs)
        closed.affinity = self.affinity
        for name in CLUSTERING:
            self.__dict__.pop(name, None)
            if name in vars(closed):  # of many processes the first one has them all
                setattr(self, name, vars(closed)[name])
        self._take(closed)
        self.latents_ = Z.cpu().numpy()
        self._n_features_out = Z.shape[1]

    def _closed_form_of(self, n_clusters: int, random_state: Any) -> ClosedFormSubspaceClustering:
        """The closed form that clusters the features of views."""
        return ClosedFormSubspaceClustering(
            n_clusters,
            lam=self.lam,
            subspace_dim=self.subspace_dim,
            affinity=self.affinity,
            assign=self._assign(),
            n_neighbors=self.n_neighbors,
            device=self.device,
            random_state=random_state,
        )

    def _take(self, closed: ClosedFormSubspaceClustering) -> None:
        """What the closed form of the features says of itself, as attributes."""
        self._operator = closed._operator
        self.lam_, self.effective_dof_ = closed.lam_, closed.effective_dof_
        self.leverage_ = closed.leverage_
        self.representation_, self.stability_ = closed.representation_, closed.stability_

    def _encode(self, X: Any) -> Tensor:
        if not self._has_views():
            return super()._encode(X)
        device = resolve_device(self.device)
        inputs = NetworkInputs(check_array(self, X, reset=False), device, self.input_scale_)
        return view_features(self.network_, inputs)

    def _unseen_views(self, X: Any) -> tuple[Operator, Tensor]:
        check_whole(self)
        return self._closed_form._unseen(self._encode(X))

    def _views_ridge_features(self) -> Any:
        return self._closed_form._ridge_features()

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super()._state()
        if self._has_views():
            parts, closed = self._closed_form._state()
            for name in ("labels", CLUSTERS, PROBABILITIES):  # the model's own
                del parts[name]
            tensors |= {f"{CLOSED_FORM}{name}": part for name, part in parts.items()}
            values["closed_form"] = closed
            values["views"] = [self.view_strengths_, self.view_consistency_]
        return tensors, values

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super()._restore(tensors, values)
        if "views" not in values:
            return
        self.view_strengths_, self.view_consistency_ = values["views"]
        self.latents_ = tensors["latents"].numpy()
        self._closed_form = self._closed_form_of(self.n_clusters_, None)
        self._closed_form.n_clusters_ = self.n_clusters_
        parts = {k.removeprefix(CLOSED_FORM): v for k, v in tensors.items()}  # and its own
        self._closed_form._restore(parts, values["closed_form"])
        self._take(self._closed_form)


def _cut(labels: Any, *graphs: Any) -> float:
    """The share of affinity between clusters, the mean over graphs scaled by their degrees."""
    return float(np.mean([spectral.cut_share(by_degrees(graph), labels) for graph in graphs]))


def _differing(closed: ClosedFormSubspaceClustering, others: np.ndarray | None) -> float:
    """The share of samples whose clusters differ from the others, which the first process has."""
    share = 0.0
    if others is not None:
        labels = vars(closed).get("all_labels_", closed.labels_)
        share = float((agreed(labels, others) < 0).mean())
    return processes.total_number(share)


class _ClosedFormTeacher:
    """The closed form with its defaults, on samples and on features."""

    def __init__(self, n_clusters: int, device: torch.device, sample_shape: tuple[int, ...]):
        self.n_clusters, self.device, self.sample_shape = n_clusters, device, sample_shape

    def cluster(self, rows: Tensor, beside: csr_array | None) -> Clustering:
        model = self._model(affinity=Joined(other=beside)).fit(self._samples(rows))
        if beside is None:
            stability = model.stability_.get(model.representation_, 1.0)
            return Clustering(model.labels_, model.affinity_matrix_, stability)
        return Clustering(model.labels_, TopK()(model.coefficients_, self.n_clusters))

    def judge(self, rows: Tensor, plain: bool) -> Callable[[Tensor], Tensor]:
        representation = "given" if plain else "auto"
        model = self._model(representation=representation).fit(self._samples(rows))
        return lambda others: torch.from_numpy(model.predict(self._samples(others)))

    def _model(self, **options: Any) -> ClosedFormSubspaceClustering:
        return ClosedFormSubspaceClustering(
            self.n_clusters, device=self.device, random_state=0, **options
        )

    def _samples(self, rows: Tensor) -> Tensor:
        """Images in the shape in which they were given, features as they are."""
        return rows.reshape(len(rows), *self.sample_shape) if rows.ndim > 2 else rows
