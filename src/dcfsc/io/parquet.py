"""Parquet tables: one row a sample. Large ones are streamed by their row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import streamed
from dcfsc.io.dataset import (
    Dataset,
    damage_in_one_line,
    encode_labels,
    refuse_bomb,
    unreadable,
)
from dcfsc.io.tables import INDEX, INDEX_NOTE, is_index, label_column


def load_parquet(path: Path, *, labels: str | None = None) -> Dataset:
    """A Parquet table: numeric columns, or one column whose cells are vectors of one length."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"reading {path} needs the package pyarrow; install dcfsc[parquet]."
        ) from None
    with arrow_errors(path):
        file = pq.ParquetFile(path)
        _refuse_long_runs(path, file.metadata)
        # the row names that pandas stores beside the columns
        names = file.schema_arrow.names
        columns = [c for c in names if not re.fullmatch(r"__index_level_\d+__", c)]
        label = label_column(columns, labels, path)
        features = [c for i, c in enumerate(columns) if i != label]
        n = file.metadata.num_rows
        first = features[0] if len(features) > 1 and INDEX.fullmatch(features[0]) else None
        indexed = first is not None and is_index(file.read([first]).column(0).to_numpy())
        features = features[indexed:]
        if not features or n == 0:
            raise InputError(f"{path} holds {n} rows of {len(features)} feature columns.")
        X: Any = None
        if 8 * n * len(features) > streamed.STREAM_BYTES or len(features) == 1:
            X = ParquetRows(path, file, features)
        y, classes, notes = None, None, ""
        if label is not None:
            y, classes = _labels(file.read([columns[label]]).column(0), columns[label], path)
            notes = f"labels from column {columns[label]!r}"
        notes = "; ".join(filter(None, (INDEX_NOTE if indexed else "", notes)))
        if X is None or X.nbytes <= streamed.STREAM_BYTES:
            X = _matrix(file.read(features), features, path)
    named = features if X.shape[1:] == (len(features),) else None
    return Dataset(path.stem, X, y, label_names=classes, notes=notes, feature_names=named)


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

    Whether cells are missing, which makes integers floats, is told by the file's statistics;
    columns without them are taken to have such cells.
    """

    def __init__(self, path: Path, file: Any, features: Sequence[str]):
        self._path, self._file, self._features = path, file, list(features)
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        first = next(file.iter_batches(batch_size=1, columns=self._features))
        width, dtype = self._layout(first)
        super().__init__(str(path), (file.metadata.num_rows, width), dtype)
        self._held: tuple[int, np.ndarray] | None = None

    def _layout(self, first: Any) -> tuple[int, np.dtype]:
        """The width of a row and the narrowest type that holds every cell."""
        import pyarrow as pa

        row = pa.table(first)
        if _is_vector(row, self._features):
            vectors = _matrix(row, self._features, self._path)
            return vectors.shape[1], vectors.dtype
        missing = [name for name in self._features if self._may_miss(name)]
        return len(self._features), _common_type(row, self._features, self._path, missing)

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

    def _group(self, g: int) -> np.ndarray:
        if self._held is None or self._held[0] != g:
            self._held = None  # released before the next one is read
            with arrow_errors(self._path):
                table = self._file.read_row_group(g, columns=self._features)
                rows = _matrix(table, self._features, self._path).astype(self.dtype, copy=False)
            if rows.shape[1] != self.shape[1]:
                raise InputError(
                    f"{self._path}, column {self._features[0]!r}: vectors differ in length."
                )
            self._held = g, rows
        return self._held[1]

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._rows(np.arange(start, stop))

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        groups = np.searchsorted(self._starts, indices, side="right") - 1
        for g in np.unique(groups):
            here = groups == g
            out[here] = self._group(int(g))[indices[here] - self._starts[g]]
        return out


def _labels(values: Any, name: str, path: Path) -> tuple[np.ndarray, list[str] | None]:
    if values.null_count:
        raise InputError(f"{path}: column {name!r} lacks {values.null_count} labels.")
    listed = values.to_pylist()
    text = any(isinstance(v, str) for v in listed)
    return encode_labels(np.array([str(v) for v in listed] if text else listed), path)


def _is_vector(table: Any, features: Sequence[str]) -> bool:
    import pyarrow.types as pt

    return len(features) == 1 and pt.is_nested(table.schema.field(features[0]).type)


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
        kind = column.type
        if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind)):
            value = str(column[0].as_py())[:40]
            raise InputError(
                f"{path}, row 0, column {name!r}: {value!r} is not a number; remove the column "
                f"or, if it holds labels, pass labels={name!r} (--labels {name})."
            )
        stored = np.uint8 if pt.is_boolean(kind) else kind.to_pandas_dtype()
        kinds.append(np.result_type(stored, np.float32) if name in missing else stored)
    return np.result_type(*kinds)


def _vectors(column: Any, name: str, path: Path) -> np.ndarray:
    """A column of equally long lists of numbers as (n, length)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).to_numpy() if pa.types.is_list(column.type) else None
    if lengths is None and pa.types.is_fixed_size_list(column.type):
        lengths = np.full(len(column), column.type.list_size)
    if lengths is None or not _is_numeric(column.type.value_type):
        raise InputError(f"{path}, column {name!r}: {column.type} is not a vector of numbers.")
    if column.null_count or len(np.unique(lengths)) != 1:
        raise InputError(f"{path}, column {name!r}: vectors differ in length or are missing.")
    return pc.list_flatten(column).to_numpy().reshape(len(column), int(lengths[0]))


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_integer(kind) or pt.is_floating(kind))
