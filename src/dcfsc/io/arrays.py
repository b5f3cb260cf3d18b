"""Array files: .npy (memory-mapped; large ones streamed), .npz and .mat; never unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import streamed
from dcfsc.io.dataset import Dataset, damage_in_one_line, encode_labels, refuse_bomb
from dcfsc.io.mat5 import read_mat5

FEATURE_KEYS = ("X", "images", "data", "fea", "features", "x", "Y", "Z")
LABEL_KEYS = ("y", "label", "labels", "class", "classes", "gnd", "target")
NO_LABELS = "none"


def read_npy(path: Path) -> np.ndarray:
    """The array of an .npy file, memory-mapped: it is read when it is used."""
    _check_magic(path, b"\x93NUMPY", ".npy")
    with damage_in_one_line(path):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def _check_magic(path: Path, magic: bytes, suffix: str) -> None:
    """A file of another kind is named as such before numpy takes it for a pickle."""
    with path.open("rb") as file:
        head = file.read(len(magic))
    if head != magic:
        kind = {b"\x93N": "an .npy file", b"PK": "an .npz archive"}.get(head[:2])
        remedy = f"it is {kind}, rename it" if kind else "it is damaged or of another kind"
        raise InputError(f"cannot read {path} as {suffix}: {remedy}.")


def load_npy(path: Path) -> Dataset:
    mapped = read_npy(path)
    if mapped.nbytes > streamed.STREAM_BYTES:
        return Dataset(path.stem, numeric(streamed.stream_npy(path), str(path)))
    return Dataset(path.stem, numeric(mapped, str(path)))


def is_sparse(path: Path) -> bool:
    """Whether an .npz file is a sparse matrix of SciPy's, as its arrays tell."""
    with damage_in_one_line(path):
        return zipfile.is_zipfile(path) and {"format", "shape", "data"} <= _npz_headers(path).keys()


def load_npz(path: Path, *, labels: str | None = None, key: str | None = None) -> Dataset:
    _check_magic(path, b"PK\x03\x04", ".npz")
    with damage_in_one_line(path), np.load(path, allow_pickle=False) as archive:
        headers = _npz_headers(path)
        shapes = {name: header.shape for name, header in headers.items()}
        feature_key, label_key = choose_keys(shapes, path, labels, key)
        header = headers[feature_key]
        if not header.dtype.hasobject:
            remedy = f"unzip it and give {feature_key}.npy, which is read in parts"
            streamed.require_room(f"{path}[{feature_key}]", header.nbytes, remedy)
        X = archive[feature_key]
        values = None
        if label_key is not None:
            streamed.require_room(f"{path}[{label_key}]", headers[label_key].nbytes)
            values = archive[label_key]
    y, names = (None, None) if values is None else encode_labels(values, path)
    return Dataset(path.stem, numeric(X, f"{path}[{feature_key}]"), y, label_names=names)


def _npz_headers(path: Path) -> dict[str, streamed.NpyHeader]:
    """The members' headers alone, so that unused arrays are never decompressed."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                refuse_bomb(f"{path}[{info.filename}]", info.compress_size, info.file_size)
                headers[info.filename.removesuffix(".npy")] = streamed.member_header(archive, info)
    return headers


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """The numeric arrays of a MATLAB file of version 5 to 7."""
    arrays = {}
    with damage_in_one_line(path):
        for name, value in read_mat5(path):
            if not isinstance(value, np.ndarray):
                value = _dense(value, f"{path}[{name}]")
            if value.dtype.kind in "biuf" and value.size > 1:
                arrays[name] = value
    return arrays


def load_mat(path: Path, *, labels: str | None = None, key: str | None = None) -> Dataset:
    """Samples and labels of a .mat file; the keys are guessed where they are not given.

    Matrices with samples in columns (d x n), as the field's MATLAB code has them, are recognized
    by the number of labels and transposed.
    """
    arrays = read_mat(path)
    shapes = {name: array.shape for name, array in arrays.items()}
    feature_key, label_key = choose_keys(shapes, path, labels, key)
    X = numeric(arrays[feature_key], f"{path}[{feature_key}]")
    y, names = (None, None) if label_key is None else encode_labels(arrays[label_key], path)
    notes = ""
    if y is not None and X.ndim == 2 and len(X) != len(y) == X.shape[1]:
        X = np.ascontiguousarray(X.T)
        notes = f"{feature_key} holds samples in columns and was transposed"
    return Dataset(path.stem, X, y, label_names=names, notes=notes)


def choose_keys(
    shapes: Mapping[str, tuple[int, ...]], path: Path, labels: str | None, key: str | None
) -> tuple[str, str | None]:
    listing = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "no arrays"
    for name in (key, labels):
        if name is not None and name not in shapes and name != NO_LABELS:
            raise InputError(f"{path} has no array {name!r}; it holds {listing}.")
    label_key = labels if labels in shapes else None
    samples = [
        name
        for name, shape in shapes.items()
        if name != label_key and len(shape) >= 2 and max(shape) != np.prod(shape)
    ]
    if key is None:
        known = [name for name in FEATURE_KEYS if name in samples]
        # a label's name on a matrix is no label: 'Y' or 'target' may well hold the samples
        others = [name for name in samples if name not in LABEL_KEYS]
        if len(known) == 1 or (known and known[0] == "X"):
            key = known[0]
        elif not known and len(others) == 1:
            key = others[0]
        else:
            raise InputError(
                f"{path} holds {listing}: it is not clear which array has the samples; "
                "save it as X, or in Python pass key='NAME'."
            )
    if labels is None:
        vectors = [n for n, s in shapes.items() if len(s) > 0 and max(s) == np.prod(s) > 1]
        guesses = (*LABEL_KEYS, "Y") if key != "Y" else LABEL_KEYS
        named = [n for n in guesses if n in vectors and n != key]
        if len(named) > 1:
            raise InputError(
                f"{path} holds {listing}: it is not clear whether {' or '.join(named)} has the "
                "labels; name it with labels='NAME' (--labels NAME)."
            )
        label_key = named[0] if named else None
    return key, label_key


def numeric(X: Any, source: str) -> Any:
    """X if its entries are real numbers (booleans become uint8), else the error that says so."""
    if X.dtype.kind == "b":
        return X.astype(np.uint8)
    if X.dtype.kind not in "iuf":
        kind = {"c": "complex numbers", "U": "text", "S": "text", "O": "Python objects"}
        raise InputError(
            f"{source} holds {kind.get(X.dtype.kind, X.dtype)}, not real numbers; save a numeric "
            "array."
        )
    return X


def _dense(matrix: Any, source: str) -> np.ndarray:
    streamed.require_room(source, math.prod(matrix.shape) * matrix.dtype.itemsize)
    matrix.tocsc().check_format(full_check=True)
    return matrix.toarray()
