"""Cached features, keyed by encoder and file hash.

A cache is a folder with one file per chunk that was added: digests (n, 32) and features (n, k).
Files are written atomically and never change, so any number of processes may read and add.
Damaged files are ignored, and their features are computed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from dcfsc.files import atomic_path
from dcfsc.io.streamed import cache_folder

SUFFIX = ".safetensors"


def default_place() -> Path:
    return cache_folder() / "features"


class FeatureCache:
    """Cached features of one encoder, by the digest of each sample.

    Parameters
    ----------
    place : path
        The folder of all caches.
    encoder : str
        Identifies everything that features depend on besides the sample.
    """

    def __init__(self, place: str | os.PathLike[str], encoder: str):
        self.folder = Path(place).expanduser() / re.sub(r"[^\w.-]", "-", encoder)
        self._rows: dict[bytes, tuple[Path, int]] = {}
        with suppress(OSError):
            for file in sorted(self.folder.glob(f"*{SUFFIX}")):
                self._index(file)

    def _index(self, file: Path) -> None:
        for row, digest in enumerate(self._read(file)[0]):
            self._rows[digest.tobytes()] = file, row

    def _read(self, file: Path) -> tuple[np.ndarray, np.ndarray]:
        """Digests (n, 32) and features (n, k) of a file; empty if it is damaged."""
        with suppress(OSError, SafetensorError, KeyError, ValueError, TypeError):
            if self.folder.is_symlink() or file.is_symlink() or not file.is_file():
                raise ValueError("links and devices are not read")
            with safe_open(file, framework="np") as opened:
                digests, features = opened.get_tensor("digests"), opened.get_tensor("features")
                intact = (opened.metadata() or {})["sha256"] == _checksum(digests, features)
            if intact and len(digests) == len(features) and features.dtype == np.float32:
                return digests, features
        message = f"{file} is damaged or not a regular file; its features are computed again."
        warnings.warn(message, UserWarning, stacklevel=2)
        return np.empty((0, 32), np.uint8), np.empty((0, 0), np.float32)

    def get(self, digests: Sequence[bytes]) -> dict[int, np.ndarray]:
        """Features (k,) of the samples that are cached, by their place in ``digests``."""
        requests: dict[Path, list[tuple[int, int]]] = {}
        for place, digest in enumerate(digests):
            if digest in self._rows:
                file, row = self._rows[digest]
                requests.setdefault(file, []).append((place, row))
        cached: dict[int, np.ndarray] = {}
        for file, pairs in requests.items():
            features = self._read(file)[1]
            cached |= {place: features[row] for place, row in pairs if row < len(features)}
        return cached

    def add(self, digests: Sequence[bytes], features: np.ndarray) -> None:
        """Add features (n, k). Write errors are ignored."""
        rows = np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), -1)
        name = hashlib.sha256(rows.tobytes()).hexdigest()[:32] + SUFFIX
        features = np.ascontiguousarray(features)
        with suppress(OSError, SafetensorError):
            if self.folder.is_symlink():
                return
            with atomic_path(self.folder / name) as part:
                metadata = {"sha256": _checksum(rows, features)}
                save_file({"digests": rows, "features": features}, part, metadata)
            self._index(self.folder / name)


def _checksum(digests: np.ndarray, features: np.ndarray) -> str:
    shapes = f"{digests.shape} {digests.dtype} {features.shape} {features.dtype}".encode()
    return hashlib.sha256(shapes + digests.tobytes() + features.tobytes()).hexdigest()
