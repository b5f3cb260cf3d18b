"""Features that were computed before, on disk: by the content of a sample and by who made them.

A cache is a folder with one file for each chunk that was added: digests (n, 32) and features
(n, k). Files are written whole or not at all, and never changed, so that any number of processes
may read and add. What is damaged is passed over, and made again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from dcfsc.datasets.streamed import cache_folder
from dcfsc.files import atomic_path

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
        with suppress(OSError, SafetensorError, KeyError, ValueError):
            for row, digest in enumerate(load_file(file)["digests"]):
                self._known[digest.tobytes()] = file, row

    def get(self, digests: Sequence[bytes]) -> dict[int, np.ndarray]:
        """Features (k,) of those samples that have some, by their place in ``digests``."""
        wanted: dict[Path, list[tuple[int, int]]] = {}
        for place, digest in enumerate(digests):
            if digest in self._known:
                file, row = self._known[digest]
                wanted.setdefault(file, []).append((place, row))
        found: dict[int, np.ndarray] = {}
        for file, pairs in wanted.items():
            with suppress(OSError, SafetensorError, KeyError, IndexError):
                features = load_file(file)["features"]
                found |= {place: features[row] for place, row in pairs}
        return found

    def add(self, digests: Sequence[bytes], features: np.ndarray) -> None:
        """Keep features (n, k); a disk that takes none is no reason to stop."""
        rows = np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), -1)
        name = hashlib.sha256(rows.tobytes()).hexdigest()[:32] + SUFFIX
        with suppress(OSError, SafetensorError):
            with atomic_path(self.folder / name) as part:
                save_file({"digests": rows, "features": np.ascontiguousarray(features)}, part)
            self._index(self.folder / name)
