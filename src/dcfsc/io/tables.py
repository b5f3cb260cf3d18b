"""Tables of typed columns: .parquet, .jsonl and data frames, read with Arrow; one row a sample."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import streamed
from dcfsc.io.dataset import Dataset, damage_in_one_line, refuse_bomb, unreadable
from dcfsc.io.table_columns import (
    LEAST_COUNTED,
    MIXED,
    NUMBERS,
    TEXT,
    VECTOR,
    Column,
    Table,
    Wanted,
    unique,
)
from dcfsc.io.table_reading import (
    TableReading,
    common_type,
    is_numeric,
    is_vector,
    texts,
)
from dcfsc.io.table_samples import to_dataset

FRAME = "the data frame"


def load_parquet(path: Path, wanted: Wanted) -> Dataset:
    """Read numeric columns, or one column whose cells are vectors of one length.

    Large tables are streamed by their row groups.
    """
    with arrow_errors(path):
        return to_dataset(ParquetTable(path), wanted)


def load_json_lines(path: Path, wanted: Wanted) -> Dataset:
    """Read one JSON object a line: numbers, or one vector of numbers, and the label."""
    from pyarrow import json

    streamed.require_room(str(path), path.stat().st_size)
    with arrow_errors(path):
        table = json.read_json(path, json.ReadOptions(block_size=1 << 24))
        return to_dataset(ArrowTable(path, table, first_row=1), wanted)


def load_frame(frame: Any, wanted: Wanted) -> Dataset:
    """Read a pandas or polars frame, or a table of Arrow; the index of pandas is the ids."""
    import pyarrow as pa

    if not hasattr(frame, "iloc"):
        return to_dataset(ArrowTable(FRAME, pa.table(frame), 0), wanted)
    names = unique([str(name) for name in frame.columns])
    columns, mixed = [], []
    for j, name in enumerate(names):
        try:
            columns.append(pa.array(frame.iloc[:, j], from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns.append(pa.array(frame.iloc[:, j].map(str)))
            mixed.append(name)
    if type(frame.index).__name__ != "RangeIndex":
        names = ["__index_level_0__", *names]
        columns = [pa.array(map(str, frame.index)), *columns]
    return to_dataset(ArrowTable(FRAME, pa.table(columns, names), 0, mixed), wanted)


@contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Arrow's errors, some of which are the system's by type alone, as one line."""
    try:
        with damage_in_one_line(path):
            yield
    except OSError as error:
        raise unreadable(path, error) from None


class ArrowTable(Table):
    """A table of Arrow in memory."""

    def __init__(self, source: Path | str, table: Any, first_row: int, mixed: Sequence[str] = ()):
        self.source, self._table, self.first_row = source, table, first_row
        self.n = table.num_rows
        self.columns = [
            replace(column, kind=MIXED, fault=f"column {column.name!r} has cells of several types")
            if column.name in mixed
            else column
            for column in described(table.schema)
        ]

    def matrix(self, names: Sequence[str]) -> Any:
        return reading_of(self._table.schema, names).numbers(self._table, self.source)

    def texts(self, name: str) -> list[str]:
        return texts(self._table.column(name))

    def start(self, names: Sequence[str]) -> np.ndarray:
        first = self._table.slice(0, LEAST_COUNTED)
        return reading_of(first.schema, names).numbers(first, self.source)


class ParquetTable(Table):
    """A parquet file, of which only the columns that are needed are read."""

    def __init__(self, path: Path):
        import pyarrow.parquet as pq

        self.source, self._path = path, path
        self._file = pq.ParquetFile(path)
        refuse_long_runs(path, self._file.metadata)
        self.n = self._file.metadata.num_rows
        # the row names that pandas stores beside the columns
        columns = described(self._file.schema_arrow)
        stored = [c for c in columns if re.fullmatch(r"__index_level_\d+__", c.name)]
        texts_ = [column for column in stored if column.kind == TEXT]
        self.columns = [*texts_, *(column for column in columns if column not in stored)]

    def matrix(self, names: Sequence[str]) -> Any:
        reading = reading_of(self._file.schema_arrow, names)
        if 8 * self.n * len(names) > streamed.STREAM_BYTES or reading.vector is not None:
            X = ParquetRows(self._path, self._file, reading)
            if X.nbytes > streamed.STREAM_BYTES:
                return X
        return reading.numbers(self._file.read(list(names)), self.source)

    def texts(self, name: str) -> list[str]:
        return texts(self._file.read([name]).column(0))

    def start(self, names: Sequence[str]) -> np.ndarray:
        first = _first(self._file, LEAST_COUNTED, names)
        return reading_of(first.schema, names).numbers(first, self.source)


def described(schema: Any) -> list[Column]:
    def column(name: str, kind: Any) -> Column:
        if is_numeric(kind):
            return Column(name, NUMBERS)
        return Column(name, VECTOR if is_vector(kind) else TEXT, str(kind)[:40])

    return [column(field.name, field.type) for field in schema]


def reading_of(schema: Any, names: Sequence[str]) -> TableReading:
    """The plain reading of columns of numbers, or of one column of vectors."""
    if len(names) == 1 and is_vector(schema.field(names[0]).type):
        return TableReading(vector=names[0])
    return TableReading(tuple(names))


def _first(file: Any, rows: int, names: Sequence[str]) -> Any:
    import pyarrow as pa

    batches = file.iter_batches(batch_size=rows, columns=list(names))
    return pa.table(next(batches)) if file.metadata.num_rows else file.read(list(names))


def refuse_long_runs(path: Path, metadata: Any) -> None:
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

    def __init__(self, path: Path, file: Any, reading: TableReading):
        self._path, self._file, self._reading = path, file, reading
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        names = reading.columns
        if reading.vector is not None:
            vector = reading.numbers(_first(file, 1, names), path)
            width, dtype = vector.shape[1], vector.dtype
        else:
            missing = [name for name in names if self._may_miss(name)]
            width, dtype = len(names), common_type(file.schema_arrow, names, missing)
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
                table = self._file.read_row_group(g, columns=self._reading.columns)
                rows = self._reading.numbers(table, self._path).astype(self.dtype, copy=False)
            if rows.shape[1] != self.shape[1]:
                raise InputError(
                    f"{self._path}, column {self._reading.vector!r}: vectors differ in length."
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
