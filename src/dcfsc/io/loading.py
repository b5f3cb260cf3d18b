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
from dcfsc.io.table_reading import TableReading

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
    id: str | None = None,
    columns: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    missing: str | None = None,
    transpose: bool = False,
    size: tuple[int, int] | None = None,
    gray: bool | None = None,
    skip_broken: bool = False,
    reading: images.Reading | TableReading | None = None,
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
        default an array or column called y, label, labels, gnd or target, and in a folder of
        images the sub-folders; "none" for no labels (such a column is then a feature).
    id : str, optional
        The column of a table that names the samples.
    columns, ignore : str or list of str, optional
        The columns of a table to cluster, and to leave out, by name or by pattern, as in "x_*".
        By default all columns of numbers, or one of vectors.
    missing : "drop-rows" or "median", optional
        Leave rows with missing values out, or fill in the medians of the columns. By default
        missing values are an error.
    transpose : bool
        The rows of the table are features, as genes are, and its columns samples.
    size : (height, width), optional
        Bring images to this size (bicubic). Without it a folder whose images differ in size, or
        have more than 4,096 values, is read at a working size of at most 1,024 pixels
        (:mod:`dcfsc.io.working_size`).
    gray : bool, optional
        Read folders of images in gray, (n, h, w), or in color, (n, 3, h, w). Without it in color
        if any image has some, as up to 32 images of the folder show.
    skip_broken : bool
        Leave broken images of a folder out, with a warning.
    reading : Reading or TableReading, optional
        Read a folder of images in just this way, each file when it is used; or a table, as another
        one was read.
    **options
        For "synthetic" the parameters of :func:`synthetic`; for .npz and .mat ``key``, the array of
        the samples; for tables ``header`` (bool).
    """
    size = images.check_size(size)
    table = {"id": id, "columns": columns, "ignore": ignore, "missing": missing}
    options |= {name: value for name, value in table.items() if value is not None}
    options |= {"transpose": True} if transpose else {}
    named = isinstance(spec, str) and spec in NAMED
    path = Path(spec).expanduser()
    if not named and path.is_dir():
        options |= {"size": size, "gray": gray, "skip_broken": skip_broken}
        options["reading"] = reading if isinstance(reading, images.Reading) else None
    elif gray is not None or skip_broken:
        name = "skip_broken" if gray is None else "gray" if gray else "color"
        raise InputError(f"{name} is for folders of images, and has no effect on {spec}.")
    try:
        data = _load_named(str(spec), labels, options) if named else _load(path, labels, options)
    except OSError as error:
        where = error.filename or spec
        raise InputError(f"cannot read {where}: {error.strerror or error}.") from None
    if data.reading is None:  # no files of images
        if size is None and isinstance(reading, images.Reading) and data.X.ndim > 2:
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
            f"{unknown_name('dataset', path, NAMED)} No file or folder has that name either; a "
            f"path to {KINDS} works too."
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
    if path.is_dir() or path.suffix.lower() == ".npy":
        raise InputError(
            f"labels={labels!r} is not a file; for {path} give the path of an .npy or .csv file "
            "with one label per sample."
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
            public = known - {"size", "gray", "skip_broken", "reading", "labels"}
            takes = f"it takes {', '.join(sorted(public))}" if public else "it takes none"
            raise InputError(f"{what}: unknown option {name!r}; {takes}.")
    return function(*args, **options)
