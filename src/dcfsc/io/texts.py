"""Texts as samples: a sequence of str, checked entry by entry."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dcfsc.errors import InputError


def texts_of(X: Any) -> list[str]:
    """X as a list of texts, if it is a sequence of them."""
    sequence = hasattr(X, "__len__") and hasattr(X, "__getitem__")
    if not sequence or isinstance(X, str | bytes | Mapping) or getattr(X, "ndim", 1) != 1:
        raise InputError(
            "X must be a list, an array or a Series of texts, one per sample; "
            f"got {type(X).__name__} {getattr(X, 'shape', '')}".rstrip()
            + "."
        )
    texts = X.to_pylist() if hasattr(X, "to_pylist") else list(X)
    if not texts:
        raise InputError("X has no texts.")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"X has {reprlib.repr(text)} in row {row} (counted from 0), which is not a text; "
                "leave such rows out, or give '' for them."
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"the text in row {row} (counted from 0) is not Unicode ({error.reason} at "
                f"character {error.start}); read its file in the encoding that it has."
            ) from None
    return [str(text) for text in texts]


def text_array(X: Any) -> np.ndarray:
    """A sequence of texts as an array (n,) of str."""
    texts = texts_of(X)
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
