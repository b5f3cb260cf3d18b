"""An encoder that learns from views of the samples, with the closed form as its teacher.

    closed form of the samples -> which changes views may have, and each sample's neighbours
    -> pairs of views of neighbours train the encoder -> closed form of its features
    -> better neighbours, and clusters, for the rest of the training

Whatever clusters the samples is given as a :class:`Teacher`, so that this file knows no estimator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dcfsc import distributed
from dcfsc.networks import HeadSpec, ResidualSpec, ViewNetwork
from dcfsc.stages import stage

from .checkpoint import Checkpoint
from .chunked import Inputs
from .history import History
from .view_choice import Judge, choose_changes
from .view_lessons import Lessons
from .view_loop import Schedule, train_views, view_features
from .view_losses import check_weights
from .views import Views, cautious_strengths

LOSSES = {"contrastive": 1.0, "clusters": 0.5}
# The shares of the training after which the features are clustered, to teach the rest of it.
LESSONS_AT = (0.4, 0.7)
# Samples that decide on the changes, and how many of them a cluster must have.
CHOICE_SAMPLES, CHOICE_PER_CLUSTER = 2000, 30
FEWEST_PER_CLUSTER = 4


class Clustering(NamedTuple):
    """Clusters of N samples: labels (N,) and the affinity (N, N) that they come from."""

    labels: np.ndarray
    graph: csr_array


class Teacher(Protocol):
    """Clusters samples or features without labels."""

    def cluster(self, rows: Tensor) -> Clustering:
        """Clusters of all rows (N, ...)."""

    def judge(self, rows: Tensor, plain: bool) -> Judge:
        """Clusters of rows (n, ...), extended to other rows; ``plain``: as they are."""


@dataclass(frozen=True)
class ViewOptions:
    """How to train: which changes (None is as the data say), which losses, how long."""

    schedule: Schedule
    changes: Mapping[str, float] | None = None
    losses: Mapping[str, float] | None = None
    precision: str = "float32"
    compiled: bool = False


class ViewModel:
    """A trained encoder and the views it was trained on.

    Attributes
    ----------
    network : the encoder with its projector and classifier.
    views : the random views.
    consistency : of each change that was tried; empty where the changes were given.
    """

    def __init__(self, network: Any, views: Views):
        self.network, self.views = network, views
        self.consistency: dict[str, float] = {}

    def features(self, X: Inputs) -> Tensor:
        """Features (N, d) at unit length, averaged over the samples and eight views of each."""
        return view_features(self.network, X, self.views)


def fit_view_model(
    X: Inputs,
    spec: ResidualSpec | HeadSpec,
    teacher: Teacher,
    options: ViewOptions,
    *,
    generator: torch.Generator,
    history: History,
    checkpoint: Checkpoint | None = None,
) -> ViewModel:
    """Train an encoder on all samples X (N, ...); in every process on all of them, if many.

    ``generator`` draws the weights; batches and views have one of their own on the device of X.
    """
    losses = check_weights(LOSSES if options.losses is None else options.losses)
    network = ViewNetwork(spec, generator).to(X.device)
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    lessons = Lessons(len(X), X.device)
    model = ViewModel(network, Views(spec.sample_shape, {}))
    resumed = checkpoint is not None and checkpoint.resumed
    if checkpoint is not None and resumed:
        strengths, model.consistency = checkpoint.notes["changes"], checkpoint.notes["consistency"]
    else:
        _teach(teacher, lessons, lambda: X[:], clusters=False)
        strengths, model.consistency = _changes(X, spec, teacher, options)
    if checkpoint is not None:
        checkpoint.notes |= {"changes": strengths, "consistency": model.consistency}
    model.views = Views(spec.sample_shape, strengths)

    def teach() -> None:
        _teach(teacher, lessons, lambda: view_features(network, X, precision=options.precision))

    steps = options.schedule.steps
    train_views(
        network,
        X,
        model.views,
        losses,
        options.schedule,
        lessons,
        n_clusters=spec.n_clusters,
        generator=torch.Generator(X.device).manual_seed(seed),
        history=history,
        teach={1 + int(share * steps): teach for share in LESSONS_AT if steps > 1},
        precision=options.precision,
        compiled=options.compiled,
        checkpoint=checkpoint,
    )
    return model


def _teach(teacher: Teacher, lessons: Lessons, rows: Any, clusters: bool = True) -> None:
    """Let the first process cluster the rows, and all of them learn from it."""
    graph = labels = None
    if distributed.rank() == 0:
        with distributed.alone():
            result = teacher.cluster(rows())
        graph, labels = result.graph, result.labels
    lessons.learn_graph(graph)
    if clusters:
        lessons.learn_clusters(labels)


def _changes(
    X: Inputs, spec: ResidualSpec | HeadSpec, teacher: Teacher, options: ViewOptions
) -> tuple[dict[str, float], dict[str, float]]:
    """The strengths of the changes, as given or as half of a sample says of its other half."""
    if options.changes is not None:
        return dict(options.changes), {}
    count = min(len(X), max(CHOICE_SAMPLES, CHOICE_PER_CLUSTER * spec.n_clusters))
    if count < FEWEST_PER_CLUSTER * spec.n_clusters:
        return cautious_strengths(spec.sample_shape), {}
    stage("choosing the changes of views on %s samples", f"{count:,}")
    chosen = None
    if distributed.rank() == 0:
        fixed = torch.Generator().manual_seed(0)
        index = torch.randperm(len(X), generator=fixed)[:count].to(X.device)
        seen, unseen = X[index[: count // 2]], X[index[count // 2 :]]
        with distributed.alone():
            judges = teacher.judge(seen, plain=False), teacher.judge(seen, plain=True)
            random = torch.Generator(X.device).manual_seed(0)
            chosen = json.dumps(choose_changes(unseen, *judges, random)).encode()
    strengths, consistency = json.loads(distributed.broadcast_bytes(chosen) or b"")
    return strengths, consistency
