"""What samples are known by: a digest of all of them, to which several processes can add."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.streamed import blocks

BYTES = 32


def digest_of(X: Any, first: int = 0) -> int:
    """sum_i SHA-256(i, x_i) modulo 2^256, for the samples x_i of X (n, ...), i from ``first``.

    The digests of parts add up to that of the whole. Images that are not decoded yet are known by
    the bytes of their files.
    """
    if isinstance(X, StreamedImages):
        reading = repr(X.reading).encode()
        contents: Iterable[bytes] = (reading + file for file in X.digests(0, len(X)))
    elif X.dtype.hasobject:  # texts
        contents = (text.encode() for text in X)
    else:
        contents = (row.tobytes() for _, block in blocks(X) for row in block)
    total = 0
    for i, content in enumerate(contents, first):
        digest = hashlib.sha256(i.to_bytes(8, "little") + content).digest()
        total += int.from_bytes(digest, "little")
    return total % (1 << 8 * BYTES)


def digest_of_labels(y: np.ndarray | None) -> str | None:
    return None if y is None else f"{digest_of(y.astype(np.int64)):x}"
