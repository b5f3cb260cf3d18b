"""What the authors of DSC and DCFSC fix for each dataset, and the features that methods see.

protocols.toml has the settings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dcfsc.errors import InputError, unknown_name
from dcfsc.estimators import AutoencoderFeatures
from research.data import weights_path

from .cells import Problem

Options = dict[str, Any]


@dataclass(frozen=True)
class Protocol:
    """What the authors of DSC and DCFSC fix for one dataset, as functions of K."""

    affinity: str  # of DCFSC and of the references
    dsc_affinity: str
    assign: str
    dcfsc: Callable[[int], Options]
    dsc: Callable[[int], Options]
    note: str = ""
    tuned: bool = True  # somebody chose settings for these data by their labels

    @property
    def start(self) -> Options:
        return _network(self.dcfsc(2))

    @property
    def published(self) -> Options | None:
        """The auto-encoder that DSC starts from; AE+SSC and AE+EDSC take their features from it."""
        network = _network(self.dsc(2))
        return network if network["weights"] else None


def _network(options: Options) -> Options:
    return {"network": options["network"], "weights": options["weights"]}


def located(options: Options) -> Options:
    """The options with the file of the published weights in place of their name."""
    name = options["weights"]
    return {**options, "weights": None if name is None else weights_path(name)}


def _deep(known: Options, K: int) -> Options:
    """Common to both deep methods: Adam at 1e-3, no pre-training beyond the published weights."""
    options: Options = {"weights": None, "pretrain_epochs": 0, "learning_rate": 1e-3, **known}
    options["steps"] += K * options.pop("steps_a_cluster", 0)
    exponent = options.pop("self_expression_exponent", None)
    if exponent is not None:
        options["self_expression_weight"] = 10 ** (K / 10 + exponent)
    return options


def _protocol(dcfsc: Options, dsc: Options, **fixed: Any) -> Protocol:
    return Protocol(dcfsc=partial(_deep, dcfsc), dsc=partial(_deep, dsc), **fixed)


_TABLES = tomllib.loads(Path(__file__).with_name("protocols.toml").read_text(encoding="utf-8"))
PROTOCOLS = {dataset: _protocol(**fixed) for dataset, fixed in _TABLES.items()}


@dataclass(frozen=True)
class Task:
    """One problem, one seed, one device; ``lam`` where it differs from the protocol's."""

    problem: Problem
    seed: int
    device: torch.device
    lam: float | None = None

    @property
    def K(self) -> int:
        return self.problem.n_clusters

    @property
    def protocol(self) -> Protocol:
        if self.problem.dataset not in PROTOCOLS:
            raise unknown_name("dataset with a protocol", self.problem.dataset, PROTOCOLS)
        return PROTOCOLS[self.problem.dataset]


# Features: what a method is given, and how it was made ------------------------------------------

Features = Callable[[Task, np.ndarray], tuple[np.ndarray, str]]


def images(task: Task, X: np.ndarray) -> tuple[np.ndarray, str]:
    return X, "images as stored, then the trained encoder"


def pixels(task: Task, X: np.ndarray) -> tuple[np.ndarray, str]:
    return X.reshape(len(X), -1).astype(np.float32), "pixels as stored"


def published_latents(task: Task, X: np.ndarray) -> tuple[np.ndarray, str]:
    """Latents of the auto-encoder published with DSC, trained for reconstruction alone."""
    options = task.protocol.published
    if options is None:
        raise InputError(f"no auto-encoder weights are published for {task.problem.dataset}.")
    return _encode(options, task, X), f"latents of the published weights {options['weights']}"


def published_latents_at_pixel_energy(task: Task, X: np.ndarray) -> tuple[np.ndarray, str]:
    """Latents with the mean squared norm of the images over their largest pixel.

    For settings that were given for pixels from 0 to 1: latents over their maximum are mostly tiny,
    and all of them pass for noise.
    """
    Z, how = published_latents(task, X)
    largest = float(X.max()) or 1.0
    wanted = np.square(X.astype(np.float64) / largest).sum()
    found = np.square(Z, dtype=np.float64).sum()
    scale = float(np.sqrt(wanted / found)) if found > 0 else 1.0
    return (Z * scale).astype(np.float32), f"{how}, at the energy of pixels from 0 to 1"


def untrained_latents(task: Task, X: np.ndarray) -> tuple[np.ndarray, str]:
    """Latents of the network that DCFSC with this seed starts from."""
    return _encode(task.protocol.start, task, X), "latents of the untrained network"


def _encode(options: Options, task: Task, X: np.ndarray) -> np.ndarray:
    autoencoder = AutoencoderFeatures(
        **located(options),
        pretrain_epochs=0,
        device=task.device,
        random_state=task.seed,
        verbose=False,
    )
    return autoencoder.fit(X).transform(X)
