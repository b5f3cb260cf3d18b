"""``load``: samples from a path, or a small set by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, unknown_name
from dcfsc.io import arrays, folders, images, tables, text_tables
from dcfsc.io.dataset import Dataset, encode_labels
from dcfsc.io.subspaces import synthetic

FILES: dict[str, Callable[..., Dataset]] = {
    ".npz": arrays.load_npz,
    ".mat": arrays.load_mat,
    ".csv": text_tables.load_csv,
    ".tsv": text_tables.load_csv,
    ".jsonl": tables.load_json_lines,
    ".parquet": tables.load_parquet,
}


def load_digits() -> Dataset:
    """scikit-learn's handwritten digits, (1797, 8, 8) uint8 from 0 to 16; no file needed."""
    from sklearn.datasets import load_digits as sklearn_digits

    bunch = sklearn_digits()
    return Dataset("digits", bunch.images.astype(np.uint8), bunch.target.astype(np.int64))


NAMED: dict[str, Callable[..., Dataset]] = {"digits": load_digits, "synthetic": synthetic}
KINDS = ".npy, .npz, .mat, .csv, .tsv, .jsonl, .parquet or a folder of images"


def load(
    spec: str | Path,
    *,
    labels: str | None = None,
    size: tuple[int, int] | None = None,
    gray: bool | None = None,
    page: int | str | None = None,
    channels: Sequence[int] | None = None,
    strict: bool = False,
    reading: images.Reading | None = None,
    **options: Any,
) -> Dataset:
    """Load samples from a file or a folder of images, or a small set by its name.

    Samples of more than 1 GiB in an .npy or .parquet file or a folder of images are not read: X is
    then a :class:`Streamed`, whose slices are read from disk when they are used. Images with their
    channels last, (n, h, w, 3), become (n, 3, h, w).

    Parameters
    ----------
    spec : str or Path
        A path to .npy, .npz, .mat, .csv, .tsv, .jsonl, .parquet or a folder of images, "digits" or
        "synthetic". A name goes before a file of that name: write ./digits for a folder digits.
    labels : str, optional
        Where the labels are: a column of a table, an array of an .npz or .mat; for any of these,
        and for .npy and folders, also the path of an .npy or .csv with one label a sample. By
        default an array or column called y, label, labels, gnd or target; "none" for no labels
        (such a column is then a feature). In a folder of images "folders" takes the first
        sub-folder on the way to an image.
    size : (height, width), optional
        Bring images to this size (bicubic). Without it a folder whose images differ in size, or
        have more than 4,096 values, is read at a working size of at most 1,024 pixels
        (:mod:`dcfsc.io.working_size`).
    gray : bool, optional
        Read folders of images in gray, (n, h, w), or in color, (n, 3, h, w). Without it in color
        if any image has some, as up to 32 images of the folder show.
    page : int or "all", optional
        The page of image files that have several, counted from 1; by default the first. The pages
        of "all" are channels.
    channels : sequence of int, optional
        Read these channels, counted from 1, in place of gray or color: (n, channels, h, w).
    strict : bool
        Raise an error for a broken image. By default such images are left out, with a warning;
        each file is then decoded once to see.
    reading : Reading, optional
        Read a folder of images in just this way, each file when it is used; for encoders.
    **options
        For "synthetic" the parameters of :func:`synthetic`; for .npz and .mat ``key``, the array of
        the samples; for tables ``header`` (bool).
    """
    size = images.check_size(size)
    named = isinstance(spec, str) and spec in NAMED
    path = Path(spec).expanduser()
    how = {"page": page, "channels": channels, "strict": strict}
    if not named and path.is_dir():
        options |= {**how, "size": size, "gray": gray, "labels": labels, "reading": reading}
    elif given := [
        name for name, value in {"gray": gray, "color": gray is False, **how}.items() if value
    ]:
        raise InputError(f"{given[0]} is for folders of images, and has no effect on {spec}.")
    try:
        data = _load_named(str(spec), labels, options) if named else _load(path, labels, options)
    except OSError as error:
        where = error.filename or spec
        raise InputError(f"cannot read {where}: {error.strerror or error}.") from None
    if data.reading is None:  # no files of images
        if size is None and reading is not None and data.X.ndim > 2:
            size = reading.size
        if size is not None:
            X = images.resize(data.X, size, str(spec))
            data = replace(data, X=X, reading=images.Reading(size))
    return replace(data, y=None, label_names=None) if labels == arrays.NO_LABELS else data


def _load_named(name: str, labels: str | None, options: dict[str, Any]) -> Dataset:
    if labels not in (None, arrays.NO_LABELS):
        raise InputError(f"labels={labels!r} is for files; the dataset {name!r} has its own.")
    return _call(NAMED[name], name, options)


def _load(path: Path, labels: str | None, options: dict[str, Any]) -> Dataset:
    if not path.exists():
        raise InputError(
            f"no such file or folder: {path}. Give the path of {KINDS}, or the name of a dataset: "
            f"{unknown_name('dataset', path, NAMED)}"
        )
    label_file = _label_file(path, labels)
    kind = path.suffix.lower()
    if path.is_dir():
        data = _call(folders.load_folder, path, options, path)
    elif not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder; give {KINDS}.")
    elif kind == ".npy":
        data = _call(arrays.load_npy, path, options, path)
    elif kind in FILES:
        inside = arrays.NO_LABELS if label_file else labels
        data = _call(FILES[kind], path, {"labels": inside, **options}, path)
    elif kind in images.suffixes():
        raise InputError(
            f"{path} is a single image; give the folder that the images are in, such as "
            f"{path.parent}."
        )
    else:
        raise InputError(f"{path}: dcfsc does not read files of this kind; give {KINDS}.")
    if label_file:
        if label_file.suffix.lower() == ".npy":
            values = arrays.read_npy(label_file)
        else:
            values = text_tables.read_label_column(label_file, len(data))
        y, label_names = encode_labels(values, label_file)
        data = replace(data, y=y, label_names=label_names)
    return replace(data, X=images.channels_first(data.X, str(path)))


def _label_file(path: Path, labels: str | None) -> Path | None:
    """The file that ``labels`` names, if it is not a column or an array of ``path`` itself."""
    if labels is None or labels == arrays.NO_LABELS:
        return None
    file = Path(labels).expanduser()
    if file.suffix.lower() in (".npy", ".csv", ".tsv") and file.is_file():
        return file
    if path.is_dir() and labels == folders.FOLDERS:
        return None
    if path.is_dir() or path.suffix.lower() == ".npy":
        raise InputError(
            f"labels={labels!r} is not a file; for {path} give the path of an .npy or .csv file "
            f"with one label per sample{', or folders' if path.is_dir() else ''}."
        )
    return None


def _call(
    function: Callable[..., Dataset], what: object, options: dict[str, Any], *args: Any
) -> Dataset:
    """Call a loader with the options that it takes; any other is an error that lists them."""
    parameters = inspect.signature(function).parameters.values()
    known = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY or not args}
    for name in options:
        if name not in known:
            public = known - {"size", "gray", "page", "channels", "strict", "reading", "labels"}
            takes = f"it takes {', '.join(sorted(public))}" if public else "it takes none"
            raise InputError(f"{what}: unknown option {name!r}; {takes}.")
    return function(*args, **options)
