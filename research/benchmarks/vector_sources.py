"""Where the vector problems come from: each function here reads one kind of source.

Every reader returns (X, y): rows of numbers as they were recorded, and classes from 0.
"""

from __future__ import annotations

import csv
import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dcfsc.errors import InputError
from research.data import data_root, load

from .generated_problems import Samples
from .problems import (
    FOLDER,
    PROBLEMS,
    codes,
    downloaded,
    fashion,
    keel,
    member,
    part_of_each,
    time_series,
)

ENCODED_COLORS, ENCODED_CLOTHES, ENCODED_OBJECTS = 300, 200, 20  # a class; a class; objects


def problem(name: str) -> Samples:
    """One of the 38 benchmark problems, images with their pixels end to end."""
    X, y = PROBLEMS[name]()
    return X.reshape(len(X), -1), y


def texts(name: str) -> Samples:
    """Short texts through a sentence model (all-MiniLM-L6-v2)."""
    with np.load(data_root() / "texts" / f"{name}_minilm.npz") as file:
        return file["features"], file["labels"].astype(np.int64)


def counts(name: str) -> Samples:
    """Word counts of two kinds of newsgroup posts."""
    from scipy.io import loadmat

    table = loadmat(data_root() / "counts" / f"{name}.mat")
    X = table["X"]
    X = X.toarray() if hasattr(X, "toarray") else X
    return X.astype(np.float32), codes(table["Y"].ravel())


def scikit_learn(name: str) -> Samples:
    """A data set that scikit-learn carries."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y.astype(np.int64)


def hopkins(sequence: str) -> Samples:
    """The points of a video that move together: coordinates in all frames, end to end."""
    with np.load(data_root() / "hopkins155.npz") as file:
        X, y = file[f"{sequence}/x"], file[f"{sequence}/s"]
    return X.reshape(len(X), -1).astype(np.float32), codes(y)


def encoded(name: str) -> Samples:
    """Images through EfficientNet-Lite0: photographs, small photographs, objects or clothes.

    The features are computed once and saved beside the packages.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        raise InputError(f"set {FOLDER} to a folder, where the features of {name} are saved")
    path = Path(folder) / "features" / f"{name}_lite0.npz"
    if not path.exists():
        from dcfsc import EncoderFeatures

        images, y = _IMAGES[name]()
        X = EncoderFeatures(cache=None).fit_transform(images).astype(np.float16)
        path.parent.mkdir(exist_ok=True)
        np.savez_compressed(path, X=X, y=y)
    with np.load(path) as file:
        return file["X"], file["y"].astype(np.int64)


def _photographs() -> tuple[Sequence[str], np.ndarray]:
    data = load(data_root() / "photos")
    assert data.y is not None
    return data.paths, np.asarray(data.y)


def _small_photographs() -> Samples:
    from PIL import Image

    with np.load(data_root() / "cifar10_jpeg.npz") as file:
        packed, offsets, y = file["bytes"], file["offsets"], file["labels"]
    chosen = part_of_each(y, ENCODED_COLORS)
    images = []
    for i in chosen:
        file = io.BytesIO(packed[offsets[i] : offsets[i + 1]].tobytes())
        images.append(np.asarray(Image.open(file).convert("RGB")).transpose(2, 0, 1))
    return np.stack(images), y[chosen]


def _objects() -> Samples:
    with np.load(data_root() / "coil100_32x32.npz") as file:
        images, y = file["images"], file["labels"]
    chosen = np.random.default_rng(0).permutation(int(y.max()) + 1)[:ENCODED_OBJECTS]
    rows = np.isin(y, chosen)
    return images[rows], codes(y[rows])


def _clothes() -> Samples:
    images, y = fashion(each=ENCODED_CLOTHES)
    return np.round(images * 255).astype(np.uint8), y


_IMAGES = {
    "photos": _photographs,
    "cifar3000": _small_photographs,
    "coil": _objects,
    "fashion": _clothes,
}


def keel_table(name: str) -> Samples:
    """A table of the KEEL repository, as given."""
    return keel(name, raw=True)


def series(name: str, file: str | None = None) -> Samples:
    """Training and test series of the UCR and UEA archives."""
    return time_series(name, file)
