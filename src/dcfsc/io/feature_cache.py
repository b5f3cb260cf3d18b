"""Features that were computed before, on disk: by the content of a sample and by who made them.

A cache is a folder with one file for each chunk that was added: digests (n, 32) and features
(n, k). Files are written whole or not at all, and never changed, so that any number of processes
may read and add. What is damaged, or not as it was written, is passed over, and made again.
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
    """Where features are kept unless said otherwise."""
    return cache_folder() / "features"


class FeatureCache:
    """The features that a maker, told by its name, has made of samples, told by their digests."""

    def __init__(self, place: str | os.PathLike[str], maker: str):
        self.folder = Path(place).expanduser() / re.sub(r"[^\w.-]", "-", maker)
        self._known: dict[bytes, tuple[Path, int]] = {}
        with suppress(OSError):
            for file in sorted(self.folder.glob(f"*{SUFFIX}")):
                self._index(file)

    def _index(self, file: Path) -> None:
        for row, digest in enumerate(self._read(file)[0]):
            self._known[digest.tobytes()] = file, row

    def _read(self, file: Path) -> tuple[np.ndarray, np.ndarray]:
        """Digests (n, 32) and features (n, k) of a file as it was written; else none."""
        with suppress(OSError, SafetensorError, KeyError, ValueError, TypeError):
            if self.folder.is_symlink() or file.is_symlink() or not file.is_file():
                raise ValueError("it would be read from elsewhere")
            with safe_open(file, framework="np") as opened:
                digests, features = opened.get_tensor("digests"), opened.get_tensor("features")
                whole = (opened.metadata() or {})["sha256"] == _checksum(digests, features)
            if whole and len(digests) == len(features) and features.dtype == np.float32:
                return digests, features
        told = f"{file} is not a cache as it was written; its features are computed again."
        warnings.warn(told, UserWarning, stacklevel=2)
        return np.empty((0, 32), np.uint8), np.empty((0, 0), np.float32)

    def get(self, digests: Sequence[bytes]) -> dict[int, np.ndarray]:
        """Features (k,) of those samples that have some, by their place in ``digests``."""
        wanted: dict[Path, list[tuple[int, int]]] = {}
        for place, digest in enumerate(digests):
            if digest in self._known:
                file, row = self._known[digest]
                wanted.setdefault(file, []).append((place, row))
        found: dict[int, np.ndarray] = {}
        for file, pairs in wanted.items():
            features = self._read(file)[1]
            found |= {place: features[row] for place, row in pairs if row < len(features)}
        return found

    def add(self, digests: Sequence[bytes], features: np.ndarray) -> None:
        """Keep features (n, k); a disk that takes none is no reason to stop."""
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
