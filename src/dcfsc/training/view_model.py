"""An encoder that learns from views of the samples, with the closed form as its teacher.

    closed form of the samples  -> which changes views may have, and each sample's neighbours,
                                   views of which are made to agree
    closed form of the features -> better neighbours; and clusters as targets, where those of the
                                   samples agree with them

Both clusterings err, but seldom together. So their agreement is also what decides, without labels,
where there is a choice: between strong and gentle changes, after a short training with either, and
at the end between features of the samples and features averaged over views.

Whatever clusters the samples is given as a :class:`Teacher`, so that this file knows no estimator.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
from .view_choice import SMOOTH, Judge, Measured, measure_changes, profiles, smooth_share
from .view_lessons import PARTNERS, Lessons, agreed
from .view_loop import Schedule, train_views, view_features
from .view_losses import check_weights
from .views import Views, cautious_strengths

logger = logging.getLogger("dcfsc")

LOSSES = {"contrastive": 1.0, "clusters": 1.0}
# After these shares of the training the features are clustered, to teach the rest of it.
LESSONS = (0.4, 0.7)
PILOT = 0.25  # the length of a training that decides on the changes, as a share
AVERAGED = 8  # views that features may be averaged over
# Samples that decide on the changes, and how many of them a cluster must have.
CHOICE_SAMPLES, CHOICE_PER_CLUSTER = 2000, 30
FEWEST_PER_CLUSTER = 4


class Clustering(NamedTuple):
    """Clusters of N samples: labels (N,) and the affinity (N, N) that they come from."""

    labels: np.ndarray | None
    graph: csr_array | None


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
    partners: int = PARTNERS
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
    averaged : the number of views that features are averaged over, besides the sample itself.
    consistency : of each change, at the strength taken or at the weakest tried; empty where the
        changes were given.
    """

    def __init__(
        self,
        network: Any,
        views: Views,
        averaged: int = 0,
        consistency: Mapping[str, float] | None = None,
    ):
        self.network, self.views, self.averaged = network, views, averaged
        self.consistency = dict(consistency or {})

    def features(self, X: Inputs) -> Tensor:
        """Features (N, d) at unit length."""
        return view_features(self.network, X, self.views, count=self.averaged)


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
    run = _Run(X, spec, teacher, options, generator)
    resumed = checkpoint is not None and checkpoint.resumed
    if checkpoint is not None and resumed:
        strengths, consistency = checkpoint.notes["views"]
    else:
        run.teach(lambda: X[:])
        strengths, consistency = run.changes()
    if checkpoint is not None:
        checkpoint.notes["views"] = strengths, consistency
    network = run.train(strengths, options.schedule, history, checkpoint)
    model = ViewModel(network, Views(spec.sample_shape, strengths), consistency=consistency)
    stage("clustering the features, of samples and of views of them")
    agreement = [run.agreement(network, model.views, count) for count in (0, AVERAGED)]
    model.averaged = AVERAGED if agreement[1] > agreement[0] else 0
    return model


class _Run:
    """What the trainings of one fit share."""

    def __init__(
        self,
        X: Inputs,
        spec: ResidualSpec | HeadSpec,
        teacher: Teacher,
        options: ViewOptions,
        generator: torch.Generator,
    ):
        self.X, self.spec, self.teacher, self.options = X, spec, teacher, options
        self.losses = check_weights(LOSSES if options.losses is None else options.losses)
        Views(spec.sample_shape, options.changes or {})  # refuses bad ones before the work
        self.seeds = torch.randint(2**31 - 1, (2,), generator=generator).tolist()
        self.lessons = Lessons(len(X), X.device, options.partners)

    def train(
        self,
        strengths: Mapping[str, float],
        schedule: Schedule,
        history: History,
        checkpoint: Checkpoint | None = None,
        lessons: bool = True,
    ) -> ViewNetwork:
        """A network that starts from the run's seed, with the run's first lesson."""
        network = ViewNetwork(self.spec, torch.Generator().manual_seed(self.seeds[0]))
        network = network.to(self.X.device)

        def lesson() -> None:
            self.teach(lambda: view_features(network, self.X, precision=self.options.precision))

        useful = self.options.partners > 0 or "clusters" in self.losses
        plan = LESSONS if lessons and useful else ()
        train_views(
            network,
            self.X,
            Views(self.spec.sample_shape, strengths),
            self.losses,
            schedule,
            self.lessons,
            n_clusters=self.spec.n_clusters,
            generator=torch.Generator(self.X.device).manual_seed(self.seeds[1]),
            history=history,
            lessons_at={1 + int(share * schedule.steps): lesson for share in plan},
            precision=self.options.precision,
            compiled=self.options.compiled,
            checkpoint=checkpoint,
        )
        return network

    def teach(self, rows: Callable[[], Tensor]) -> None:
        """Let the first process cluster the rows, and all of them learn from it."""
        clustering = self._cluster(rows)
        self.lessons.learn(clustering.graph, clustering.labels)

    def agreement(self, network: ViewNetwork, views: Views, count: int) -> float:
        """The share of samples in whose clusters the features and the first lesson agree."""
        labels = self._cluster(lambda: view_features(network, self.X, views, count=count)).labels
        share = 0.0
        if labels is not None:
            share = float((agreed(labels, self.lessons.first.cpu().numpy()) >= 0).mean())
        return distributed.total_number(share)  # the other processes have none

    def _cluster(self, rows: Callable[[], Tensor]) -> Clustering:
        """Clusters of the rows in the first process, nothing in the others."""
        if distributed.rank() != 0:
            return Clustering(None, None)
        with distributed.alone():
            return self.teacher.cluster(rows())

    def changes(self) -> tuple[dict[str, float], dict[str, float]]:
        """The strengths of the changes, as given or as the data say; and their consistency."""
        if self.options.changes is not None:
            return dict(self.options.changes), {}
        K = self.spec.n_clusters
        count = min(len(self.X), max(CHOICE_SAMPLES, CHOICE_PER_CLUSTER * K))
        if count < FEWEST_PER_CLUSTER * K:
            return cautious_strengths(self.spec.sample_shape), {}
        stage("choosing the changes of views on %s samples", f"{count:,}")
        content = None
        if distributed.rank() == 0:
            with distributed.alone():
                content = json.dumps(self._measured(count)).encode()
        measured = json.loads(distributed.broadcast_bytes(content) or b"")
        candidates = profiles(measured)
        chosen = candidates[0]
        steps = int(PILOT * self.options.schedule.steps)
        if len(candidates) > 1 and steps:
            schedule = replace(self.options.schedule, steps=steps)
            agreement = []
            for number, strengths in enumerate(candidates, 1):
                stage("training shortly on %s views", ("strong", "gentle")[number - 1])
                network = self.train(strengths, schedule, History(), lessons=False)
                views = Views(self.spec.sample_shape, strengths)
                agreement.append(self.agreement(network, views, 0))
            chosen = candidates[max(range(2), key=lambda i: agreement[i])]
            logger.info("views: strong changes %.3f, gentle changes %.3f", *agreement)
        logger.info("views: %s", ", ".join(f"{name} {s:g}" for name, s in chosen.items()))
        shares = {
            name: next((share for s, share in tried if s == chosen[name]), tried[-1][1])
            for name, tried in measured.items()
            if tried
        }
        return chosen, shares

    def _measured(self, count: int) -> Measured:
        """The consistency of the changes, as half of a sample says of its other half."""
        device = self.X.device
        fixed = torch.Generator().manual_seed(0)
        index = torch.randperm(len(self.X), generator=fixed)[:count].to(device)
        neighbours = self.lessons.partners[index, min(1, self.options.partners)]
        light = smooth_share(self.X[index], self.X[neighbours]) >= SMOOTH
        seen, unseen = self.X[index[: count // 2]], self.X[index[count // 2 :]]
        judges = self.teacher.judge(seen, plain=False), self.teacher.judge(seen, plain=True)
        random = torch.Generator(device).manual_seed(0)
        return measure_changes(unseen, *judges, random, light)
