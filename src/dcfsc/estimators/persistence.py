"""Models on disk: one safetensors file, its header holding the parameters as JSON. No pickle."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc._version import __version__
from dcfsc.errors import InputError, reason, unknown_name
from dcfsc.files import header_of
from dcfsc.networks import from_dict
from dcfsc.ownership import Output
from dcfsc.parameters import check
from dcfsc.training.checkpoint import fingerprint

from .validation import check_n_clusters

FORMAT = 2
# Paths on the machine that fitted, and parameters of training alone, are neither saved nor read.
PLACES, OF_TRAINING = ("cache", "checkpoint", "weights"), ("callbacks", "terms", "checkpoint_every")
NO_PLACE = (None, "auto")
LARGEST_SIDE = 1 << 24  # of a sample, in pixels or features
_AFFINITIES = {
    name: getattr(affinities, name)
    for name in ("DoublyStochastic", "LowRank", "NearestCodes", "RowSpace", "Symmetric", "TopK")
}
# Of models that version 1 saved: classes and parameters had other names.
RENAMED = {"views": "augmentations", "partners": "positives"}
# Parameters that only a training read, and those of the other one of the two trainings of DCFSC.
GONE = {"pretrain_batch_size", "tol", "patience", "training", "losses", "n_neighbors"}
OF_RECONSTRUCTION, OF_VIEWS = {"weights", "pretrain_epochs", "terms"}, set(RENAMED)


class Persistent:
    """``save`` and ``load`` for estimators whose state is tensors and JSON."""

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON values that restore a fitted model."""
        raise NotImplementedError

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """The inverse of ``_state``, on a new estimator with the right parameters."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to ``path`` (one file, atomically).

        A dcfsc model that is there is replaced; any other file is an error.
        """
        check_is_fitted(self)
        # a link stays, and the file that it leads to is judged
        with Output(os.path.realpath(path), asks=False, ours=is_model).open() as part:
            self.write_model(part)

    def write_model(self, path: Path) -> None:
        """Write the model to a new file."""
        tensors, values = self._state()
        if hasattr(self, "n_clusters_"):
            values = {**values, "n_clusters": int(self.n_clusters_)}
        if hasattr(self, "feature_names_in_"):
            values = {**values, "feature_names": list(self.feature_names_in_)}
        params = {
            name: encode_parameter(name, value)
            for name, value in self.get_params(deep=False).items()  # type: ignore[attr-defined]
            if is_kept(name, value)
        }
        contiguous = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
        header = {
            "format": FORMAT,
            "version": __version__,
            "class": type(self).__name__,
            "params": params,
            "values": values,
        }
        header["sha256"] = fingerprint(header, contiguous)
        save_file(contiguous, path, metadata={"dcfsc": json.dumps(header)})

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Any = None) -> Self:
        """Read a model that ``save`` wrote; ``device`` overrides the one it was made with."""
        header, tensors = read_model(path)
        if header["class"] != cls.__name__:
            raise InputError(
                f"{path} holds a {header['class']}, not a {cls.__name__}; "
                f"use {header['class']}.load."
            )
        try:
            saved = header["params"].items()
            params = {name: decode_parameter(v) for name, v in saved if is_kept(name, v)}
            model = cls(**params)
            if device is not None:
                model.set_params(device=device)  # type: ignore[attr-defined]
            if "labels" in tensors:
                own: Any = model
                own.n_clusters_ = header["values"].get("n_clusters", params["n_clusters"])
            check(model, effects=False)
            check_labels(model, tensors)
            check_network(header["values"], tensors)
            model._restore(tensors, header["values"])
            if "feature_names" in header["values"]:
                name_features(model, header["values"]["feature_names"])
        except InputError as error:
            raise InputError(f"{path} cannot be used: {error}") from None
        except torch.OutOfMemoryError:
            raise  # the device's fault, not the file's
        except Exception as error:  # a header may be whole JSON and still say anything
            raise damaged(path, error) from error
        return model


def is_model(path: Path) -> bool:
    """Whether ``save`` wrote the file."""
    return {"format", "class", "params", "values"} <= (header_of(path) or {}).keys()


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the header and the tensors of a model file."""
    if not Path(path).is_file():
        raise InputError(f"there is no model file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if "dcfsc" not in metadata:
                raise InputError(f"{path} is a safetensors file, but not a dcfsc model.")
            header = json.loads(metadata["dcfsc"])
            if int(header["format"]) < FORMAT:
                raise InputError(
                    f"{path} was written by dcfsc {header['version']}, whose model format "
                    f"{header['format']} is no longer read; fit and save it again."
                )
            if int(header["format"]) > FORMAT:
                raise InputError(
                    f"{path} was written by dcfsc {header['version']} in model format "
                    f"{header['format']}; this is dcfsc {__version__}, which reads up to format "
                    f"{FORMAT}. Upgrade dcfsc."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header.pop("sha256") != fingerprint(header, tensors):
            raise ValueError("its checksum is wrong")
        if not isinstance(header["class"], str):
            raise ValueError("its class has no name")
        header = renewed(header)
    except InputError:
        raise
    except Exception as error:  # the parsers fail in many ways on damaged bytes
        raise damaged(path, error) from error
    return header, tensors


def renewed(header: dict[str, Any]) -> dict[str, Any]:
    """The header of a model that version 1 saved, with the names of this version."""
    name, params, values = header["class"], header["params"], header["values"]
    if name not in ("DCFSC", "AutoencoderFeatures") or "pretrain_batch_size" not in params:
        return header
    on_views = "views" in values
    gone = GONE | (OF_RECONSTRUCTION if on_views else OF_VIEWS)
    return {
        **header,
        "class": "ViewClustering" if on_views else name,
        "params": {
            RENAMED.get(k, k): v for k, v in params.items() if k not in gone and v is not None
        },
        "values": values | {k: params[k] for k in ("n_neighbors",) if k in params},
    }


def damaged(path: str | os.PathLike[str], error: Exception) -> InputError:
    return InputError(f"{path} is damaged or not a dcfsc model ({reason(error)}).")


def name_features(model: Any, names: Sequence[str]) -> None:
    """Set ``feature_names_in_`` of a fitted model, as if X had had column names."""
    if (len(names),) != tuple(model.sample_shape_) or not all(isinstance(n, str) for n in names):
        raise InputError("its feature names do not match its samples; fit and save it again.")
    model.feature_names_in_ = np.array(names, dtype=object)


def check_labels(model: Any, tensors: dict[str, Tensor]) -> None:
    """Check that labels match the clusters and that all values are finite."""
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{name} has NaN or infinity; fit and save it again.")
    if "labels" not in tensors:
        return
    labels, n_clusters = tensors["labels"], model.n_clusters_
    if labels.ndim != 1 or labels.dtype not in (torch.int32, torch.int64) or not len(labels):
        raise InputError("its labels are not whole numbers, one for each sample.")
    check_n_clusters(n_clusters, len(labels))
    if not 0 <= int(labels.min()) <= int(labels.max()) < int(n_clusters):
        raise InputError(f"its labels do not match {n_clusters} clusters.")
    for name in {"features", "latents"} & tensors.keys():
        if tensors[name].ndim < 2 or len(tensors[name]) != len(labels):
            raise InputError(f"its labels and its {name} have different numbers of samples.")


def check_network(values: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Check that a network's spec fits the samples, latents and weights."""
    shapes = values["sample_shape"], values.get("working_shape", [1])
    if not all(type(s) is int and 0 < s <= LARGEST_SIDE for sides in shapes for s in sides):
        raise InputError("its samples have no shape; fit and save it again.")
    shape = math.prod(values["sample_shape"])
    if not 0 < float(values.get("input_scale", 1.0)) < torch.finfo(torch.float32).max:
        raise InputError(f"its samples cannot be scaled by {values['input_scale']}.")
    if "spec" not in values:
        return
    spec = from_dict(values["spec"])
    largest = max((value.numel() for value in tensors.values()), default=0)
    strides = getattr(spec, "strides", ())
    too_many = len(spec.layer_sizes) > len(tensors)
    if too_many or max(spec.layer_sizes) > largest or max(strides, default=1) > shape:
        raise InputError("its network is larger than its weights; fit and save it again.")
    latents = tensors.get("latents")
    if math.prod(spec.sample_shape) != shape or (
        latents is not None and latents.shape[1] != spec.latent_dim
    ):
        raise InputError("its network does not match its samples; fit and save it again.")


def encode_parameter(name: str, value: Any) -> Any:
    if type(value) in _AFFINITIES.values():
        return {"affinity": type(value).__name__, **dataclasses.asdict(value)}
    if hasattr(value, "to_dict"):
        return {"spec": value.to_dict()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return None  # the stream's position is spent; a reloaded model is fitted already
    if isinstance(value, torch.device | os.PathLike):
        return str(value)
    if isinstance(value, Mapping):
        return {"mapping": {str(key): encode_parameter(name, item) for key, item in value.items()}}
    if isinstance(value, tuple | list):
        return [encode_parameter(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"the parameter {name}={value!r} cannot be saved; use a name or one of dcfsc's own objects."
    )


def is_kept(name: str, value: Any) -> bool:
    """Whether a parameter is saved and loaded; otherwise it has its default."""
    return name not in OF_TRAINING and (name not in PLACES or value in NO_PLACE)


def decode_parameter(value: Any) -> Any:
    if isinstance(value, dict) and "affinity" in value:
        options = dict(value)
        kind = options.pop("affinity")
        if kind not in _AFFINITIES:
            raise unknown_name("affinity", kind, _AFFINITIES)
        return _AFFINITIES[kind](**options)
    if isinstance(value, dict) and "spec" in value:
        return from_dict(value["spec"])
    if isinstance(value, dict) and "mapping" in value:
        return {key: decode_parameter(item) for key, item in value["mapping"].items()}
    if isinstance(value, list):
        return tuple(decode_parameter(item) for item in value)
    return value
