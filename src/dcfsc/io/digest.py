"""What samples are known by: a digest of all of them, to which several processes can add."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.streamed import BLOCK_BYTES

BYTES = 32


def digest_of(X: Any, first: int = 0) -> int:
    """sum_i SHA-256(i, x_i) modulo 2^256, for the samples x_i of X (n, ...), i from ``first``.

    The digests of parts add up to that of the whole. Images that are not decoded yet are known by
    the bytes of their files.
    """
    total, step = 0, max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes))
    for start in range(0, len(X), step):
        if isinstance(X, StreamedImages):
            files = X.digests(start, min(start + step, len(X)))
            contents = [repr(X.reading).encode() + file for file in files]
        else:
            contents = [row.tobytes() for row in np.asarray(X[start : start + step])]
        for i, content in enumerate(contents, first + start):
            digest = hashlib.sha256(i.to_bytes(8, "little") + content).digest()
            total += int.from_bytes(digest, "little")
    return total % (1 << 8 * BYTES)


def digest_of_labels(y: np.ndarray | None) -> str | None:
    return None if y is None else f"{digest_of(y.astype(np.int64)):x}"
