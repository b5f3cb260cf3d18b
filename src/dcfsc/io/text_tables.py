"""Text tables, .csv and .tsv, and workbooks: their separator and header, and the numbers in them.

Arrow splits the text into cells and reads the numbers. What is decided here is how a table is
written: its encoding, separator and header, and what cells that are no numbers mean.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.dataset import Dataset, unreadable
from dcfsc.io.table_columns import LEAST_COUNTED, Column, Kind, Table, Wanted, unique
from dcfsc.io.table_samples import to_dataset
from dcfsc.io.text_layout import MARKS, MISSING, Layout, layout_of, lines_of, not_unicode

BLOCK_BYTES = 1 << 24  # of text that are parsed together; no row is longer
NUMBER = r"^(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity))$"
WRITTEN = r"[-+<>~$€£]? ?\d{1,3}([.,' ]?\d{3})*([.,]\d+)? ?[%€$£]?"  # with marks around or within
EXAMPLES = 5
GROUPS = 256  # of columns that are looked at closely


def load_csv(path: Path, wanted: Wanted, *, header: bool | None = None) -> Dataset:
    """Read a table of text, with or without a header.

    Separators are semicolons, tabs, commas, bars or blanks; decimals are written with a point or a
    comma. Columns without a header are named 0, 1, 2, ... and -1 is the last. The first row counts
    as a header if a cell of it is text above a number, if all of it is text, if it names a label
    column, or if it reads 0, 1, 2, ...; numbers beside the text must be whole and differ.
    ``header`` decides where that guess fails.
    """
    return to_dataset(TextTable(layout_of(path, path, wanted, header), wanted), wanted)


def load_workbook(path: Path, wanted: Wanted, *, header: bool | None = None) -> Dataset:
    """Read the first sheet of a workbook; of formulas, the values that were last computed."""
    try:
        import openpyxl  # noqa: F401
        import pandas as pd
    except ImportError:
        raise InputError(f"{path} needs pip install 'dcfsc[excel]', or save it as .csv.") from None
    try:
        frame = pd.read_excel(path, header=None, dtype=object)
    except Exception as error:  # whatever a damaged archive leads to
        raise unreadable(path, error) from None
    text = frame.to_csv(header=False, index=False)
    layout = layout_of(path, text.encode(), wanted, header)
    return to_dataset(TextTable(layout, wanted), wanted)


def read_texts(path: Path) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of a text table as text, by name; and its first row, if that is their header.

    Blanks separate no cells.
    """
    table = TextTable(layout_of(path, path, Wanted(), None, blanks=False), Wanted())
    if faults := table.faults:
        raise InputError(f"{path}: {'; '.join(faults)}.")
    names = [column.name for column in table.columns]
    return names if table.named else [], {name: table.texts(name) for name in names}


@dataclass
class Seen:
    """The cells of a column that are no numbers, and the decimal marks of those that are."""

    wrong: int = 0
    row: int = 0  # of the first one
    examples: list[str] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)


class TextTable(Table):
    """The numbers of a text table (n, columns), gaps as NaN; texts are read again when asked for.

    Rows without any cell are left out.
    """

    def __init__(self, layout: Layout, wanted: Wanted):
        import pyarrow as pa

        self.source, self._layout = layout.source, layout
        self.named = layout.has_header
        self._marks = MISSING | (MARKS if wanted.filling is not None else frozenset())
        self._seen = [Seen() for _ in layout.columns]
        self._texts: dict[str, list[str]] = {}
        self._skipped: list[int] = []
        self._ragged: list[str] = []
        X, empty, last = np.empty((0, len(layout.columns))), [np.zeros(0, bool)], ""
        try:
            for batch in self._batches():
                start = len(X)
                values, none = self._numbers(batch, start)
                empty.append(none)
                X.resize((start + len(batch), X.shape[1]), refcheck=False)  # never in memory twice
                X[start:] = values.T
                last = batch.columns[-1][-1].as_py() if len(batch) else last
        except pa.ArrowInvalid as error:
            raise self._unreadable(error) from None
        self._kept = np.flatnonzero(~np.concatenate(empty))
        self._X = X if len(self._kept) == len(X) else X[self._kept]
        self.n = len(self._X)
        self.faults = self._row_faults(last)
        names = unique([name or f"Unnamed: {j}" for j, name in enumerate(layout.columns)])
        self._places = {name: j for j, name in enumerate(names)}
        numbers = (~np.isnan(self._X)).sum(axis=0).tolist()
        self._commas = any("," in seen.marks for seen in self._seen)
        self.columns = list(map(self._column, names, self._seen, numbers))
        inner = len(self._kept) and int(self._kept[-1]) + 1 - len(self._kept)
        self.notes = [*layout.notes, *([f"{inner:,} empty rows were left out"] if inner else [])]

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        if list(names) == list(self._places):
            return self._X
        return self._X[:, [self._places[name] for name in names]]

    def start(self, names: Sequence[str]) -> np.ndarray:
        return self._X[:LEAST_COUNTED, [self._places[name] for name in names]]

    def texts(self, name: str) -> list[str]:
        if name not in self._texts:  # which takes another look at the file
            column = str(self._places[name])
            values = [t for batch in self._batches([column]) for t in batch.column(0).to_pylist()]
            self._texts[name] = [values[row].strip() for row in self._kept.tolist()]
        return self._texts[name]

    def row(self, i: int) -> int:
        return self._row(int(self._kept[i]))

    def _row(self, place: int) -> int:
        row = place + self._layout.first_row
        for skipped in self._skipped:
            row += skipped <= row
        return row

    def _batches(self, only: Sequence[str] = ()) -> Iterator[Any]:
        """Arrow's record batches of the data rows as text."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        layout, file = self._layout, self._layout.content
        if layout.separator is None:
            with lines_of(layout.source, file, layout.encoding) as lines:
                file = "\n".join("\t".join(line.split()) for line in lines).encode()
        names = [str(i) for i in range(len(layout.columns))]
        self._skipped.clear()
        self._ragged.clear()
        yield from arrow.open_csv(
            io.BytesIO(file) if isinstance(file, bytes) else file,
            arrow.ReadOptions(
                use_threads=False,
                block_size=BLOCK_BYTES,
                column_names=names,
                skip_rows=layout.data_line,
                encoding="utf8" if isinstance(file, bytes) else layout.encoding,
            ),
            arrow.ParseOptions(
                delimiter=layout.separator or "\t",
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=self._skip,
            ),
            # empty lists: each column would hold a copy of them, more than what a short one takes
            arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=list(only),
                null_values=[],
                true_values=[],
                false_values=[],
            ),
        )

    def _skip(self, row: Any) -> str:
        number = row.number - self._layout.data_line + self._layout.first_row - 1
        self._skipped.append(number)
        if row.text.strip():
            many = f"{row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
            self._ragged.append(f"row {number:,} has {many}")
        return "skip"

    def _row_faults(self, last: str) -> list[str]:
        if "\n" in last and self._layout.is_open:
            row = self._row(int(self._kept[-1]))
            return [f"the quote that begins in row {row:,} is never closed; correct the row"]
        if not self._ragged:
            return []
        more = f" and {len(self._ragged) - EXAMPLES:,} more" if self._ragged[EXAMPLES:] else ""
        first = f"where the first has {len(self._layout.columns)}"
        return [f"{', '.join(self._ragged[:EXAMPLES])}{more} {first}; correct the rows"]

    def _numbers(self, batch: Any, start: int) -> tuple[np.ndarray, np.ndarray]:
        """The cells (columns, rows) as numbers, and which rows are empty.

        Many columns are one array, as a call for each would take long; where a cell is no number
        they are halved, so that only few columns are looked at closely.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        n, groups = batch.num_columns, [(0, batch.num_columns)]
        values, empty = np.empty((n, len(batch))), np.ones(len(batch), bool)
        while groups:
            first, last = groups.pop()
            cells = pa.concat_arrays(batch.columns[first:last])
            text = cells if self._layout.separator == "," else pc.replace_substring(cells, ",", ".")
            try:
                numbers, number = pc.cast(text, pa.float64()), None
                empty[:] = False
            except pa.ArrowInvalid:
                if last - first > max(1, n // GROUPS):
                    middle = (first + last) // 2
                    groups += [(first, middle), (middle, last)]
                    continue
                text = pc.utf8_trim_whitespace(text)
                gap = pc.is_in(pc.utf8_lower(text), pa.array(sorted(self._marks)))
                number = pc.match_substring_regex(text, NUMBER)
                wrong = _by_column(pc.invert(pc.or_(number, gap)), last - first)
                for j, mask in enumerate(wrong):
                    rows = np.flatnonzero(mask)
                    self._keep(first + j, rows, cells[j * len(batch) :], start)
                empty &= np.all(_by_column(pc.equal(text, ""), last - first), axis=0)
                text = pc.replace_substring_regex(text, r"^\+", "")  # which not all of Arrow reads
                numbers = pc.cast(pc.if_else(number, text, "nan"), pa.float64())
            if self._layout.separator != ",":
                for mark in ".,":
                    has = pc.match_substring(cells, mark)
                    has = has if number is None else pc.and_(has, number)
                    for column in np.flatnonzero(_by_column(has, last - first).any(axis=1)):
                        self._seen[first + int(column)].marks.add(mark)
            values[first:last] = _by_column(numbers, last - first)
        return values, empty

    def _keep(self, column: int, rows: np.ndarray, cells: Any, start: int) -> None:
        """Keep in mind which cells of a column are no numbers."""
        seen = self._seen[column]
        if not seen.wrong and len(rows):
            seen.row = start + int(rows[0])
        seen.wrong += len(rows)
        for row in rows[: EXAMPLES - len(seen.examples)].tolist():
            seen.examples.append(cells[row].as_py().strip())

    def _column(self, name: str, seen: Seen, numbers: int) -> Column:
        if "." in seen.marks and self._commas:
            fault = f"column {name!r} has decimal points where there are decimal commas as well"
            return Column(name, Kind.MIXED if seen.wrong <= numbers else Kind.TEXT, fault=fault)
        if not seen.wrong:
            return Column(name, Kind.NUMBERS if numbers else Kind.TEXT, "" if numbers else "empty")
        first = seen.examples[0]
        shown = repr(first if len(first) <= 40 else first[:37] + "...")
        written = all(re.fullmatch(WRITTEN, text) for text in seen.examples)
        if seen.wrong > numbers and not written:
            return Column(name, Kind.TEXT, shown)
        more = f" (and {seen.wrong - 1:,} more)" if seen.wrong > 1 else ""
        fault = f"row {self._row(seen.row):,}, column {name!r}: {shown} is not a number{more}"
        is_gap = all(text.lower() in MARKS for text in seen.examples)
        return Column(name, Kind.MIXED, shown, fault, is_gap)

    def _unreadable(self, error: Exception) -> InputError:
        if "straddling" in str(error):
            return InputError(
                f"cannot read {self.source}: a row has more than {BLOCK_BYTES >> 20} MiB; check "
                "its quotes and line breaks, or save it as .npy."
            )
        if "UTF8" in str(error):
            return not_unicode(self._layout.source)
        return unreadable(self._layout.source, error)


def _by_column(cells: Any, columns: int) -> np.ndarray:
    return np.asarray(cells.to_numpy(zero_copy_only=False)).reshape(columns, -1)
