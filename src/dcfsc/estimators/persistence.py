"""Models on disk: one safetensors file, its header holding the parameters as JSON. No pickle."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc._version import __version__
from dcfsc.errors import InputError, unknown_name
from dcfsc.files import atomic_path

FORMAT = 1
_AFFINITIES = {
    kind.__name__: kind
    for kind in (affinities.LowRank, affinities.RowSpace, affinities.Symmetric, affinities.TopK)
}


class Persistent:
    """``save`` and ``load`` for estimators that can say their state as tensors and JSON."""

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors, and JSON values, that bring a fitted model back."""
        raise NotImplementedError

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """The inverse of ``_state``, on a new estimator with the right parameters."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to ``path`` (one file, atomically)."""
        check_is_fitted(self)
        tensors, values = self._state()
        params = {
            name: encode_parameter(name, value)
            for name, value in self.get_params(deep=False).items()  # type: ignore[attr-defined]
        }
        header = {
            "format": FORMAT,
            "version": __version__,
            "class": type(self).__name__,
            "params": params,
            "values": values,
        }
        contiguous = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
        with atomic_path(path) as part:
            save_file(contiguous, part, metadata={"dcfsc": json.dumps(header)})

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Any = None) -> Self:
        """Read a model that ``save`` wrote; ``device`` overrides the one it was made with."""
        header, tensors = read_model(path)
        if header["class"] != cls.__name__:
            raise InputError(
                f"{path} holds a {header['class']}, not a {cls.__name__}; "
                f"use {header['class']}.load."
            )
        params = {name: decode_parameter(value) for name, value in header["params"].items()}
        if device is not None:
            params["device"] = device
        model = cls(**params)
        model._restore(tensors, header["values"])
        return model


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a model file, or one line saying why it is none."""
    if not Path(path).is_file():
        raise InputError(f"there is no model file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if "dcfsc" not in metadata:
                raise InputError(f"{path} is a safetensors file, but not a dcfsc model.")
            header = json.loads(metadata["dcfsc"])
            if int(header["format"]) > FORMAT:
                raise InputError(
                    f"{path} was written by dcfsc {header['version']} in model format "
                    f"{header['format']}; this is dcfsc {__version__}, which reads up to format "
                    f"{FORMAT}. Upgrade dcfsc."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is damaged or not a dcfsc model ({reason}).") from error
    return header, tensors


def encode_parameter(name: str, value: Any) -> Any:
    if type(value) in _AFFINITIES.values():
        return {"affinity": type(value).__name__, **dataclasses.asdict(value)}
    if hasattr(value, "to_dict"):
        return {"spec": value.to_dict()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # the stream's position is spent; a reloaded model is fitted already
    if isinstance(value, torch.device | os.PathLike):
        return str(value)
    if isinstance(value, tuple | list):
        return [encode_parameter(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"the parameter {name}={value!r} cannot be saved; use a name or one of dcfsc's own objects."
    )


def decode_parameter(value: Any) -> Any:
    if isinstance(value, dict) and "affinity" in value:
        options = dict(value)
        kind = options.pop("affinity")
        if kind not in _AFFINITIES:
            raise unknown_name("affinity", kind, _AFFINITIES)
        return _AFFINITIES[kind](**options)
    if isinstance(value, dict) and "spec" in value:
        from dcfsc.networks import from_dict

        return from_dict(value["spec"])
    if isinstance(value, list):
        return tuple(decode_parameter(item) for item in value)
    return value
