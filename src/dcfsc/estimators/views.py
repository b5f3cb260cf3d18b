"""Learning from views: the closed form teaches an encoder, then clusters its features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import parameters as p
from dcfsc import processes, spectral
from dcfsc.affinity import Joined, TopK, by_degrees
from dcfsc.machine import resolve_device
from dcfsc.pipeline import ASSIGN
from dcfsc.progress import announce, announced
from dcfsc.selection.estimate import spoken
from dcfsc.selection.stability import enough_samples
from dcfsc.self_expression import Operator
from dcfsc.training import Callback, check_compilable, check_precision
from dcfsc.training.precision import PRECISIONS
from dcfsc.views.loop import Schedule, view_features
from dcfsc.views.model import Clustering, ViewOptions, ViewTraining
from dcfsc.views.pseudo_labels import agreed

from .base import SubspaceClusterer
from .closed_form import ClosedFormSubspaceClustering
from .deep import NetworkEstimator, checkpoint_of
from .network_choice import as_inputs, scale_to_one, view_specs_for
from .persistence import Persistent
from .prediction import LabelsUnseen
from .sharded import check_choices, check_whole, common_random_state
from .suggest import number_for
from .validation import LAM, SUBSPACE_DIM, check_array, local_generator

# Guided by the samples' clusters, and from views alone; chosen with labels in view, on image sets.
EFFORTS = {
    "full": (Schedule(1500, 512, 3e-3), Schedule(20_000, 128, 0.06, views=4, sgd=True)),
    "quick": (Schedule(300, 256, 3e-3), Schedule(2400, 256, 3e-3)),
}
EPOCHS_ALONE = 200  # at least, of a full training from views alone
LONG = 600.0  # seconds; a full training that takes longer on a CPU is announced
# Of samples whose clusters by their features and as they are differ; chosen with labels in view.
FEW = 0.05
# Of more samples from views alone each has more neighbors, in proportion: the nearest ones of very
# many are of the same part of a class. Chosen with labels in view, on CIFAR-10.
NEIGHBORLY = 20_000
STRENGTHS = p.Kind(
    lambda v: (
        isinstance(v, Mapping)
        and all(isinstance(name, str) and p.real(0.0).test(x) for name, x in v.items())
    ),
    "a mapping from names to numbers of at least 0, as {'contrast': 1.0}",
)
SHAPES = {"sample_shape_", "n_features_in_", "working_shape_"}  # of the features, in a closed form
CLOSED_FORM = "closed_form."  # before the names of its tensors in a saved model


@dataclass(eq=False, repr=False)
class ViewClustering(NetworkEstimator, LabelsUnseen, Persistent, SubspaceClusterer):
    """Clustering by an encoder that learns from random views of the samples.

    The encoder has no decoder: a step takes a mini-batch, augments each sample and one of its
    positives, and brings their features together. The closed form of the samples determines the
    augmentations and gives neighbors as positives. Later the closed form of the features gives
    better positives and pseudo-labels and, at the end, the clusters. If the closed form knows too
    little of the images, as of photographs of things, they are learned from views alone, which
    takes longer.

    Choose it for images by the thousand if you have a GPU, or for an encoder's feature vectors.
    :class:`ClosedFormSubspaceClustering` is the same without a network, in seconds.

    Parameters
    ----------
    augmentations : "auto" or a mapping
        The strength of each: ``{"geometry": 1.0, "light": 0.5}``. The names and what strength 1
        means are in :mod:`dcfsc.views.augmentations`. "auto" chooses them from the data.
    positives : int
        How many neighbors of a sample in the closed form are its positives, whose views are made
        to agree with its own; 0 for none.
    network : "auto", "residual", "head" or a spec
        A residual network for images; for feature vectors a head, a small MLP on features that are
        fixed. Or a :class:`dcfsc.networks.ResidualSpec` or ``HeadSpec`` of your own.
    effort : "full" or "quick"
        How large the network is and how long it trains, the same on every device. "full" is meant
        for a GPU: 1,500 mini-batches of 512 samples and, from views alone, 200 epochs of four views
        and at least 20,000 steps. "quick" also suits a CPU: a small network and 300 mini-batches of
        256 samples, 2,400 from views alone.
    steps, batch_size, learning_rate : int or float, or None
        Mini-batches, their samples, and the highest rate of the cycle; None is by ``effort``.
    precision : "float32", "bfloat16" or None
        Precision of the network; None is "bfloat16" on a GPU, which is faster, and else "float32".
    lam, subspace_dim, affinity, assign
        Of the closed form that clusters the features; see :class:`ClosedFormSubspaceClustering`.
    others, and attributes that are not here : as in :class:`DCFSC`

    Attributes
    ----------
    network_ : the trained encoder
    augmentations_, consistency_ : dict
        The strength of each augmentation, and how often it left samples in their clusters.
    latents_ : ndarray (N, d)
        Features of unit length.
    representation_, stability_, lam_, effective_dof_, leverage_, affinity_matrix_, embedding_, \
eigenvalues_
        Of the features, as in :class:`ClosedFormSubspaceClustering`.
    """

    n_clusters: int | Literal["auto"] = 8
    _: KW_ONLY
    augmentations: Any = "auto"
    positives: int = 3
    network: Any = "auto"
    effort: str = "full"
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    precision: str | None = None
    compile: bool = False
    lam: float | str = "auto"
    subspace_dim: float | None = None
    affinity: Any = "topk"
    assign: str = ASSIGN
    device: Any = "auto"
    random_state: Any = None
    checkpoint: Any = None
    checkpoint_every: float = 30.0
    verbose: bool | str = "auto"
    callbacks: Sequence[Callback] = ()

    _table = p.table(
        augmentations=p.one_of("auto") | STRENGTHS,
        positives=p.whole(0),
        effort=p.one_of(*EFFORTS),
        steps=p.whole(0) | p.NONE,
        batch_size=p.whole(2) | p.NONE,
        learning_rate=p.real(0.0, p.LARGEST_RATE) | p.NONE,
        precision=p.one_of(*PRECISIONS) | p.NONE,
        compile=p.FLAG,
        lam=LAM,
        subspace_dim=SUBSPACE_DIM,
        checkpoint=p.PATH | p.NONE,
        checkpoint_every=p.real(0.0).needs("checkpoint"),
    )

    def fit(self, X: Any, y: Any = None) -> ViewClustering:
        """Train on X (n, features), (n, h, w) or (n, c, h, w) and cluster its samples."""
        X = check_array(self, X, reset=True, least_samples=1 if processes.active() else 2)
        n_clusters = self.n_clusters_ = number_for(self, X)
        check_choices(self, n_clusters)
        random_state = common_random_state(self.random_state)
        checkpoint = checkpoint_of(self, X)
        device = resolve_device(self.device)
        options = self._options(device, processes.total_number(len(X)))
        small = self.effort == "quick"
        self.input_scale_ = scale_to_one(X)
        inputs = as_inputs(X, device, self.input_scale_)
        if processes.active():
            inputs = processes.gather_rows(inputs[:])
        training = ViewTraining(
            inputs,
            view_specs_for(self.network, self.sample_shape_, n_clusters, small),
            _ClosedFormTeacher(n_clusters, device, self.sample_shape_),
            options,
            generator=local_generator(random_state),
            checkpoint=checkpoint,
        )
        if device.type == "cpu" and not small and len(self.sample_shape_) > 1:
            self._announce(training)
        training.choose()
        with self._recording(0, training.schedule.steps) as history:
            self.network_ = training.fit(history)
        self.augmentations_ = dict(training.augmentations)
        self.consistency_ = dict(training.consistency)
        Z = view_features(self.network_, inputs)
        self._cluster_features(len(X), Z, n_clusters, random_state, training.samples)
        return self

    def _options(self, device: torch.device, n: float) -> ViewOptions:
        precision = self.precision or ("bfloat16" if device.type == "cuda" else "float32")
        check_precision(precision, device)
        if self.compile:
            check_compilable(device, None)
        usual, alone = EFFORTS[self.effort]
        if alone.sgd:
            alone = replace(alone, steps=max(alone.steps, int(EPOCHS_ALONE * n / alone.batch_size)))
        return ViewOptions(
            self._given(usual),
            self._given(alone),
            int(self.positives),
            None if isinstance(self.augmentations, str) else self.augmentations,
            precision=precision,
            compiled=bool(self.compile),
        )

    def _given(self, schedule: Schedule) -> Schedule:
        """The schedule with the settings that were given."""
        names = ("steps", "batch_size", "learning_rate")
        return replace(
            schedule, **{name: x for name in names if (x := getattr(self, name)) is not None}
        )

    def _announce(self, training: ViewTraining) -> None:
        """Say so if a full training takes long on a CPU."""
        seconds = training.seconds(training.spec, training.schedule)
        if seconds < LONG:
            return
        alone = not training.guided
        spec = view_specs_for(self.network, self.sample_shape_, self.n_clusters_, small=True)[alone]
        quick = training.seconds(spec, self._given(EFFORTS["quick"][alone]))
        text = "a full training takes about %s on this CPU; with the effort 'quick' about %s"
        if announced():
            announce(text, spoken(seconds), spoken(quick))
        else:
            warnings.warn(text % (spoken(seconds), spoken(quick)), stacklevel=4)

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
        closed = self._closed_form_of(n_clusters, random_state)
        own = affinities.get(self.affinity, n_clusters)
        # of the clusters, and of those that the samples alone have
        self._cuts: tuple[float, float] | None = None
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
        self.latents_ = Z.cpu().numpy()
        self._n_features_out = Z.shape[1]
        self._take(closed)

    def _closed_form_of(self, n_clusters: int, random_state: Any) -> ClosedFormSubspaceClustering:
        """The closed form that clusters the features."""
        return ClosedFormSubspaceClustering(
            n_clusters,
            lam=self.lam,
            subspace_dim=self.subspace_dim,
            affinity=self.affinity,
            assign=self.assign,
            representation="given",
            device=self.device,
            random_state=random_state,
        )

    def _take(self, closed: ClosedFormSubspaceClustering) -> None:
        """Take the fitted attributes of the features' closed form in place of an earlier one's."""
        own = closed.get_params(deep=False).keys() | SHAPES
        for name in vars(self.__dict__.pop("_closed_form", closed)).keys() - own:
            self.__dict__.pop(name, None)
        self.__dict__.update({name: x for name, x in vars(closed).items() if name not in own})
        self._closed_form = closed

    _latents_of = staticmethod(view_features)

    def _unseen(self, X: Any) -> tuple[Operator, Tensor]:
        Z = self._encode(X)
        check_whole(self)
        return self._closed_form._unseen(Z)

    def _ridge_features(self) -> Any:
        return self._closed_form._ridge_features()

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super()._state()
        tensors["latents"] = torch.from_numpy(self.latents_)
        own = self._partition_state()
        parts, closed = self._closed_form._state()
        tensors |= {f"{CLOSED_FORM}{name}": part for name, part in parts.items() if name not in own}
        views = [self.augmentations_, self.consistency_]
        return tensors | own, {**values, "closed_form": closed, "views": views}

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super()._restore(tensors, values)
        self.augmentations_, self.consistency_ = values["views"]
        self.latents_ = tensors["latents"].numpy()
        closed = self._closed_form_of(self.n_clusters_, None)
        closed.n_clusters_ = self.n_clusters_
        parts = {k.removeprefix(CLOSED_FORM): v for k, v in tensors.items()}  # and its own
        closed._restore(parts, values["closed_form"])
        self._take(closed)


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
        samples = self._samples(rows)
        # Learned features are seen as they are: what is learned may change by a rounding error.
        representation = "auto" if samples.ndim > 2 else "given"
        model = self._model(affinity=Joined(other=beside), representation=representation)
        model.fit(samples)
        if beside is not None:
            return Clustering(model.labels_, TopK()(model.coefficients_, self.n_clusters))
        stability = _stability(model, samples) if samples.ndim > 2 else None
        return Clustering(model.labels_, model.affinity_matrix_, stability)

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


def _stability(model: ClosedFormSubspaceClustering, samples: Tensor) -> float:
    """How stable a model's clusters of these samples are, from 0 to 1.

    Of images that are too few to measure it the clusters are trusted: views alone take thousands.
    """
    if not enough_samples(len(samples), model.n_clusters_):
        return 1.0
    return model.measure_stability(samples)[model.representation_]
