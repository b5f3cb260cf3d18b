"""Tables of typed columns, .parquet and .jsonl, read with Arrow; one row a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import streamed
from dcfsc.io.arrays import LABEL_KEYS, NO_LABELS
from dcfsc.io.dataset import Dataset, damage_in_one_line, encode_labels, refuse_bomb, unreadable

# what pandas calls a data frame's index when it reads or writes it as a column
INDEX = re.compile(r"|Unnamed: 0(\.\d+)?")
INDEX_NOTE = "the row numbers in the unnamed first column were left out"


def load_parquet(path: Path, *, labels: str | None = None) -> Dataset:
    """Read numeric columns, or one column whose cells are vectors of one length.

    Large tables are streamed by their row groups.
    """
    import pyarrow.parquet as pq

    with arrow_errors(path):
        file = pq.ParquetFile(path)
        _refuse_long_runs(path, file.metadata)
        # the row names that pandas stores beside the columns
        names = file.schema_arrow.names
        columns = [c for c in names if not re.fullmatch(r"__index_level_\d+__", c)]

        def stream(features: list[str]) -> ParquetRows:
            return ParquetRows(path, file, features)

        return _dataset(path, columns, file.metadata.num_rows, file.read, labels, stream)


def load_json_lines(path: Path, *, labels: str | None = None) -> Dataset:
    """Read one JSON object a line: numbers, or one vector of numbers, and the label."""
    from pyarrow import json

    streamed.require_room(str(path), path.stat().st_size)
    with arrow_errors(path):
        table = json.read_json(path, json.ReadOptions(block_size=1 << 24))
        return _dataset(path, table.column_names, table.num_rows, table.select, labels)


def _dataset(
    path: Path,
    columns: list[str],
    n: int,
    read: Callable[[list[str]], Any],
    labels: str | None,
    stream: Callable[[list[str]], ParquetRows] | None = None,
) -> Dataset:
    label = label_column(columns, labels, path)
    features = [c for i, c in enumerate(columns) if i != label]
    notes = []
    unnamed = len(features) > 1 and INDEX.fullmatch(features[0])
    if unnamed and is_index(read(features[:1]).column(0).to_numpy()):
        features = features[1:]
        notes.append(INDEX_NOTE)
    if not features or n == 0:
        raise InputError(f"{path} holds {n} rows of {len(features)} feature columns.")
    X: Any = None
    if stream and (8 * n * len(features) > streamed.STREAM_BYTES or len(features) == 1):
        X = stream(features)
    y, names = None, None
    if label is not None:
        y, names = _labels(read([columns[label]]).column(0), columns[label], path)
        notes.append(f"labels from column {columns[label]!r}")
    if X is None or X.nbytes <= streamed.STREAM_BYTES:
        X = _matrix(read(features), features, path)
    return Dataset(
        path.stem,
        X,
        y,
        label_names=names,
        notes="; ".join(notes),
        feature_names=features if X.shape[1:] == (len(features),) else None,
    )


def is_index(values: np.ndarray) -> bool:
    """Whether a first column that :data:`INDEX` names is one: whole numbers, each of them once."""
    whole = values.dtype.kind in "iuf" and np.isfinite(values).all() and (values == np.rint(values))
    return len(np.unique(values)) == len(values) and bool(np.all(whole))


def label_column(columns: Sequence[str], labels: str | None, path: Path) -> int | None:
    """The place of the label column: ``labels`` by its name, or the one with a label's name."""
    if labels is None:
        guesses = [i for i, c in enumerate(columns) if c.lower() in LABEL_KEYS]
        if len(guesses) > 1:
            names = [columns[i] for i in guesses]
            remedy = "pass labels='NAME' (--labels NAME)" if len({*names}) > 1 else "rename them"
            raise InputError(
                f"{path} has {len(names)} columns that may be the labels, "
                f"{' and '.join(map(repr, names))}; {remedy}."
            )
        return guesses[0] if guesses else None
    if labels in columns:
        return list(columns).index(labels)
    if labels == "-1":
        return len(columns) - 1
    if labels == NO_LABELS:
        return None
    shown = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
    raise InputError(f"{path} has no column {labels!r}; its columns: {shown}.")


@contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Arrow's errors, some of which are the system's by type alone, as one line."""
    try:
        with damage_in_one_line(path):
            yield
    except OSError as error:
        raise unreadable(path, error) from None


def _refuse_long_runs(path: Path, metadata: Any) -> None:
    """A run of equal values takes a few bytes, however long it is.

    What the file says of its columns one by one is not asked for: where it is damaged, Arrow ends
    the process.
    """
    encoded = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
    packed = min(path.stat().st_size, max(0, encoded))  # the rest may be padding
    refuse_bomb(path, packed, 8 * metadata.num_rows * metadata.num_columns)


class ParquetRows(streamed.Streamed):
    """The feature columns of a table, read a row group at a time; the last one read is kept.

    Missing cells make integers floats. They are known from the file's statistics; columns without
    statistics are taken to have some.
    """

    def __init__(self, path: Path, file: Any, features: Sequence[str]):
        import pyarrow as pa

        self._path, self._file, self._features = path, file, list(features)
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        first = pa.table(next(file.iter_batches(batch_size=1, columns=self._features)))
        if _is_vector(first, features):
            vector = _matrix(first, features, path)
            width, dtype = vector.shape[1], vector.dtype
        else:
            missing = [name for name in features if self._may_miss(name)]
            width, dtype = len(features), _common_type(first, features, path, missing)
        super().__init__(str(path), (file.metadata.num_rows, width), dtype)
        self._group: tuple[int, np.ndarray] | None = None

    def _may_miss(self, name: str) -> bool:
        metadata = self._file.metadata
        if not self._file.schema_arrow.field(name).nullable:
            return False
        places = {metadata.schema.column(j).path: j for j in range(metadata.num_columns)}
        for g in range(metadata.num_row_groups):
            statistics = metadata.row_group(g).column(places[name]).statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                return True
        return False

    def _read_group(self, g: int) -> np.ndarray:
        if self._group is None or self._group[0] != g:
            self._group = None  # released before the next one is read
            with arrow_errors(self._path):
                table = self._file.read_row_group(g, columns=self._features)
                rows = _matrix(table, self._features, self._path).astype(self.dtype, copy=False)
            if rows.shape[1] != self.shape[1]:
                raise InputError(
                    f"{self._path}, column {self._features[0]!r}: vectors differ in length."
                )
            self._group = g, rows
        return self._group[1]

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._rows(np.arange(start, stop))

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        groups = np.searchsorted(self._starts, indices, side="right") - 1
        for g in np.unique(groups):
            here = groups == g
            out[here] = self._read_group(int(g))[indices[here] - self._starts[g]]
        return out


def _labels(values: Any, name: str, path: Path) -> tuple[np.ndarray, list[str] | None]:
    if values.null_count:
        raise InputError(f"{path}: column {name!r} lacks {values.null_count} labels.")
    listed = values.to_pylist()
    numeric = all(isinstance(v, int | float) for v in listed)
    return encode_labels(np.array(listed if numeric else [str(v) for v in listed]), path)


def _is_vector(table: Any, features: Sequence[str]) -> bool:
    import pyarrow.types as pt

    return len(features) == 1 and pt.is_nested(table.schema.field(features[0]).type)


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_integer(kind) or pt.is_floating(kind))


def _matrix(table: Any, features: Sequence[str], path: Path) -> np.ndarray:
    """The feature columns (n, features), or the one column of vectors (n, length)."""
    if _is_vector(table, features):
        return _vectors(table.column(features[0]), features[0], path)
    missing = [name for name in features if table.column(name).null_count]
    X = np.empty((table.num_rows, len(features)), _common_type(table, features, path, missing))
    for j, name in enumerate(features):
        X[:, j] = table.column(name).to_numpy()
    return X


def _common_type(
    table: Any, features: Sequence[str], path: Path, missing: Sequence[str]
) -> np.dtype:
    """The narrowest type that holds every feature column (float where cells are missing)."""
    import pyarrow.types as pt

    kinds = []
    for name in features:
        column = table.column(name)
        if not (_is_numeric(column.type) or pt.is_boolean(column.type)):
            value = str(column[0].as_py())[:40]
            raise InputError(
                f"{path}, row 0, column {name!r}: {value!r} is not a number; remove the column "
                f"or, if it holds labels, pass labels={name!r} (--labels {name})."
            )
        stored = np.uint8 if pt.is_boolean(column.type) else column.type.to_pandas_dtype()
        kinds.append(np.result_type(stored, np.float32) if name in missing else stored)
    return np.result_type(*kinds)


def _vectors(column: Any, name: str, path: Path) -> np.ndarray:
    """A column of equally long lists of numbers as (n, length)."""
    import pyarrow.compute as pc
    import pyarrow.types as pt

    kind = column.type
    lists = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    if not lists or not _is_numeric(kind.value_type):
        raise InputError(f"{path}, column {name!r}: {kind} is not a vector of numbers.")
    lengths = pc.unique(pc.list_value_length(column))
    if column.null_count or len(lengths) != 1:
        raise InputError(f"{path}, column {name!r}: vectors differ in length or are missing.")
    return pc.list_flatten(column).to_numpy().reshape(len(column), lengths[0].as_py())
