"""What samples are known by: a digest of all of them, to which several processes can add."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dcfsc.datasets.image_stream import StreamedImages
from dcfsc.datasets.streamed import BLOCK_BYTES

BYTES = 32
GROUP = 1_024  # samples digested together, where no other process has some of them


def digest_of(X: Any, first: int = 0, group: int = 1) -> int:
    """sum_i SHA-256(i, x_i) modulo 2^256, for the samples x_i of X (n, ...), i from ``first``.

    The digests of parts add up to that of the whole. A ``group`` of samples may stand for one,
    which is faster. Images that are not decoded yet are known by the bytes of their files.
    """
    total = 0
    groups = max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes * group))
    for start in range(0, len(X), groups * group):
        stop = min(start + groups * group, len(X))
        if isinstance(X, StreamedImages):
            known = [repr(X.reading).encode() + file for file in X.digests(start, stop)]
            rows = np.frombuffer(b"".join(known), np.uint8).reshape(len(known), -1)
        else:
            rows = np.asarray(X[start:stop])
        for i in range(start, stop, group):
            part = slice(i - start, i - start + group)
            digest = hashlib.sha256((first + i).to_bytes(8, "little"))
            digest.update(rows[part].tobytes())
            total += int.from_bytes(digest.digest(), "little")
    return total % (1 << 8 * BYTES)


def digest_of_labels(y: np.ndarray | None) -> str | None:
    """A digest of labels (n,), or None of none."""
    return None if y is None else f"{digest_of(np.asarray(y, np.int64), group=GROUP):x}"
