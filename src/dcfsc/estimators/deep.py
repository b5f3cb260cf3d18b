"""What the deep estimators share: a network, where it starts, and its latents as features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc import networks, processes
from dcfsc import parameters as p
from dcfsc.io.digest import BYTES, digest_of
from dcfsc.machine import resolve_device
from dcfsc.training import (
    Callback,
    Checkpoint,
    History,
    calibrate_batch_norm,
    encode,
    evaluation_chunk,
    pretrain,
)
from dcfsc.training.progress import progress_bar

from .base import DEVICE, Estimator, FeatureTransformer
from .network_choice import NetworkInputs, as_inputs, initial_network
from .persistence import Persistent
from .validation import check_array, local_generator

PRETRAIN_EPOCHS = 60
LEARNING_RATE = 1e-3
PRETRAIN_BATCH = 256
NETWORK = p.Kind(lambda v: isinstance(v, str | networks.Spec), "a name or a spec")


class NetworkEstimator(FeatureTransformer):
    """A transformer whose features are an auto-encoder's latents.

    Sets ``network_``, ``input_scale_`` and ``history_``; a subclass trains on.
    """

    device: Any
    verbose: bool | str
    callbacks: Sequence[Callback]

    _table = p.table(
        network=NETWORK,
        weights=p.PATH | p.NONE,
        pretrain_epochs=p.whole(0) | p.NONE,
        learning_rate=p.real(0.0, p.LARGEST_RATE),
        device=DEVICE,
        random_state=p.SEED,
        verbose=p.VERBOSE,
        callbacks=p.CALLABLES,
    )

    network_: Any
    input_scale_: float
    history_: History

    @contextmanager
    def _recording(self, epochs: int, steps: int) -> Iterator[History]:
        """A new ``history_`` with a progress bar; the callbacks leave it at the end."""
        with progress_bar(self.verbose, epochs, steps) as bar:
            self.history_ = History(callbacks=(*self.callbacks, bar))
            yield self.history_
        self.history_ = History(self.history_)

    def transform(self, X: Any) -> np.ndarray:
        """Latents (n, d) of X under the trained encoder."""
        return self._encode(X).cpu().numpy()

    def _encode(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = check_array(self, X, reset=False)
        inputs = NetworkInputs(X, resolve_device(self.device), self.input_scale_)
        return self._latents_of(self.network_, inputs)

    _latents_of: ClassVar[Callable[..., Tensor]] = staticmethod(encode)

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"network.{k}": v for k, v in self.network_.state_dict().items()}
        values = {
            "input_scale": self.input_scale_,
            "spec": self.network_.spec.to_dict(),
            "sample_shape": list(self.sample_shape_),
            "n_features_in": self.n_features_in_,
            "n_features_out": self._n_features_out,
            "history": list(self.history_),
        }
        # of a model that version 1 saved, where it was a parameter
        return tensors, values | {k: v for k, v in vars(self).items() if k == "n_neighbors"}

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        prefix = "network."
        spec: Any = networks.from_dict(values["spec"])
        of_views = isinstance(spec, networks.ResidualSpec | networks.HeadSpec)
        self.network_ = networks.ViewNetwork(spec) if of_views else networks.build(spec)
        self.network_.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        self.network_.to(resolve_device(self.device)).eval()
        self.input_scale_ = float(values["input_scale"])
        self.sample_shape_ = tuple(values["sample_shape"])
        self.n_features_in_ = int(values["n_features_in"])
        self._n_features_out = int(values["n_features_out"])
        self.history_ = History(values["history"])
        if "n_neighbors" in values:
            p.whole(1).check("n_neighbors", values["n_neighbors"])
            self.__dict__["n_neighbors"] = values["n_neighbors"]

    _n_features_out: int


@dataclass(eq=False, repr=False, kw_only=True)
class AutoencoderEstimator(NetworkEstimator):
    """An auto-encoder that starts from weights, or from a training for reconstruction alone."""

    network: Any = "auto"
    weights: Any = None
    pretrain_epochs: int | None = None
    learning_rate: float = LEARNING_RATE
    device: Any = "auto"
    random_state: Any = None
    verbose: bool | str = "auto"
    callbacks: Sequence[Callback] = ()

    @contextmanager
    def _pretrained(
        self,
        X: Any,
        generator: torch.Generator,
        steps: int,
        checkpoint: Checkpoint | None = None,
    ) -> Iterator[Any]:
        """Build and pre-train the network, then give X as its input with the bar still open."""
        device = resolve_device(self.device)
        network, self.input_scale_ = initial_network(self.network, self.weights, X, generator)
        self.network_ = network.to(device)
        inputs = as_inputs(X, device, self.input_scale_)
        epochs = self.pretrain_epochs
        if epochs is None:
            epochs = PRETRAIN_EPOCHS if self.weights is None else 0
        with self._recording(epochs, steps) as history:
            if epochs:
                pretrain(
                    self.network_,
                    inputs,
                    epochs=int(epochs),
                    batch_size=PRETRAIN_BATCH,
                    learning_rate=self.learning_rate,
                    generator=generator,
                    history=history,
                    checkpoint=checkpoint,
                )
            yield inputs


@dataclass(eq=False, repr=False, kw_only=True)
class AutoencoderFeatures(AutoencoderEstimator, Persistent, Estimator):
    """Latents of an auto-encoder trained for reconstruction alone: min |X - Dec(Enc(X))|_F^2.

    The first half of the paper's AE+SSC and AE+EDSC::

        make_pipeline(AutoencoderFeatures(weights="dsc_eyaleb.safetensors"), SSC(n_clusters=38))

    Parameters are those of :class:`DCFSC` that concern the network.

    Attributes
    ----------
    network_ : the trained auto-encoder
    history_ : list of dictionaries, one an epoch
    """

    def fit(self, X: Any, y: Any = None) -> AutoencoderFeatures:
        """Train on X (n, features), (n, h, w) or (n, c, h, w)."""
        X = check_array(self, X, reset=True)
        generator = local_generator(check_random_state(self.random_state))
        with self._pretrained(X, generator, 0) as inputs:
            pass
        calibrate_batch_norm(self.network_, inputs, evaluation_chunk(inputs))
        self._n_features_out = encode(self.network_, inputs[:1]).shape[1]
        return self


def checkpoint_of(estimator: Any, X: Any) -> Checkpoint | None:
    """Where a training of the samples X saves itself, if it does."""
    if estimator.checkpoint is None:
        return None
    return Checkpoint(estimator.checkpoint, identity(estimator, X), estimator.checkpoint_every)


def identity(estimator: Any, X: Any) -> str:
    """A fingerprint of what a training run is: its parameters and its samples.

    What changes nothing in the result is left out. Each process digests its samples, and the
    fingerprint is the same however many there are. The labels of a run, which only score it, are
    bound as well: the scores are those of the labels that it began with.
    """
    passing = {"device", "verbose", "callbacks", "checkpoint", "checkpoint_every"}
    given = estimator.get_params(deep=False).items()
    told = {k: repr(v) for k, v in sorted(given) if k not in passing}
    told["labels"] = str(getattr(estimator, "_bound_labels", None))
    counts = processes.row_counts(len(X), torch.device("cpu"))
    own = digest_of(X, sum(counts[: processes.rank()])).to_bytes(BYTES, "little")
    parts = processes.gather_rows(torch.frombuffer(bytearray(own), dtype=torch.uint8)[None])
    total = sum(int.from_bytes(part.numpy().tobytes(), "little") for part in parts)
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(f"{(sum(counts), *X.shape[1:])} {X.dtype}".encode())
    digest.update((total % (1 << 8 * BYTES)).to_bytes(BYTES, "little"))
    return digest.hexdigest()
