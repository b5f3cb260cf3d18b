"""Published auto-encoder weights: safetensors files with encoder.I and decoder.I entries."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from dcfsc.errors import InputError, reason
from dcfsc.networks.autoencoders import ConvAutoencoder
from dcfsc.networks.presets import PRESETS, preset

Shapes = dict[str, tuple[int, ...]]


def load_published_weights(net: ConvAutoencoder, path: str | os.PathLike[str]) -> ConvAutoencoder:
    """Copy the weights in ``path`` into ``net`` and return it.

    Entries: encoder.I.weight (out, in, k, k), decoder.I.weight (in, out, k, k) and the biases, I
    from 0. Every entry must be there with the network's shape; otherwise nothing is copied.
    """
    tensors = _read(path)
    expected, given, none = _shapes(net.state_dict()), _shapes(tensors), "no such entry"
    for name in (*expected, *given):
        if expected.get(name) != given.get(name):
            raise InputError(
                f"{Path(path).name} does not fit this network: expected {name} "
                f"{expected.get(name, none)}, found {given.get(name, none)}."
            )
    bad = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    if bad:
        raise InputError(f"{Path(path).name} holds NaN or infinity in {bad[0]}; get a new copy.")
    net.load_state_dict(tensors)
    return net


def preset_for_weights(path: str | os.PathLike[str]) -> str:
    """The preset whose shapes equal the file's; among several, one named in the file's name, then
    one of DSC's, whose weights are the published ones."""
    shapes = _shapes(_read(path))
    fitting = [name for name in PRESETS if _shapes(preset(name).state_dict()) == shapes]
    if not fitting:
        channels = [s[0] for n, s in sorted(shapes.items()) if n.startswith("encoder.") and s[1:]]
        raise InputError(
            f"{Path(path).name} fits no known network (encoder channels {channels}); build one "
            f"with ConvSpec and load_published_weights, or use a file for: {', '.join(PRESETS)}."
        )
    stem = Path(path).stem.lower().replace("_", "-")
    return max(fitting, key=lambda name: (name == stem, name.startswith("dsc-")))


def _read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise InputError(f"there is no weights file {path}; check the path.") from None
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} is not a whole safetensors file ({reason(error)}); copy or download it again."
        ) from error


def _shapes(tensors: dict[str, Tensor]) -> Shapes:
    return {name: tuple(value.shape) for name, value in tensors.items()}
