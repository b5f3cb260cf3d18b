"""Methods and features by name, and saved models of any class."""

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
from .encoder_features import EncoderFeatures, TextEncoderFeatures
from .low_rank import ADSSC, EDSC, LRR, LRSC, LSR
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
    "kssc": KernelSSC,
    "lrr": LRR,
    "lrsc": LRSC,
    "lsr": LSR,
    "ssc": SSC,
    "ssc-omp": SSCOMP,
    "views": ViewClustering,
}
Features = AutoencoderFeatures | EncoderFeatures | ScatteringFeatures | TextEncoderFeatures
FEATURES: dict[str, type[Features]] = {
    "autoencoder": AutoencoderFeatures,
    "encoder": EncoderFeatures,
    "scattering": ScatteringFeatures,
}
OF_TEXTS: dict[str, type[Features]] = {"encoder": TextEncoderFeatures}
NAMED = "encoder"  # the features that take a name of their own, as in encoder:NAME
SHARED = {"device", "random_state"}


def method_class(name: str) -> type[SubspaceClusterer]:
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def create(name: str, **options: Any) -> SubspaceClusterer:
    """The estimator of a method with some options; None leaves an option at its default."""
    cls = method_class(name)
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in _options(cls):
            takers = [method for method, other in METHODS.items() if key in _options(other)]
            raise InputError(
                f"the method {name!r} has no option {key.replace('_', '-')!r}"
                + (f"; it belongs to {', '.join(takers)}." if takers else ".")
            )
    return cls(**given)


def features_for(name: str | None, texts: bool) -> str | None:
    """The features by that name; texts have some where none are named."""
    return NAMED if name is None and texts else name


def create_features(
    name: str, method: str, options: Mapping[str, Any], *, texts: bool = False
) -> tuple[Features, dict[str, Any]]:
    """The transformer made with its options, and the options of the method.

    The method has precedence; the device and the seed go to both. What follows a colon, as in
    ``encoder:NAME``, is the encoder's name or path. Texts have encoders of their own.
    """
    known = OF_TEXTS if texts else FEATURES
    kind, _, encoder = name.partition(":")
    if kind not in known or (encoder and kind != NAMED):
        what = "features of texts" if texts else "features"
        raise unknown_name(what, name, (*known, f"{NAMED}:NAME"))
    if encoder:  # absolute, so that the model finds it from any folder
        path = Path(encoder)
        options = {**options, "name": str(path.resolve()) if path.exists() else encoder}
    of_features, of_method = _options(known[kind]), _options(method_class(method))
    given = {key: value for key, value in options.items() if value is not None}
    taken = given.keys() & (of_features - (of_method - SHARED))
    transformer = known[kind](**{key: given[key] for key in taken})
    return transformer, {k: v for k, v in given.items() if k in of_method or k not in taken}


def _options(cls: type) -> set[str]:
    return set(inspect.signature(cls).parameters)


def reading_for(features: str | None, device: Any) -> Reading | None:
    """How these features need image files to be read; None if any size will do."""
    if features is None or features.partition(":")[0] != NAMED:
        return None
    transformer, _ = create_features(features, "closed-form", {"device": device})
    assert isinstance(transformer, EncoderFeatures)
    return replace(transformer.open().images.reading, levels=OF_THE_SET)


def load_model(path: Any, device: Any = None) -> Any:
    """Read a saved estimator or transformer of any class."""
    header, _ = read_model(path)
    by_class: dict[str, Any] = {
        cls.__name__: cls
        for cls in (*METHODS.values(), *FEATURES.values(), *OF_TEXTS.values())
        if hasattr(cls, "load")
    }
    if header["class"] not in by_class:
        raise unknown_name("model class", header["class"], by_class)
    return by_class[header["class"]].load(path, device=device)
