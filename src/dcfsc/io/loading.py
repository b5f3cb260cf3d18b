"""``load``: samples from a path, or a small set by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import arrays, folders, images, shards, sparse_tables, tables, text_files, text_tables
from dcfsc.io import labels as label_files
from dcfsc.io.dataset import Dataset
from dcfsc.io.subspaces import synthetic
from dcfsc.io.table_columns import Wanted
from dcfsc.io.table_reading import TableReading

ARRAYS: dict[str, Callable[..., Dataset]] = {".npz": arrays.load_npz, ".mat": arrays.load_mat}
TABLES: dict[str, Callable[..., Dataset]] = {
    ".csv": text_tables.load_csv,
    ".tsv": text_tables.load_csv,
    ".xlsx": text_tables.load_workbook,
    ".jsonl": tables.load_json_lines,
    ".parquet": shards.load_parquet,
    ".mtx": sparse_tables.load_mtx,
    ".h5ad": sparse_tables.load_h5ad,
}


def load_digits() -> Dataset:
    """scikit-learn's handwritten digits, (1797, 8, 8) uint8 from 0 to 16; no file needed."""
    from sklearn.datasets import load_digits as sklearn_digits

    bunch = sklearn_digits()
    return Dataset("digits", bunch.images.astype(np.uint8), bunch.target.astype(np.int64))


NAMED: dict[str, Callable[..., Dataset]] = {"digits": load_digits, "synthetic": synthetic}
KINDS = (
    ".csv, .tsv, .xlsx, .jsonl, .parquet, .h5ad, .npy, .npz, .mat, .mtx, .txt or a folder of images"
)


def load(
    spec: Any,
    *,
    labels: str | None = None,
    id: str | None = None,
    text: str | None = None,
    columns: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    missing: str | None = None,
    transpose: bool = False,
    sample: int | None = None,
    seed: int = 0,
    size: tuple[int, int] | None = None,
    gray: bool | None = None,
    page: int | str | None = None,
    channels: Sequence[int] | None = None,
    strict: bool = False,
    reading: images.Reading | TableReading | None = None,
    **options: Any,
) -> Dataset:
    """Load samples from a file or a folder of images, or a small set by its name.

    Samples of more than 1 GiB in an .npy or .parquet file or a folder of images are not read: X is
    then a :class:`Streamed`, whose slices are read from disk when they are used. Images with their
    channels last, (n, h, w, 3), become (n, 3, h, w).

    Parameters
    ----------
    spec : str, Path or data frame
        A path to .csv, .tsv, .xlsx, .jsonl, .parquet, .h5ad, .mtx, .npy, .npz, .mat, .txt or a
        folder of images, "digits" or "synthetic"; or a table of pandas, polars or Arrow. A name
        goes before a file of that name: write ./digits for a folder digits.
    labels : str, optional
        Where the labels are: a column of a table, an array of an .npz or .mat; for any of these,
        and for .npy and folders, also the path of a .csv with labels, which is matched by a column
        of ids or paths where the samples have them, or else of a .csv or .npy in the samples'
        order. By default an array or column called y, label, labels, class, gnd or target; "none"
        for no labels (such a column is then a feature). In a folder of images "folders" takes the
        first sub-folder on the way to an image.
    id : str, optional
        The column of a table that names the samples.
    text : str, optional
        The column of a table whose texts are the samples. Rows without a text are left out.
    columns, ignore : str or list of str, optional
        The columns of a table to cluster, and to leave out, by name or by pattern, as in "x_*".
        By default all columns of numbers, or one of vectors.
    missing : "drop-rows" or "median", optional
        Leave rows with missing values out, or fill in the medians of the columns. By default
        missing values are an error.
    transpose : bool
        The rows of the table are features, as genes are, and its columns samples.
    sample : int, optional
        Take only so many samples at random. Of .parquet files, and of folders of shards, random
        row groups are read, some of every shard; ``notes`` says how many.
    seed : int
        Of the random sample.
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
    reading : Reading or TableReading, optional
        Read a folder of images in just this way, each file when it is used; or a table, as another
        one was read.
    **options
        For "synthetic" the parameters of :func:`synthetic`; for .npz and .mat ``key``, the array of
        the samples; for tables ``header`` (bool).
    """
    size = images.check_size(size)
    again = reading if isinstance(reading, TableReading) else None
    wanted = Wanted(labels, id, text, columns, ignore, missing, transpose, again)
    outside = replace(wanted, labels=arrays.NO_LABELS)  # where a file has the labels
    if not isinstance(spec, str | Path):
        if (label_file := label_files.file_of(labels or "")) is None:
            return tables.load_frame(spec, wanted)
        return label_files.with_labels(tables.load_frame(spec, outside), label_file)
    named = isinstance(spec, str) and spec in NAMED
    path = Path(spec).expanduser()
    if sample is not None and sample < 1:
        raise InputError(f"sample={sample} is not allowed: a number of rows of at least 1.")
    try:
        files = [] if named else shards.shard_files(path)
    except OSError as error:
        raise _cannot_read(spec, error) from None
    if sample is not None and path.suffix.lower() == ".parquet" and path.is_file():
        files = [path]
    first = (files or [path])[0]
    if named or first.suffix.lower() not in TABLES:
        wanted.refuse(spec)
    shown = reading if isinstance(reading, images.Reading) else None
    how = {"page": page, "channels": channels, "strict": strict}
    if not named and not files and path.is_dir():
        options |= {**how, "size": size, "gray": gray, "labels": labels, "reading": shown}
    elif given := [
        name for name, value in {"gray": gray, "color": gray is False, **how}.items() if value
    ]:
        raise InputError(
            f"{given[0]} is for folders of images, and has no effect on {spec}; leave it out."
        )
    try:
        label_file = None if named else _label_file(first, labels)
        inside = wanted if label_file is None else outside
        if files:
            where = path if path.is_dir() else path.parent
            name = path if path.is_file() else where.resolve().name
            data = _call(shards.load_shards, path, options, name, files, inside, sample, seed)
        else:
            data = (_load_named if named else _load)(path, inside, options)
        if label_file is not None:
            data = label_files.with_labels(data, label_file)
        if data.X.ndim > 3:
            data = replace(data, X=images.channels_first(data.X, str(path)))
        data = data if files else shards.take(data, sample, seed)
    except OSError as error:
        raise _cannot_read(spec, error) from None
    if data.reading is None:  # neither files of images nor a table
        if size is None and shown is not None and data.X.ndim > 2:
            size = shown.size
        if size is not None:
            X = images.resize(data.X, size, str(spec))
            data = replace(data, X=X, reading=images.Reading(size))
    elif size is not None and isinstance(data.reading, TableReading):
        images.resize(data.X, size, str(spec))  # says that it is for images
    return replace(data, y=None, label_names=None) if labels == arrays.NO_LABELS else data


def _cannot_read(spec: object, error: OSError) -> InputError:
    return InputError(f"cannot read {error.filename or spec}: {error.strerror or error}.")


def _load_named(path: Path, wanted: Wanted, options: dict[str, Any]) -> Dataset:
    name = str(path)
    if wanted.labels not in (None, arrays.NO_LABELS):
        raise InputError(
            f"labels={wanted.labels!r} is for files; the dataset {name!r} has its own."
        )
    return _call(NAMED[name], name, options)


def _load(path: Path, wanted: Wanted, options: dict[str, Any]) -> Dataset:
    if not path.exists():
        close = get_close_matches(str(path), NAMED, 1, 0.7)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"no such file or folder: {path}.{hint} Give the path of {KINDS}, or the name of a "
            f"dataset: {' or '.join(NAMED)}."
        )
    kind = path.suffix.lower()
    if path.is_dir():
        return _call(folders.load_folder, path, options, path)
    if not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder; give {KINDS}.")
    if kind == ".npy":
        return _call(arrays.load_npy, path, options, path)
    if kind == ".txt":
        return _call(text_files.load_txt, path, options, path)
    if kind == ".npz" and arrays.is_sparse(path):
        return sparse_tables.load_sparse_npz(path)
    if kind in ARRAYS:
        return _call(ARRAYS[kind], path, {"labels": wanted.labels, **options}, path)
    if kind in TABLES:
        return _call(TABLES[kind], path, options, path, wanted)
    if kind in images.suffixes():
        raise InputError(
            f"{path} is a single image; give the folder that the images are in, such as "
            f"{path.parent}."
        )
    raise InputError(f"{path}: dcfsc does not read files of this kind; give {KINDS}.")


def _label_file(path: Path, labels: str | None) -> Path | None:
    """The file that ``labels`` names, if it is not a column or an array of ``path`` itself."""
    if labels is None or labels == arrays.NO_LABELS:
        return None
    if (file := label_files.file_of(labels)) is not None:
        return file
    if path.is_dir() and labels == folders.FOLDERS:
        return None
    if path.is_dir() or (path.is_file() and path.suffix.lower() in (".npy", ".txt")):
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
            takes = f"it also takes {', '.join(sorted(public))}" if public else "see help(load)"
            raise InputError(f"{what}: unknown option {name!r}; {takes}.")
    return function(*args, **options)
