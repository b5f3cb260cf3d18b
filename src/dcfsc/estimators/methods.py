"""Methods by the name a person types."""

from __future__ import annotations

import inspect
from typing import Any

from dcfsc.errors import InputError, unknown_name

from .base import SubspaceClusterer
from .closed_form import ClosedFormSubspaceClustering
from .dcfsc import DCFSC
from .dsc import DSC
from .low_rank import EDSC, LRR, LRSC
from .sparse import SSC, SSCOMP, KernelSSC

METHODS: dict[str, type[SubspaceClusterer]] = {
    "dcfsc": DCFSC,
    "closed-form": ClosedFormSubspaceClustering,
    "dsc": DSC,
    "edsc": EDSC,
    "kssc": KernelSSC,
    "lrr": LRR,
    "lrsc": LRSC,
    "ssc": SSC,
    "ssc-omp": SSCOMP,
}


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


def load_model(path: Any, device: Any = None) -> SubspaceClusterer:
    """Any saved model, whatever its class."""
    from .persistence import read_model

    header, _ = read_model(path)
    by_class = {cls.__name__: cls for cls in METHODS.values()}
    if header["class"] not in by_class:
        raise unknown_name("model class", header["class"], by_class)
    return by_class[header["class"]].load(path, device=device)
