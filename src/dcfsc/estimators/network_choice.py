"""Which network, started from which weights, fed with which scale of input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc import io, networks, processes
from dcfsc.errors import InputError, unknown_name
from dcfsc.pipeline.samples import writeable

LARGE_BYTES = 1 << 31  # of float32 input; more stays on the host
BLOCK_ROWS_BYTES = 1 << 26
VIEW_NETWORKS = {"residual": "images", "head": "feature vectors"}


def initial_network(
    network: Any, weights: Any, X: Any, generator: torch.Generator
) -> tuple[Any, float]:
    """The network for the samples X, started from ``weights``, and the scale of its input.

    Published weights saw pixels as they are (0 to 255), so their scale is 1, and a spec may bring
    a scale of its own; any other network that starts from nothing gets inputs of at most 1.
    """
    module = _build(network, weights, X.shape[1:])
    module.reset_parameters(generator)
    if weights is not None:
        networks.load_published_weights(module, weights)
        return module, 1.0
    return module, scale_to_one(X) if module.spec.input_scale == 1.0 else 1.0


def scale_to_one(X: Any) -> float:
    """The factor that brings the largest magnitude of all processes' samples to 1."""
    rows = max(1, BLOCK_ROWS_BYTES // max(1, X.size // len(X) * 8))
    blocks = (X[i : i + rows] for i in range(0, len(X), rows))
    # The ends rather than |X|: no copy, and no overflow of a signed type's lowest value.
    own = max(max(float(b.max(initial=0)), -float(b.min(initial=0))) for b in blocks)
    largest = -processes.smallest_number(-own)
    return 1.0 / largest if largest > 0 else 1.0


def _build(network: Any, weights: Any, sample_shape: tuple[int, ...]) -> Any:
    spec: Any
    if isinstance(network, str):
        if network in VIEW_NETWORKS:
            raise InputError(f"the network {network!r} is for the method 'views' (ViewClustering).")
        if network != "auto":
            spec = networks.preset_spec(network)
        elif weights is not None:
            spec = networks.preset_spec(networks.preset_for_weights(weights))
        else:
            spec = networks.architecture_for(sample_shape)
    else:
        spec = network
    module = networks.build(spec)
    _check_shape(module.spec, sample_shape)
    return module


def view_specs_for(
    network: Any, sample_shape: tuple[int, ...], n_clusters: int, small: bool
) -> tuple[Any, Any]:
    """The specs of the encoders that learn from views which ``network`` names: of the usual one,
    and of the one for samples whose clusters teach it nothing.
    """
    names = ("auto", *VIEW_NETWORKS)
    if isinstance(network, str):
        if network not in names:
            raise unknown_name("network for views", network, names)
        if network != "auto" and (network == "head") != (len(sample_shape) == 1):
            raise InputError(
                f"network={network!r} is for {VIEW_NETWORKS[network]}, but a sample of X has the "
                f"shape {tuple(sample_shape)}; use network='auto'."
            )
        usual = networks.view_spec(sample_shape, n_clusters, small=small)
        return usual, networks.view_spec(sample_shape, n_clusters, small=small, alone=True)
    if not isinstance(network, networks.ResidualSpec | networks.HeadSpec):
        raise InputError(
            f"ViewClustering takes a ResidualSpec, a HeadSpec or one of {', '.join(names)}; got "
            f"network={network!r}."
        )
    _check_shape(network, sample_shape)
    spec = replace(network, n_clusters=n_clusters)
    return spec, spec


def _check_shape(spec: Any, sample_shape: tuple[int, ...]) -> None:
    expected, found = tuple(spec.sample_shape), tensor_shape(sample_shape)
    if expected != found:
        raise InputError(
            f"the network takes samples of shape {expected}, but X has {found}; "
            "resize the samples or choose another network."
        )


def tensor_shape(sample_shape: tuple[int, ...]) -> tuple[int, ...]:
    """(features,), (h, w) or (c, h, w) as the network sees it: gray images get one channel."""
    return (1, *sample_shape) if len(sample_shape) == 2 else tuple(sample_shape)


class NetworkInputs:
    """Samples that stay where they are and are brought to the device a chunk at a time."""

    dtype = torch.float32

    def __init__(self, X: Any, device: torch.device, scale: float):
        self._X, self.device, self._scale = X, device, scale

    def __len__(self) -> int:
        return len(self._X)

    def __getitem__(self, rows: Any) -> Tensor:
        index = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        return network_input(np.asarray(self._X[index]), self.device, self._scale)


def as_inputs(X: Any, device: torch.device, scale: float) -> Tensor | NetworkInputs:
    """The network's input on the device at once, or by chunks if it is on disk or very large."""
    if isinstance(X, io.Streamed) or 4 * X.size > LARGE_BYTES:
        return NetworkInputs(X, device, scale)
    return network_input(X, device, scale)


def network_input(X: np.ndarray, device: torch.device, scale: float) -> Tensor:
    """X as float32 on the device in the network's shape and scale."""
    if X.dtype != np.uint8 and scale != 1.0:
        # Scaled before the conversion: a float64 value may not fit float32 as it is.
        X = X * scale
        scale = 1.0
    inputs = torch.from_numpy(writeable(X)).to(device).to(torch.float32)
    if scale != 1.0:
        inputs = inputs * scale
    return inputs.reshape(len(X), *tensor_shape(X.shape[1:]))
