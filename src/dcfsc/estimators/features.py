"""Features by the name a person types: what is computed from the samples before a method."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from dcfsc.errors import unknown_name

from .autoencoder_features import AutoencoderFeatures
from .methods import method_class
from .scattering_features import ScatteringFeatures

FEATURES: dict[str, type[AutoencoderFeatures] | type[ScatteringFeatures]] = {
    "autoencoder": AutoencoderFeatures,
    "scattering": ScatteringFeatures,
}
SHARED = ("device", "random_state")


def create_features(
    name: str, method: str, options: Mapping[str, Any]
) -> tuple[AutoencoderFeatures | ScatteringFeatures, dict[str, Any]]:
    """The transformer with its part of the options, and the options that are left for the method.

    An option that both have is the method's, but for the device and the seed, which go to both.
    """
    if name not in FEATURES:
        raise unknown_name("features", name, FEATURES)
    cls = FEATURES[name]
    ours, theirs = (inspect.signature(c).parameters for c in (cls, method_class(method)))
    given = {key: value for key, value in options.items() if value is not None}
    mine = {k: v for k, v in given.items() if k in ours and (k in SHARED or k not in theirs)}
    rest = {k: v for k, v in given.items() if k in theirs or k not in mine}
    return cls(**mine), rest


def load_features(path: Any, device: Any = None) -> AutoencoderFeatures | ScatteringFeatures:
    """A saved transformer, whatever its class."""
    from .persistence import read_model

    header, _ = read_model(path)
    by_class = {cls.__name__: cls for cls in FEATURES.values()}
    if header["class"] not in by_class:
        raise unknown_name("features' class", header["class"], by_class)
    return by_class[header["class"]].load(path, device=device)
