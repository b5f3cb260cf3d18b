"""What every loader returns: samples X with, where they are known, labels y."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, reason, writable
from dcfsc.io.images import Reading
from dcfsc.io.streamed import unmasked
from dcfsc.io.table_reading import TableReading
from dcfsc.io.texts import text_array

EXPANSION = 500  # deflate comes near a thousandth only where nearly all bytes are the same
HARMLESS_BYTES = 1 << 26  # however small its file


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples X and, if known, their classes y.

    Parameters
    ----------
    name : str
        The registered name, or the file's or folder's name.
    X : ndarray of shape (n, features), (n, h, w) or (n, c, h, w); of texts (n,)
        Images keep the type they are stored in (uint8): scaling is the estimator's business.
        Samples of more than a GiB are a :class:`dcfsc.io.Streamed`, which reads them from
        disk when it is sliced.
    y : int64 ndarray of shape (n,), or None
        Classes numbered from 0. They are used to score a clustering, never to find one.
    paths : list of str, or None
        The file that each sample came from, for folders of images.
    label_names : list of str, or None
        ``label_names[y[i]]`` is the label as the file spells it.
    feature_names : list of str, or None
        The columns of a table.
    notes : str
        What a reader of a number measured on these data must know.
    reading : Reading, TableReading or None
        How images were read, or resized, or a table's columns: what has to be done to new samples
        too.
    photographs : bool
        Whether they come from a folder of color photographs.
    folder : str or None
        The folder that all ``paths`` are in.
    ids : list of str, or None
        What names each sample: a table's column of ids.
    broken : tuple of str
        Images of the folder that could not be read, by their relative paths.
    """

    name: str
    X: Any
    y: np.ndarray | None = None
    paths: list[str] | None = None
    label_names: list[str] | None = None
    notes: str = ""
    feature_names: list[str] | None = None
    reading: Reading | TableReading | None = None
    photographs: bool = False
    folder: str | None = None
    ids: list[str] | None = None
    broken: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", writable(self.name))
        object.__setattr__(self, "X", unmasked(self.X, self.name))
        object.__setattr__(self, "y", unmasked(self.y, f"{self.name}: y"))
        object.__setattr__(self, "notes", writable(self.notes))
        object.__setattr__(self, "broken", tuple(map(writable, self.broken)))
        for field in ("paths", "label_names", "feature_names", "ids"):
            if (texts := getattr(self, field)) is not None:
                object.__setattr__(self, field, [writable(text) for text in texts])
        if self.X.ndim == 1 and self.X.dtype.kind in ("O", "U", "T"):
            object.__setattr__(self, "X", text_array(self.X))
        elif self.X.ndim not in (2, 3, 4):
            raise InputError(
                f"{self.name}: samples have shape {self.X.shape}; expected (n, features), "
                "(n, h, w) or (n, c, h, w)."
            )
        if 0 in self.X.shape:
            raise InputError(f"{self.name}: samples have shape {self.X.shape}, which is empty.")
        if self.y is not None and self.y.shape != (len(self.X),):
            raise InputError(
                f"{self.name}: {len(self.X)} samples but labels of shape {self.y.shape}; "
                "give one label for each sample."
            )
        if self.ids is not None and len(self.ids) != len(self.X):
            raise InputError(f"{self.name}: {len(self.X)} samples but {len(self.ids)} ids.")

    def __len__(self) -> int:
        return len(self.X)

    @property
    def relative_paths(self) -> list[str] | None:
        """The paths from ``folder`` on; as they are without one."""
        if self.paths is None or self.folder is None:
            return self.paths
        top = writable(self.folder)
        return [str(Path(path).relative_to(top)) for path in self.paths]

    @property
    def texts(self) -> list[str] | None:
        """The samples, where they are texts."""
        return self.X.tolist() if self.X.ndim == 1 else None

    @property
    def sample_names(self) -> list[str] | None:
        """What outputs call each sample: its id, else its relative path."""
        return self.relative_paths if self.ids is None else self.ids

    @property
    def n_classes(self) -> int | None:
        return None if self.y is None else len(np.unique(self.y))

    def __repr__(self) -> str:
        shape, kind = " x ".join(map(str, self.X.shape)), self.X.dtype
        classes = "no labels" if self.y is None else f"{self.n_classes} classes"
        return f"Dataset({self.name!r}, {shape} {'text' if self.X.ndim == 1 else kind}, {classes})"


def encode_labels(values: Any, source: str | Path) -> tuple[np.ndarray, list[str] | None]:
    """Labels as written -> (y int64 from 0, their names).

    Integers and integral floats are numbered in numerical order, strings in alphabetical order.
    Names are None when the labels already were 0 .. K-1.
    """
    labels = np.asarray(unmasked(values, str(source)))
    if labels.ndim > 1 and max(labels.shape) == labels.size:
        labels = labels.reshape(-1)  # MATLAB has no vectors: labels come as n x 1 or 1 x n
    if labels.ndim != 1:
        raise InputError(
            f"{source}: labels have shape {labels.shape}; give one label for each sample."
        )
    if labels.dtype.kind == "f":
        labels = _integral(labels, source)
    elif labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    elif labels.dtype.kind not in "iuUST":
        raise InputError(f"{source}: labels of type {labels.dtype} are neither integers nor text.")
    classes, y = np.unique(labels, return_inverse=True)
    y = y.reshape(-1).astype(np.int64)
    if classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes))):
        return y, None
    return y, [c.decode() if isinstance(c, bytes) else str(c) for c in classes]


def _integral(labels: np.ndarray, source: str | Path) -> np.ndarray:
    wrong = np.flatnonzero(~np.isfinite(labels) | (labels != np.round(labels)))
    if wrong.size:
        raise InputError(
            f"{source}: label {labels[wrong[0]]} of sample {wrong[0]} (counted from 0) is not a "
            "class; labels must be integers or text."
        )
    return labels.astype(np.int64)


@contextmanager
def damage_in_one_line(path: Path | str) -> Iterator[None]:
    """Around a parser of others: the many ways in which it fails on damaged bytes are one line."""
    try:
        yield
    except (InputError, OSError):
        raise
    except Exception as error:
        raise unreadable(path, error) from None


def unreadable(path: Path | str, error: Exception) -> InputError:
    if "Object arrays" in str(error) or "Python objects" in str(error):
        return InputError(
            f"{path} holds Python objects, which are not loaded because unpickling can run code; "
            "save a numeric array."
        )
    return InputError(f"cannot read {path}: {reason(error).rstrip('.')}.")


def refuse_bomb(source: Path | str, packed: int, size: int) -> None:
    """A few bytes that stand for more than memory has are not unpacked to see."""
    if size > HARMLESS_BYTES and size > EXPANSION * max(1, packed):
        raise InputError(
            f"{source} is {packed} bytes that expand to at least {size / 2**30:.2g} GiB, like a "
            "file made to exhaust memory; if this is intended, save it uncompressed, as .npy."
        )
