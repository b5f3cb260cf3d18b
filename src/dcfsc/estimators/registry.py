"""Methods and features by the name a person types, and saved models of whatever class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError, unknown_name
from dcfsc.io.images import OF_THE_SET, Reading

from .base import SubspaceClusterer
from .closed_form import ClosedFormSubspaceClustering
from .dcfsc import DCFSC
from .deep import AutoencoderFeatures
from .dsc import DSC
from .encoder_features import EncoderFeatures, reading
from .low_rank import ADSSC, EDSC, JDSSC, LRR, LRSC, LSR
from .persistence import read_model
from .scattering_features import ScatteringFeatures
from .sparse import SSC, SSCOMP, EnSC, KernelSSC
from .views import ViewClustering

METHODS: dict[str, type[SubspaceClusterer]] = {
    "dcfsc": DCFSC,
    "closed-form": ClosedFormSubspaceClustering,
    "dsc": DSC,
    "a-dssc": ADSSC,
    "edsc": EDSC,
    "ensc": EnSC,
    "j-dssc": JDSSC,
    "kssc": KernelSSC,
    "lrr": LRR,
    "lrsc": LRSC,
    "lsr": LSR,
    "ssc": SSC,
    "ssc-omp": SSCOMP,
    "views": ViewClustering,
}
Features = AutoencoderFeatures | EncoderFeatures | ScatteringFeatures
FEATURES: dict[str, type[Features]] = {
    "autoencoder": AutoencoderFeatures,
    "encoder": EncoderFeatures,
    "scattering": ScatteringFeatures,
}
NAMED = "encoder"  # the features that take a name of their own, as in encoder:NAME
SHARED = ("device", "random_state")


def method_class(name: str) -> type[SubspaceClusterer]:
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def create(name: str, **options: Any) -> SubspaceClusterer:
    """The estimator of a method with the options that were given (None means not given)."""
    cls = method_class(name)
    known = inspect.signature(cls).parameters
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in known:
            takers = [m for m, c in METHODS.items() if key in inspect.signature(c).parameters]
            raise InputError(
                f"the method {name!r} has no option {key.replace('_', '-')!r}"
                + (f"; it belongs to {', '.join(takers)}." if takers else ".")
            )
    return cls(**given)


def create_features(
    name: str, method: str, options: Mapping[str, Any]
) -> tuple[Features, dict[str, Any]]:
    """The transformer with its part of the options, and the options that are left for the method.

    An option that both have is the method's, but for the device and the seed, which go to both.
    What follows a colon, as in ``encoder:NAME``, is the encoder's name or path.
    """
    kind, _, which = name.partition(":")
    if kind not in FEATURES or (which and kind != NAMED):
        raise unknown_name("features", name, (*FEATURES, f"{NAMED}:NAME"))
    cls = FEATURES[kind]
    if which:  # a path is to be found from wherever the model is used later
        options = {**options, "name": str(Path(which).resolve()) if Path(which).exists() else which}
    ours, theirs = (inspect.signature(c).parameters for c in (cls, method_class(method)))
    given = {key: value for key, value in options.items() if value is not None}
    mine = {k: v for k, v in given.items() if k in ours and (k in SHARED or k not in theirs)}
    rest = {k: v for k, v in given.items() if k in theirs or k not in mine}
    return cls(**mine), rest


def reading_for(features: str | None, device: Any) -> Reading | None:
    """How image files are to be read for these features; None where any size will do."""
    if features is None or features.partition(":")[0] != NAMED:
        return None
    transformer, _ = create_features(features, "closed-form", {"device": device})
    assert isinstance(transformer, EncoderFeatures)
    return replace(reading(transformer.open()), levels=OF_THE_SET)


def load_model(path: Any, device: Any = None) -> Any:
    """A saved estimator or transformer, whatever its class."""
    header, _ = read_model(path)
    by_class: dict[str, Any] = {
        cls.__name__: cls for cls in (*METHODS.values(), *FEATURES.values()) if hasattr(cls, "load")
    }
    if header["class"] not in by_class:
        raise unknown_name("model class", header["class"], by_class)
    return by_class[header["class"]].load(path, device=device)
