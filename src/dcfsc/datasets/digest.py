"""What samples are known by: a digest of all of them, to which several processes can add."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dcfsc.datasets.image_stream import StreamedImages
from dcfsc.datasets.streamed import BLOCK_BYTES

BYTES = 32
TOGETHER = 1 << 20  # bytes of samples that are digested as one where no other process has some


def digest_of(X: Any, first: int = 0, together: bool = False) -> int:
    """sum_i SHA-256(i, x_i) modulo 2^256, for the samples x_i of X (n, ...), i from ``first``.

    The digests of parts add up to that of the whole. With ``together`` several samples count as
    one, which is faster. Images that are not decoded yet are known by the bytes of their files.
    """
    total, size = 0, max(1, X.nbytes // max(1, len(X)))
    group = max(1, TOGETHER // size) if together else 1
    step = group * max(1, BLOCK_BYTES // (size * group))
    for start in range(0, len(X), step):
        if isinstance(X, StreamedImages):
            files = X.digests(start, min(start + step, len(X)))
            rows = np.array([list(repr(X.reading).encode() + file) for file in files], np.uint8)
        else:
            rows = np.asarray(X[start : start + step])
        for i in range(0, len(rows), group):
            content = (start + first + i).to_bytes(8, "little") + rows[i : i + group].tobytes()
            total += int.from_bytes(hashlib.sha256(content).digest(), "little")
    return total % (1 << 8 * BYTES)


def digest_of_labels(y: np.ndarray | None) -> str | None:
    """A digest of labels (n,), or None of none."""
    return None if y is None else f"{digest_of(np.asarray(y, np.int64), together=True):x}"
