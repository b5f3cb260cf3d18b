"""Ideas for what a network may add to the closed form on pixels, for explore_deep.py.

An idea is where the network starts, how it is trained on, and how its latents are looked at. All of
them end in the same pipeline: rows of unit length, the ridge by tr H = m K, the library's top-k
graph, spectral clustering. Everything is full batch.

A loss term that needs the network holds it; a term with parameters of its own lends them to the
network, whose parameters the optimiser takes. So ``terms`` of :func:`dcfsc.training.train` is all
that the ideas need of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import earlier
import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.nn import functional as F

from dcfsc import networks, spectral
from dcfsc.estimators.network_choice import largest_magnitude, network_input
from dcfsc.estimators.regularisation import LATENT_SUBSPACE_DIM
from dcfsc.representations.orbits import permutations
from dcfsc.estimators.validation import local_generator, unit_rows
from dcfsc.self_expression import lam_for_dof
from dcfsc.self_expression.orbit import OrbitForm, orbit_gram
from dcfsc.training import History, LossTerm, Pass, ShareOfEnergy, encode, pretrain, train

BATCH_SIZE = 256
LEARNING_RATE = 1e-3
CHANGES = "shifts+mirror"


@dataclass(frozen=True)
class Settings:
    """How long is trained, and what was set by the sizes of losses and gradients, not by errors."""

    epochs: int = 60
    steps: int = 100
    refresh: int = 20  # steps between two sets of pseudo-labels
    noise: float = 0.3  # of the corrupted input, in standard deviations of the pixels
    erased: float = 0.4  # side of the erased square, in sides of the image
    pseudo_weight: float = 0.1


class Problem:
    """Images (N, h, w) as a network's input X (N, 1, h, w) of at most 1; labels for reports."""

    def __init__(self, images: np.ndarray, y: np.ndarray, device: torch.device):
        self.X = network_input(images, device, 1.0 / largest_magnitude(images))
        self.y, self.n_clusters = y, int(y.max()) + 1
        self.device = device

    @property
    def energy(self) -> float:
        """|x|^2 of a sample on average: gives loss terms the units of the reconstruction error."""
        return float(self.X.square().sum()) / len(self.X)


# Where a network starts


class Changes:
    """One of the ten changes of an orbit, drawn anew for each image."""

    def __init__(self, sample_shape: Sequence[int], device: torch.device, seed: int):
        self._indices = torch.stack(permutations(CHANGES, sample_shape)).to(device)  # (10, d)
        self._generator = torch.Generator(device).manual_seed(seed)

    def __call__(self, X: Tensor) -> Tensor:
        shape, device, many = (len(X),), X.device, len(self._indices)
        drawn = torch.randint(many, shape, device=device, generator=self._generator)
        return X.flatten(1).gather(1, self._indices[drawn]).view(X.shape)


class ChangedInputs:
    """Samples that are changed whenever they are looked at; the change is reconstructed too."""

    def __init__(self, X: Tensor, seed: int):
        self._X, self._change = X, Changes(X.shape[1:], X.device, seed)
        self.device, self.dtype = X.device, X.dtype

    def __len__(self) -> int:
        return len(self._X)

    def __getitem__(self, rows: Any) -> Tensor:
        return self._change(self._X[rows])


class Denoising(nn.Module):
    """Encodes a corrupted input: Gaussian noise, and a square of it erased; decodes as ever."""

    network: Any

    def __init__(self, network: nn.Module, sigma: float, erased: float, seed: int):
        super().__init__()
        self.network, self.sigma, self.erased = network, sigma, erased
        device = next(network.parameters()).device
        self._generator = torch.Generator(device).manual_seed(seed)

    def encoder(self, X: Tensor) -> Tensor:
        noise = torch.empty_like(X).normal_(generator=self._generator)
        return self.network.encoder((X + self.sigma * noise) * self._kept(X))

    def decoder(self, Z: Tensor) -> Tensor:
        return self.network.decoder(Z)

    def _kept(self, X: Tensor) -> Tensor:
        """0 in a square of each image and 1 elsewhere, (n, 1, h, w)."""
        inside = [self._interval(len(X), size, X.device) for size in X.shape[-2:]]
        return 1.0 - (inside[0][:, :, None] * inside[1][:, None, :])[:, None].to(X.dtype)

    def _interval(self, n: int, size: int, device: torch.device) -> Tensor:
        length = max(1, round(self.erased * size))
        first = torch.randint(size - length + 1, (n, 1), device=device, generator=self._generator)
        place = torch.arange(size, device=device)
        return (place >= first) & (place < first + length)


def deeper(spec: networks.ConvSpec) -> networks.ConvSpec:
    """One more stride-2 stage with ten more channels."""
    return replace(
        spec,
        channels=(*spec.channels, spec.channels[-1] + 10),
        kernels=(*spec.kernels, 3),
        strides=(*spec.strides, 2),
    )


def started(start: str, problem: Problem, seed: int, settings: Settings) -> Any:
    """The library's network for these images, with random weights or pre-trained by ``start``."""
    generator = local_generator(check_random_state(seed))
    spec: Any = networks.architecture_for(tuple(problem.X.shape[1:]))
    network = networks.build(deeper(spec) if start == "deeper" else spec, generator)
    network.to(problem.device)
    if start == "untrained":
        return network
    inputs: Any = problem.X
    trained: Any = network
    if start == "augment":
        inputs = ChangedInputs(problem.X, seed)
    elif start == "noise":
        sigma = settings.noise * float(problem.X.std())
        trained = Denoising(network, sigma, settings.erased, seed)
    pretrain(
        trained,
        inputs,
        epochs=settings.epochs,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        generator=generator,
        history=History(),
    )
    return network


# How it is trained on


class Invariance:
    """weight sum_i |u_i - u'_i|^2, u = Enc(x) / |Enc(x)| and u' the same of the changed x.

    Of unit length, as the encoder would else rather shrink its latents, at no cost to the
    reconstruction. Encodes once more; exact in chunks for networks without batch norm.
    """

    name = "invariance"

    def __init__(self, network: Any, change: Changes, weight: float):
        self.network, self.change, self.weight = network, change, weight

    def __call__(self, state: Pass) -> Tensor:
        changed = self.network.encoder(self.change(state.X))
        gap = F.normalize(state.latent, dim=1) - F.normalize(changed, dim=1)
        return self.weight * gap.square().sum()


class PseudoLabels:
    """weight sum_i cross-entropy of a linear head on sqrt(d) u_i against the current clusters.

    Entries of u_i itself, near 1 / sqrt(d), would leave the head at its start for hundreds of steps
    (the cross-entropy fell from 3.7 to 3.5 in 40 on ORL).

    The latents are clustered every ``refresh`` steps, and the clusters named as those before them
    that they share most samples with (Zhang et al. 2019). Full batch only: a call is a step, and
    clusters are of all samples. The head is registered with the network, so that it is trained.
    """

    name = "pseudo_labels"

    def __init__(self, network: Any, problem: Problem, settings: Settings, seed: int):
        self.n_clusters, self.seed = problem.n_clusters, seed
        self.refresh, self.weight = settings.refresh, settings.pseudo_weight * problem.energy
        # nn.Linear would initialise itself from the global generator.
        self.head = nn.utils.skip_init(nn.Linear, network.latent_dim, self.n_clusters)
        for parameter in self.head.to(problem.device).parameters():
            nn.init.zeros_(parameter)
        network.add_module("head", self.head)
        self.calls, self.labels = 0, torch.empty(0)

    def __call__(self, state: Pass) -> Tensor:
        if self.calls % self.refresh == 0:
            self.labels = self._clusters(state.latent.detach())
        self.calls += 1
        scale = state.latent.shape[1] ** 0.5
        logits = self.head(scale * F.normalize(state.latent, dim=1))
        return self.weight * F.cross_entropy(logits, self.labels, reduction="sum")

    def _clusters(self, Z: Tensor) -> Tensor:
        dims = (LATENT_SUBSPACE_DIM,)
        (labels,) = partitions([unit_rows(Z)], self.n_clusters, dims, self.seed, n_init=1)
        found = torch.from_numpy(labels).to(Z.device)
        if len(self.labels) == 0:
            return found
        shared = contingency_matrix(self.labels.cpu().numpy(), labels)
        before, now = linear_sum_assignment(shared, maximize=True)
        names = torch.arange(self.n_clusters)
        names[torch.from_numpy(now)] = torch.from_numpy(before)
        return names.to(Z.device)[found]


class UnitLatents(nn.Module):
    """The closed form sees latents of unit length; their lengths wait for the decoder.

    With D = diag |Enc(x_i)|: |X - Dec(D B D^-1 Enc(X))|^2, B of D^-1 Enc(X). Full batch only.
    """

    network: Any

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def encoder(self, X: Tensor) -> Tensor:
        Z = self.network.encoder(X)
        self.lengths = torch.linalg.vector_norm(Z, dim=1, keepdim=True).clamp_min(1e-12)
        return Z / self.lengths

    def decoder(self, E: Tensor) -> Tensor:
        return self.network.decoder(E * self.lengths)


@dataclass(frozen=True)
class Trainer:
    """Algorithm 2 on ``network`` with ``terms``; lam is the share of energy with tr H = 1.5 K.

    Gives the history, whose columns say whether a term has been learned at all.
    """

    problem: Problem
    seed: int
    settings: Settings

    def __call__(self, network: Any, terms: Sequence[LossTerm] = ()) -> History:
        X, dof = self.problem.X, self.problem.n_clusters * LATENT_SUBSPACE_DIM
        rule = ShareOfEnergy.for_dof(encode(network, X, None), dof)
        history = History()
        train(
            network,
            X,
            steps=self.settings.steps,
            lam=rule,
            learning_rate=LEARNING_RATE,
            history=history,
            terms=terms,
        )
        return history

    def invariance(self, network: Any, weight: float) -> Invariance:
        change = Changes(self.problem.X.shape[1:], self.problem.device, self.seed)
        return Invariance(network, change, weight * self.problem.energy)

    def pseudo_labels(self, network: Any) -> PseudoLabels:
        return PseudoLabels(network, self.problem, self.settings, self.seed)


TRAININGS: dict[str, Callable[[Trainer, Any], History]] = {
    "closed form": lambda trainer, network: trainer(network),
    "invariance": lambda trainer, network: trainer(network, [trainer.invariance(network, 0.1)]),
    "invariance x10": lambda trainer, network: trainer(network, [trainer.invariance(network, 1.0)]),
    "pseudo-labels": lambda trainer, network: trainer(network, [trainer.pseudo_labels(network)]),
    "unit latents": lambda trainer, network: trainer(UnitLatents(network)),
}


# How its latents are looked at


@dataclass(frozen=True)
class Idea:
    start: str  # "pixels" (no network), "untrained", "plain", "noise", "augment" or "deeper"
    training: str = "none"
    orbit: bool = False
    unit: bool = True  # latents of unit length

    @property
    def subspace_dim(self) -> float:
        """The library's m for such features, as it was then for pixels."""
        if self.orbit:
            return earlier.ORBIT_SUBSPACE_DIM
        return earlier.SUBSPACE_DIM if self.start == "pixels" else LATENT_SUBSPACE_DIM


IDEAS: dict[str, Idea] = {
    "raw": Idea("pixels"),
    "raw+orbit": Idea("pixels", orbit=True),
    "untrained": Idea("untrained"),
    "untrained+orbit": Idea("untrained", orbit=True),
    "ae": Idea("plain"),
    "ae+orbit": Idea("plain", orbit=True),
    "ae+noise": Idea("noise"),
    "ae+augment": Idea("augment"),
    "dcfsc": Idea("plain", "closed form"),
    "dcfsc-lengths": Idea("plain", "closed form", unit=False),  # the library's, to the letter
    "dcfsc+orbit": Idea("plain", "closed form", orbit=True),
    "dcfsc+augment": Idea("augment", "closed form"),
    "dcfsc+augment+orbit": Idea("augment", "closed form", orbit=True),
    "invariance": Idea("plain", "invariance"),
    "invariance-x10": Idea("plain", "invariance x10"),
    "invariance+orbit": Idea("plain", "invariance", orbit=True),
    "pseudo-labels": Idea("plain", "pseudo-labels"),
    "unit-latents": Idea("plain", "unit latents"),
    "deeper-ae": Idea("deeper"),
    "deeper-dcfsc": Idea("deeper", "closed form"),
}


def trained_on(network: Any, idea: Idea, trainer: Trainer) -> tuple[Any, History]:
    """A copy of the started network, trained as the idea says, and how that went."""
    network = deepcopy(network)
    return network, TRAININGS[idea.training](trainer, network)


def views(network: Any | None, idea: Idea, X: Tensor) -> list[Tensor]:
    """Features (N, d) of the images as they are and, for an orbit, of their nine changes."""
    found = []
    for index in permutations(CHANGES if idea.orbit else "none", X.shape[1:]):
        Z = X.flatten(1)[:, index.to(X.device)]
        if network is not None:
            Z = encode(network, Z.view(X.shape))
        found.append(unit_rows(Z) if idea.unit else Z)
    return found


def partitions(
    features: Sequence[Tensor], n_clusters: int, dims: Sequence[float], seed: int, n_init: int = 10
) -> list[np.ndarray]:
    """Labels for each m of ``dims``: the closed form over the views, the default graph, k-means."""
    seen = [lambda Z=Z: Z for Z in features]
    G = orbit_gram(seen)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)
    found = []
    for m in dims:
        operator = OrbitForm(seen, lam_for_dof(squares, m * n_clusters), G.clone())
        A = earlier.AFFINITY(operator, n_clusters)
        result = spectral.cluster(A, n_clusters, random_state=seed, n_init=n_init)
        found.append(result.labels)
    return found
