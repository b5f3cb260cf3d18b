"""Text tables, .csv and .tsv: their separator, their header, and the numbers in their cells."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, plain_number
from dcfsc.io.arrays import LABEL_KEYS
from dcfsc.io.dataset import Dataset, encode_labels, unreadable
from dcfsc.io.tables import INDEX, INDEX_NOTE, is_index, label_column

BLOCK_BYTES = 1 << 24  # of text that are parsed together; no row is longer
COLUMNS = 200_000  # Arrow takes about 3 KiB for a column, however short
MISSING = frozenset(("", "na", "n/a", "nan", "null"))
NO_NAMES = MISSING | {"none", "missing", "unknown", "nil", "#n/a", "undefined"}  # of a column


@dataclass(frozen=True)
class Layout:
    """How a text table is written; without a separator, runs of blanks separate the cells."""

    path: Path
    separator: str | None
    columns: list[str]
    header_line: int  # 0 without a header


def load_csv(path: Path, *, labels: str | None = None, header: bool | None = None) -> Dataset:
    """Read a table of numbers, with or without a header; the label column may hold text.

    Separators are commas, semicolons, tabs or blanks. ``labels`` names the label column; columns
    without a header are named 0, 1, 2, ... and -1 is the last. Empty cells become NaN. The first
    row counts as a header if a cell of it is text above a number, if all of it is text, if it
    names a label column, or if it reads 0, 1, 2, ...; numbers beside the text must be whole and
    differ. ``header`` decides where that guess fails. The index of a data frame, whole numbers in
    an unnamed first column, is left out.
    """
    layout = _layout(path, labels, header)
    label = label_column(layout.columns, labels, path)
    features = [i for i in range(len(layout.columns)) if i != label]
    if not features:
        raise InputError(f"{path} has no column besides the label {layout.columns[label or 0]!r}.")
    X, label_texts = _read(layout, features, label)
    notes = []
    if layout.header_line and header is None and any(map(_is_number, layout.columns)):
        shown = ", ".join(layout.columns[:3]) + (", ..." if len(layout.columns) > 3 else "")
        notes.append(f"the first row ({shown}) was read as a header")
    unnamed = layout.header_line and INDEX.fullmatch(layout.columns[features[0]])
    if unnamed and len(features) > 1 and is_index(X[:, 0]):
        X, features = np.ascontiguousarray(X[:, 1:]), features[1:]
        notes.append(INDEX_NOTE)
    y, names = None, None
    if label is not None:
        y, names = encode_labels(_as_labels(label_texts), path)
        notes.append(f"labels from column {layout.columns[label]!r}")
    feature_names = [layout.columns[i] for i in features] if layout.header_line else None
    return Dataset(
        path.stem, X, y, label_names=names, notes="; ".join(notes), feature_names=feature_names
    )


def read_label_column(path: Path, n: int) -> np.ndarray:
    """The labels of n samples in a text table: its only column, or the one with a label's name.

    The number of samples tells whether a single column of text starts with a header.
    """
    layout = _layout(path, None, None)
    if layout.separator is None or len(layout.columns) == 1:
        with _lines(path) as lines:
            values = [line.strip().strip('"') for line in lines if line.strip()]
        return _as_labels(values[1:] if len(values) == n + 1 else values)
    label = label_column(layout.columns, None, path)
    if label is None:
        raise InputError(
            f"{path} has columns {', '.join(layout.columns)}; keep one, or name it 'label'."
        )
    return _as_labels(_read(layout, [], label)[1])


def _layout(path: Path, labels: str | None, header: bool | None) -> Layout:
    with _lines(path) as lines:
        line = next((line for line in lines if line.strip()), None)
    if line is None:
        raise InputError(f"{path} is empty.")
    bare = re.sub(r'"[^"]*"', "", line)
    # a semicolon first: files that use it may have decimal commas
    separator = next((mark for mark in ";\t," if mark in bare), None)
    if path.suffix.lower() == ".tsv":
        separator = "\t"
    width = 1 + line.count(separator or " ")
    if width > COLUMNS:
        raise InputError(
            f"{path} has some {width} columns, more than {COLUMNS}; save it as .npy, or check its "
            "line breaks."
        )
    with _rows(path, separator) as rows:
        header_line, first = next(rows)
        second = next(rows, (0, None))[1]
    if header is None:
        header = _is_header(first, second, labels)
    if header and second is None:
        raise InputError(f"{path} has a header and no rows.")
    columns = first if header else [str(i) for i in range(len(first))]
    if labels is not None and columns.count(labels) > 1:
        raise InputError(f"{path} has several columns {labels!r}; rename them.")
    return Layout(path, separator, columns, header_line if header else 0)


def _is_header(first: Sequence[str], second: Sequence[str] | None, labels: str | None) -> bool:
    text = [c for c in first if not _is_number(c)]
    if labels in text:
        return True
    if len(text) == len(first):
        return any(c.lower() not in NO_NAMES and c.strip("?-*.") for c in text)
    named = list(first[1:] if first[0] == "" else first)
    if len(named) >= 3 and named == [str(i) for i in range(len(named))]:
        return True  # a table of numbers as pandas writes it when its columns have no names
    # beside numbers only words are names: another odd cell is a value of a table without a header
    numbers = [c for c in first if _is_number(c)]
    whole = all(c.isdecimal() for c in numbers) and len({*numbers}) == len(numbers)
    words = all(re.match(r"[^\W\d]", c) and c.lower() not in NO_NAMES for c in text if c)
    if not whole or not words or second is None:
        return False
    # a y above text may well be a yes
    return any(
        c and (_is_number(d) or (c.lower() in LABEL_KEYS and c.lower() != "y"))
        for c, d in zip(first, second, strict=False)
        if not _is_number(c)
    )


def _is_number(cell: str) -> bool:
    try:
        plain_number(cell)
    except ValueError:
        return cell != "" and cell.lower() in MISSING
    return True


def _read(
    layout: Layout, features: Sequence[int], label: int | None
) -> tuple[np.ndarray, list[str]]:
    """The feature columns as float64 (n, features), and the label column as text."""
    import pyarrow as pa

    X, texts = np.empty((0, len(features))), list[str]()
    try:
        for batch in _batches(layout, label):
            start, columns = len(X), batch.columns
            X.resize((start + len(batch), len(features)), refcheck=False)  # never in memory twice
            if features:  # as one array: a call for each of many columns would take long
                cells = pa.concat_arrays([columns[i] for i in features])
                X[start:] = cells.to_numpy().reshape(len(features), -1).T
            if label is not None:
                texts += [text.strip() for text in columns[label].to_pylist()]
    except pa.ArrowInvalid as error:
        if "straddling" in str(error):
            raise InputError(
                f"cannot read {layout.path}: a row has more than {BLOCK_BYTES >> 20} MiB; check "
                "its quotes and line breaks, or save it as .npy."
            ) from None
        return _read_cells(layout, features, label)
    return _read_cells(layout, features, label) if "" in texts else (X, texts)


def _read_cells(
    layout: Layout, features: Sequence[int], label: int | None
) -> tuple[np.ndarray, list[str]]:
    """The same cell by cell: missing ones, plus signs, and the line that is at fault."""
    numbers, texts = array("d"), list[str]()
    with _rows(layout.path, layout.separator) as rows:
        for line, cells in itertools.islice(rows, bool(layout.header_line), None):
            if len(cells) != len(layout.columns):
                raise InputError(
                    f"{layout.path}, line {line}: {len(cells)} cells where the first row has "
                    f"{len(layout.columns)}."
                )
            numbers.extend(_number(layout, line, i, cells[i]) for i in features)
            if label is not None and not cells[label]:
                name = layout.columns[label]
                raise InputError(f"{layout.path}, line {line}, column {name!r}: no label.")
            texts += [] if label is None else [cells[label]]
    return np.asarray(numbers).reshape(-1, max(1, len(features))), texts


def _batches(layout: Layout, label: int | None) -> Iterator[Any]:
    """Arrow's record batches of the data rows: the label as text, all else as numbers."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    file: Any = layout.path
    if layout.separator is None:
        with _lines(layout.path) as lines:
            file = io.BytesIO("\n".join("\t".join(line.split()) for line in lines).encode())
    names = [str(i) for i in range(len(layout.columns))]
    kinds = dict.fromkeys(names, pa.float64())
    if label is not None:
        kinds[names[label]] = pa.string()
    yield from arrow.open_csv(
        file,
        arrow.ReadOptions(
            use_threads=False,
            block_size=BLOCK_BYTES,
            column_names=names,
            skip_rows=layout.header_line,
        ),
        arrow.ParseOptions(
            delimiter=layout.separator or "\t",
            newlines_in_values=True,
            invalid_row_handler=lambda row: "skip" if row.text.isspace() else "error",
        ),
        # empty lists: each column would hold a copy of them, more than what a short one takes
        arrow.ConvertOptions(column_types=kinds, null_values=[], true_values=[], false_values=[]),
    )


def _number(layout: Layout, line: int, column: int, text: str) -> float:
    try:
        return math.nan if text.lower() in MISSING else plain_number(text)
    except ValueError:
        name = layout.columns[column]
        remedy = (
            "write decimals with a point"
            if re.fullmatch(r"[+-]?\d+,\d+", text)
            else f"remove the column or, if it holds labels, pass labels={name!r} (--labels {name})"
        )
        raise InputError(
            f"{layout.path}, line {line}, column {name!r}: {text[:40]!r} is not a number; {remedy}."
        ) from None


def _as_labels(values: list[str]) -> np.ndarray:
    whole = all(re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", v) for v in values)
    return np.array([int(float(v)) for v in values] if whole else values)


@contextmanager
def _rows(path: Path, separator: str | None) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The rows that are not empty: the line, counted from 1, in which each ends, and its cells.

    They tell how a table is written and where it is at fault; Arrow reads what is in it.
    """
    with _lines(path) as lines:
        if separator is None:
            lines = ("\t".join(line.split()) for line in lines)
        reader = csv.reader(lines, delimiter=separator or "\t")
        rows = ([cell.strip() for cell in cells] for cells in reader)
        yield ((reader.line_num, cells) for cells in rows if len(cells) > 1 or any(cells))


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a UTF-8 file; other bytes are one clear error."""
    with path.open(encoding="utf-8-sig") as file:
        try:
            yield file
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        except csv.Error as error:
            raise unreadable(path, error) from None
