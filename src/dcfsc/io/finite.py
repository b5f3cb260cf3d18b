"""Whether samples hold real, finite numbers: decided here, for arrays and for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.streamed import Streamed, blocks


def unmasked(X: Any, name: str = "X") -> Any:
    """X itself, or the plain array of a NumPy masked array in which nothing is masked."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    count = int(np.ma.count_masked(X))
    if count:
        values = "a masked value" if count == 1 else f"{count} masked values"
        raise InputError(f"{name} has {values}; fill them in or leave those samples out.")
    return X.data


def check_finite(X: Any, name: str = "X", share: slice = slice(None), *, first: int = 0) -> None:
    """Refuse X (n, ...) with values that are not real numbers, or NaN, or infinite.

    X is read a block of rows at a time, so it may be larger than memory; samples on disk remember
    the rows that were checked, which are not read again. Only the rows of ``share`` are looked at;
    ``first`` is the number of X's first row where X is a part of something larger.
    """
    X = unmasked(X, name)
    if X.dtype.kind not in "biuf":
        raise InputError(f"{name} holds values of type {X.dtype}, not real numbers.")
    if X.dtype.kind != "f":
        return  # integers are finite: images in a folder need not be decoded to know it
    start, stop, _ = share.indices(len(X))
    if isinstance(X, Streamed) and X.is_checked(start, stop):
        return
    count, bad_row = 0, -1
    for begin, block in blocks(X, share):
        wrong = (~np.isfinite(block)).reshape(len(block), -1).sum(axis=1)
        if count == 0 and wrong.any():
            bad_row = first + begin + int(wrong.nonzero()[0][0])
        count += int(wrong.sum())
    if count:
        values = "a value that is" if count == 1 else f"{count} values that are"
        raise InputError(
            f"{name} has {values} NaN or infinity, the first in row {bad_row} (counted from 0); "
            "fill them in or leave those samples out."
        )
    if isinstance(X, Streamed):
        X.checked = range(start, stop)
