"""Samples as a fit takes them: rows in memory or on disk, images at their working size."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dcfsc import processes
from dcfsc.io import Streamed
from dcfsc.io.streamed import blocks, require_room
from dcfsc.io.working_size import working_shape
from dcfsc.progress import stage


@dataclass(frozen=True, eq=False)
class Samples:
    """Checked samples X (n, ...), and the shape in which they are compared.

    X is an array or is streamed from disk; ``working_shape`` is (features,), (h, w) or (c, h, w).
    """

    X: Any
    working_shape: tuple[int, ...]

    @classmethod
    def of(cls, X: Any, working_size: Any) -> Samples:
        shape = tuple(X.shape[1:])
        compared = working_shape(shape, working_size)
        if compared != shape:
            stage("images are compared at %d x %d", *compared[-2:])
        return cls(X, compared)

    def rows(self, device: torch.device) -> Tensor:
        """The samples as flat rows (n, d) on the device."""
        return as_float(self.X, device, self.working_shape).reshape(self.X.shape[0], -1)


def groups_of_equal_samples(X: Any, n_clusters: int) -> np.ndarray | None:
    """Groups (n,) of equal samples of X (n, ...), numbered by first appearance; None if over K.

    None is the answer for ordinary data, and it is known after K + 1 samples that differ. With
    fewer groups than clusters a warning says how many. Where samples are divided among processes,
    the groups are those of all of them.
    """
    number: dict[bytes, int] = {}
    groups = np.empty(len(X), np.int64)
    samples = (x for _, block in blocks(X) for x in block)
    for i, sample in enumerate(samples):
        key = hashlib.sha256((sample + 0).tobytes()).digest()  # -0.0 is 0.0
        groups[i] = number.setdefault(key, len(number))
        if len(number) > n_clusters:
            break
    keys = torch.frombuffer(bytearray(b"".join(number)), dtype=torch.uint8).view(-1, 32)
    everyone = dict.fromkeys(key.tobytes() for key in processes.gather_rows(keys).numpy())
    if len(everyone) > n_clusters:
        return None
    if len(everyone) < n_clusters:
        clusters = "1 cluster was" if len(everyone) == 1 else f"{len(everyone)} clusters were"
        warnings.warn(
            f"{clusters} found where {n_clusters} were asked for: the "
            f"{int(processes.total_number(len(X)))} samples have {len(everyone)} distinct "
            "values.",
            UserWarning,
            stacklevel=5,
        )
    place = {key: group for group, key in enumerate(everyone)}
    return np.array([place[key] for key in number], np.int64)[groups]


def as_float(X: Any, device: torch.device, shape: tuple[int, ...] | None = None) -> Tensor:
    """Features as a floating tensor on the device; integers become float32.

    Images of another shape than ``shape`` are reduced or enlarged to it, a block at a time.
    """
    if shape is not None and tuple(X.shape[1:]) != shape:
        return torch.cat([_resized(block, device, shape) for _, block in blocks(X)])
    if isinstance(X, Streamed) or not X.flags.writeable:  # a tensor is always writeable
        kind = torch.float64 if X.dtype == np.float64 else torch.float32
        if device.type == "cpu":
            require_room("X", X.size * kind.itemsize)
        features = torch.empty(X.shape, dtype=kind, device=device)
        for start, block in blocks(X):
            part = torch.from_numpy(writeable(block)).to(device)
            features[start : start + len(block)] = part
        return features
    if X.dtype == np.uint8:
        return torch.from_numpy(X).to(device).to(torch.float32)
    return torch.from_numpy(np.ascontiguousarray(X)).to(device)


def _resized(block: np.ndarray, device: torch.device, shape: tuple[int, ...]) -> Tensor:
    """Images (n, h, w) or (n, c, h, w) at another height and width, as a floating tensor."""
    pixels = torch.from_numpy(writeable(block)).to(device)
    planes = pixels.reshape(len(block), -1, *block.shape[-2:])
    planes = planes if planes.is_floating_point() else planes.float()
    small = interpolate(planes, shape[-2:], mode="bicubic", antialias=True)
    if block.dtype == np.uint8:
        small.clamp_(0.0, 255.0)
    return small.reshape(len(block), *shape)


def writeable(X: Any) -> np.ndarray:
    """X itself where a tensor may share its memory, else a copy: if it is read-only or strided."""
    return np.require(X, requirements=("C", "W"))
