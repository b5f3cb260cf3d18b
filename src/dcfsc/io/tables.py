"""Tables of typed columns: .jsonl and data frames, read with Arrow; one row a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.io import streamed
from dcfsc.io.dataset import Dataset, damage_in_one_line, unreadable
from dcfsc.io.table_columns import LEAST_COUNTED, Column, Kind, Table, Wanted, unique
from dcfsc.io.table_reading import TableReading, is_numeric, is_vector, texts
from dcfsc.io.table_samples import to_dataset

FRAME = "the data frame"


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
            replace(
                column, kind=Kind.MIXED, fault=f"column {column.name!r} has cells of several types"
            )
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


def described(schema: Any) -> list[Column]:
    def column(name: str, kind: Any) -> Column:
        if is_numeric(kind):
            return Column(name, Kind.NUMBERS)
        return Column(name, Kind.VECTOR if is_vector(kind) else Kind.TEXT, str(kind)[:40])

    return [column(field.name, field.type) for field in schema]


def reading_of(schema: Any, names: Sequence[str]) -> TableReading:
    """The plain reading of columns of numbers, or of one column of vectors."""
    if len(names) == 1 and is_vector(schema.field(names[0]).type):
        return TableReading(vector=names[0])
    return TableReading(tuple(names))
