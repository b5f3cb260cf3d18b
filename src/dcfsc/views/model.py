"""An encoder that learns from views of the samples, with the closed form as its teacher.

    closed form of the samples  -> the augmentations, and each sample's neighbors as positives
    closed form of the features -> better positives; and clusters as pseudo-labels, where those of
                                   the samples agree with them

Both clusterings err, but seldom together. Between strong and gentle augmentations a short training
with either decides, without labels: features are better if fewer neighbors are in other clusters.

Of photographs of things the closed form of the samples knows little, and its stability says so.
Then an encoder, in a full training a larger one, learns from views alone, for longer and with the
usual augmentations of photographs. Each of several views predicts what the others have in common.
A head on its features is then trained to put neighbors into the same groups, smaller than clusters:
it brings together what many neighbors link.

Whatever clusters the samples is given as a :class:`Teacher`, so that this file knows no estimator.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dcfsc import processes
from dcfsc.features.image_statistics import SMOOTH, smooth_share
from dcfsc.networks import HeadSpec, ResidualSpec, ViewNetwork, head_spec
from dcfsc.progress import stage
from dcfsc.training.checkpoint import Checkpoint
from dcfsc.training.chunked import Inputs
from dcfsc.training.history import History

from .augmentations import Views, cautious_strengths, usual_strengths
from .choice import Judge, Measured, clearly_fewer, measure_consistency, profiles, stray_shares
from .loop import Schedule, train_views, view_features
from .losses import GROUPS
from .pseudo_labels import POSITIVES, PseudoLabels

logger = logging.getLogger("dcfsc")

# The constants here were chosen with labels in view, on five image sets.
LOSSES = {"contrastive": 1.0, "clusters": 1.0}
# Of features that are fixed; chosen with labels in view, on an encoder's features of CIFAR-10.
HEAD_LOSSES = LOSSES | {"self_expression": 1.0}
# After these shares of the training the features are clustered, for new positives and
# pseudo-labels; by the second time whole clusters are trusted that the samples' do not confirm.
RELABEL_AT = {0.4: 0.0, 0.7: 0.5}
# Images whose clusters are less stable than this teach nothing: views alone do.
TRUSTED = 0.6
# Several views predict each other; two, as in a quick training, are told from those of others.
LOSSES_ALONE = {"prediction": 1.0}
LOSSES_TWO = {"contrastive": 1.0}
# Then neighbors by the features are to be in the same groups; chosen with labels in view, on
# features of CIFAR-10.
GROUPED = Schedule(500, 1024, 5e-3)
GROUPED_FEATURES, GROUPED_HEADS, GROUPED_POSITIVES = 256, 16, 10
PILOT = 0.25  # the length of a training that decides on the augmentations, as a share
# Samples that decide on the augmentations, and how many of them a cluster must have.
CHOICE_SAMPLES, CHOICE_PER_CLUSTER = 2000, 30
FEWEST_PER_CLUSTER = 4
PROBED = 8  # samples whose gradients say how long a training takes


ViewSpec = ResidualSpec | HeadSpec


class Clustering(NamedTuple):
    """Clusters (N,) of N samples, the affinity (N, N) of the rows themselves and, for images, how
    stable the clusters are, from 0 to 1.
    """

    labels: np.ndarray | None
    graph: csr_array | None
    stability: float | None = None


class Teacher(Protocol):
    """Clusters samples or features without labels."""

    def cluster(self, rows: Tensor, beside: csr_array | None) -> Clustering:
        """Clusters of all rows (N, ...), by their affinity joined with the one ``beside`` it."""

    def judge(self, rows: Tensor, plain: bool) -> Judge:
        """Clusters of rows (n, ...), extended to other rows; ``plain``: as they are."""


@dataclass(frozen=True)
class ViewOptions:
    """How to train: how long, with which augmentations and losses (None: the default ones).

    ``alone`` is how long where the clusters of the samples are not to be trusted.
    """

    schedule: Schedule
    alone: Schedule
    positives: int = POSITIVES
    augmentations: Mapping[str, float] | None = None
    losses: Mapping[str, float] | None = None
    precision: str = "float32"
    compiled: bool = False


class ViewTraining:
    """Trains an encoder on all samples X (N, ...); in every process on all of them, if many.

    It clusters the samples when it is made, which determines the spec and the schedule. ``specs``
    are of the network to train and of the one that only views teach. ``generator`` draws the
    weights; batches and views have one of their own on the device of X.

    Attributes
    ----------
    samples : how the closed form clusters the samples, in the first process; None where its
        clusters are not to be trusted.
    augmentations : the strength of each, once they are chosen.
    consistency : of each augmentation, at the strength taken or at the weakest tried; empty where
        the augmentations were given.
    """

    def __init__(
        self,
        X: Inputs,
        specs: tuple[ViewSpec, ViewSpec],
        teacher: Teacher,
        options: ViewOptions,
        *,
        generator: torch.Generator,
        checkpoint: Checkpoint | None = None,
    ):
        self.X, self.teacher, self.options, self.checkpoint = X, teacher, options, checkpoint
        sample_shape = specs[0].sample_shape
        Views(sample_shape, options.augmentations or {})  # refuses unknown names before the work
        self.seeds = torch.randint(2**31 - 1, (2,), generator=generator).tolist()
        self.pseudo_labels = PseudoLabels(len(X), X.device, options.positives)
        self.samples: Clustering | None = None
        self.guided = self._look(images=len(sample_shape) > 1)
        if self.guided:
            spec, self.schedule = specs[0], options.schedule
            losses = LOSSES if isinstance(spec, ResidualSpec) else HEAD_LOSSES
        else:
            spec, self.schedule = specs[1], options.alone
            losses = LOSSES_ALONE if self.schedule.views > 2 else LOSSES_TWO
        self.losses = losses if options.losses is None else options.losses
        predictor = spec.predictor or max(1, spec.projection // 4)
        self.spec = replace(spec, predictor=predictor if "prediction" in self.losses else 0)
        self.augmentations: dict[str, float] = {}
        self.consistency: dict[str, float] = {}

    def choose(self) -> None:
        """Set the augmentations, as given, as the data say, or as the checkpoint has them."""
        if self.checkpoint is not None and self.checkpoint.resumed:
            self.augmentations, self.consistency = self.checkpoint.notes["augmentations"]
        else:
            self.augmentations, self.consistency = self._chosen()
        if self.checkpoint is not None:
            self.checkpoint.notes["augmentations"] = self.augmentations, self.consistency

    def fit(self, history: History) -> ViewNetwork:
        """The trained encoder; the checkpoint says from where to go on."""
        network = self._train(self.augmentations, self.schedule, history, self.checkpoint)
        if not self.guided and self.options.losses is None and self.options.positives:
            self._group(network)
        return network

    def seconds(self, spec: ViewSpec, schedule: Schedule) -> float:
        """How long a training takes, by the gradients of a few samples; roughly."""
        network, x = ViewNetwork(spec).to(self.X.device), self.X[:PROBED]
        best = float("inf")
        for _ in range(2):  # the first one also prepares the kernels
            begin = time.perf_counter()
            torch.stack([part.square().mean() for part in network(x)]).sum().backward()
            best = min(best, time.perf_counter() - begin)
        return (
            best / len(x) * schedule.views * schedule.steps * min(schedule.batch_size, len(self.X))
        )

    def _look(self, images: bool) -> bool:
        """Cluster the samples; learn from them if they are to be trusted, and say whether."""
        clustering = self._cluster(lambda: self.X[:], None)
        if images:
            own = clustering.stability if processes.rank() == 0 else 0.0
            if own is None:
                raise ValueError("the stability of the images' clusters is not known")
            stability = processes.total_number(own)
            if stability < TRUSTED:
                logger.info("views: the samples' clusters have a stability of only %.2f", stability)
                return False
        self.samples = clustering
        self.pseudo_labels.learn(clustering.graph, clustering.labels)
        return True

    def _train(
        self,
        augmentations: Mapping[str, float],
        schedule: Schedule,
        history: History,
        checkpoint: Checkpoint | None = None,
        pilot: bool = False,
    ) -> ViewNetwork:
        """A network that starts from the seed, with what the samples taught."""
        network = ViewNetwork(self.spec, torch.Generator().manual_seed(self.seeds[0]))
        network = network.to(self.X.device)
        useful = self.guided and (self.options.positives > 0 or "clusters" in self.losses)
        plan = RELABEL_AT if useful and not pilot else {}
        train_views(
            network,
            self.X,
            Views(self.spec.sample_shape, augmentations),
            self.losses,
            schedule,
            self.pseudo_labels,
            n_clusters=self.spec.n_clusters,
            generator=torch.Generator(self.X.device).manual_seed(self.seeds[1]),
            history=history,
            before_step={
                1 + int(share * schedule.steps): partial(self._relabel, network, doubtful)
                for share, doubtful in plan.items()
            },
            precision=self.options.precision,
            compiled=self.options.compiled,
            checkpoint=checkpoint,
        )
        return network

    def _relabel(self, network: ViewNetwork, doubtful: float) -> None:
        """Let the first process cluster the features, and all of them learn from it.

        A graph of good features has few wrong links, but may leave a cluster in pieces. The
        samples' graph, which has more wrong links, holds them together.
        """
        beside = None if self.samples is None else self.samples.graph
        clustering = self._cluster(lambda: self._features(network), beside)
        self.pseudo_labels.learn(clustering.graph, clustering.labels, doubtful)

    def _group(self, network: ViewNetwork) -> None:
        """Train a head on the features, which puts a sample and its neighbors into one group."""
        stage("grouping the features of %s samples", f"{len(self.X):,}")
        Z = view_features(network, self.X)
        clustering = self._cluster(lambda: Z, None)
        neighbors = PseudoLabels(len(Z), Z.device, GROUPED_POSITIVES)
        neighbors.learn(clustering.graph, clustering.labels, own=0.0)
        K = self.spec.n_clusters
        spec = head_spec(network.latent_dim, GROUPED_FEATURES, GROUPED_HEADS * GROUPS * K)
        head = ViewNetwork(spec, torch.Generator().manual_seed(self.seeds[0])).to(Z.device)
        train_views(
            head,
            Z,
            Views(spec.sample_shape, {}),
            {"groups": 1.0},
            GROUPED,
            neighbors,
            n_clusters=K,
            generator=torch.Generator(Z.device).manual_seed(self.seeds[1]),
            history=History(),
        )
        network.attach(head)

    def _features(self, network: ViewNetwork) -> Tensor:
        return view_features(network, self.X, self.options.precision)

    def _cluster(self, rows: Callable[[], Tensor], beside: csr_array | None) -> Clustering:
        """Clusters of the rows in the first process, nothing in the others."""
        if processes.rank() != 0:
            return Clustering(None, None)
        with processes.alone():
            return self.teacher.cluster(rows(), beside)

    def _chosen(self) -> tuple[dict[str, float], dict[str, float]]:
        """The augmentations, as given or as the data say; and their consistency."""
        if self.options.augmentations is not None:
            return dict(self.options.augmentations), {}
        if not self.guided:
            return usual_strengths(self.spec.sample_shape), {}
        K = self.spec.n_clusters
        count = min(len(self.X), max(CHOICE_SAMPLES, CHOICE_PER_CLUSTER * K))
        if count < FEWEST_PER_CLUSTER * K:
            return cautious_strengths(self.spec.sample_shape), {}
        stage("choosing the augmentations on %s samples", f"{count:,}")
        content = None
        if processes.rank() == 0:
            with processes.alone():
                content = json.dumps(self._measured(count)).encode()
        measured = json.loads(processes.broadcast_bytes(content) or b"")
        candidates = profiles(measured)
        steps = int(PILOT * self.options.schedule.steps)
        several = len(candidates) > 1 and steps > 0
        chosen = self._tried_out(candidates, steps) if several else candidates[0]
        logger.info("views: %s", ", ".join(f"{name} {s:g}" for name, s in chosen.items()))
        shares = {
            name: next((share for s, share in tried if s == chosen[name]), tried[-1][1])
            for name, tried in measured.items()
            if tried
        }
        return chosen, shares

    def _tried_out(self, candidates: list[dict[str, float]], steps: int) -> dict[str, float]:
        """The strong or the gentle strengths, after so many steps with either.

        The first process looks where the neighbors by the features are in the samples' clusters.
        """
        schedule = replace(self.options.schedule, steps=steps)
        strays = []
        for name, strengths in zip(("strong", "gentle"), candidates, strict=True):
            stage("training briefly on %s views", name)
            network = self._train(strengths, schedule, History(), pilot=True)
            if processes.rank() == 0:
                strays.append(stray_shares(self._features(network), self.pseudo_labels.first))
        gentle = False
        if strays:
            shares = [float(s.mean()) for s in strays]
            logger.info("views: %.4f of the neighbors stray if strong, %.4f if gentle", *shares)
            gentle = clearly_fewer(strays[1], strays[0])
        return candidates[int(processes.total_number(gentle))]

    def _measured(self, count: int) -> Measured:
        """The consistency of the augmentations, as half of a sample says of its other half."""
        device = self.X.device
        fixed = torch.Generator().manual_seed(0)
        index = torch.randperm(len(self.X), generator=fixed)[:count].to(device)
        neighbors = self.pseudo_labels.positives[index, min(1, self.options.positives)]
        light = smooth_share(self.X[index], self.X[neighbors]) >= SMOOTH
        seen, unseen = self.X[index[: count // 2]], self.X[index[count // 2 :]]
        judges = self.teacher.judge(seen, plain=False), self.teacher.judge(seen, plain=True)
        random = torch.Generator(device).manual_seed(0)
        return measure_consistency(unseen, *judges, random, light)
