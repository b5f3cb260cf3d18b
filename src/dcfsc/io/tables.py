"""Text tables, .csv and .tsv: one row a sample, one column a feature or the label."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from dcfsc.errors import InputError, plain_number
from dcfsc.io.arrays import LABEL_KEYS, NO_LABELS
from dcfsc.io.dataset import Dataset, encode_labels

COLUMNS = 1_000_000  # cells of text take many times their bytes; a wider table is not read
MISSING = frozenset(("", "na", "n/a", "nan", "null"))
NO_NAMES = MISSING | {"none", "missing", "unknown", "nil", "#n/a", "undefined"}  # of a column
# what pandas calls a data frame's index when it reads or writes it as a column
INDEX = re.compile(r"|Unnamed: 0(\.\d+)?")
INDEX_NOTE = "the row numbers in the unnamed first column were left out"


@dataclass(frozen=True)
class Layout:
    """How a text table is written: its separator (None: blanks), its columns, its first row."""

    separator: str | None
    columns: list[str]
    has_header: bool


def load_csv(path: Path, *, labels: str | None = None, header: bool | None = None) -> Dataset:
    """A table of numbers, with or without a header; the label column may hold text.

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
    notes = []
    X = _numbers(path, layout, features)
    if layout.has_header and header is None and any(map(_is_number, layout.columns)):
        shown = ", ".join(layout.columns[:3]) + (", ..." if len(layout.columns) > 3 else "")
        notes.append(f"the first row ({shown}) was read as a header")
    named = layout.has_header and X.shape[1] > 1 and INDEX.fullmatch(layout.columns[features[0]])
    if named and is_index(X[:, 0]):
        X = np.ascontiguousarray(X[:, 1:])
        features = features[1:]
        notes.append(INDEX_NOTE)
    y, names = None, None
    if label is not None:
        y, names = encode_labels(_as_labels(_label_values(path, layout, label)), path)
        notes.append(f"labels from column {layout.columns[label]!r}")
    columns = [layout.columns[i] for i in features] if layout.has_header else None
    return Dataset(
        path.stem, X, y, label_names=names, notes="; ".join(notes), feature_names=columns
    )


def is_index(values: np.ndarray) -> bool:
    """Whether a first column that :data:`INDEX` names is one: whole numbers, each of them once."""
    whole = values.dtype.kind in "iuf" and np.isfinite(values).all() and (values == np.rint(values))
    return len(np.unique(values)) == len(values) and bool(np.all(whole))


def read_label_column(path: Path, n: int) -> np.ndarray:
    """The labels of n samples in a text table: its only column, or the one with a label's name.

    The number of samples tells whether a single column of text starts with a header.
    """
    layout = _layout(path, None, False)
    if layout.separator is not None and len(layout.columns) > 1:
        layout = _layout(path, None, None)
        label = label_column(layout.columns, None, path)
        if label is None:
            raise InputError(
                f"{path} has columns {', '.join(layout.columns)}; keep one, or name it 'label'."
            )
        return _as_labels(_label_values(path, layout, label))
    with _text(path) as file:
        values = [line.strip().strip('"') for line in file if line.strip()]
    return _as_labels(values[1:] if len(values) == n + 1 else values)


def _layout(path: Path, labels: str | None, header: bool | None) -> Layout:
    with _text(path) as file:
        lines = list(itertools.islice((line for line in file if line.strip()), 2))
    if not lines:
        raise InputError(f"{path} is empty.")
    separator = _separator(path, lines[0])
    width = 1 + lines[0].count(separator or " ")
    if width > COLUMNS:
        raise InputError(
            f"{path} has some {width} columns, more than {COLUMNS}; save it as .npy, or check its "
            "line breaks."
        )
    first, *rest = ([c.strip() for c in row] for row in _split(path, lines, separator))
    second = rest[0] if rest else None
    if header is None:
        header = _is_header(first, second, labels)
    if header and second is None:
        raise InputError(f"{path} has a header and no rows.")
    columns = first if header else [str(i) for i in range(len(first))]
    if labels is not None and columns.count(labels) > 1:
        raise InputError(f"{path} has several columns {labels!r}; rename them.")
    return Layout(separator, columns, header)


def _separator(path: Path, line: str) -> str | None:
    if path.suffix.lower() == ".tsv":
        return "\t"
    bare = re.sub(r'"[^"]*"', "", line)
    # a semicolon first: files that use it may have decimal commas
    return next((s for s in (";", "\t", ",") if s in bare), None)


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


def label_column(columns: Sequence[str], labels: str | None, path: Path) -> int | None:
    if labels is None:
        guesses = [i for i, c in enumerate(columns) if c.lower() in LABEL_KEYS]
        if len(guesses) > 1:
            found = [columns[i] for i in guesses]
            remedy = "pass labels='NAME' (--labels NAME)" if len({*found}) > 1 else "rename them"
            raise InputError(
                f"{path} has {len(found)} columns that may be the labels, "
                f"{' and '.join(repr(c) for c in found)}; {remedy}."
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


def _numbers(path: Path, layout: Layout, features: Sequence[int]) -> np.ndarray:
    """The feature columns as float64 (n, features)."""
    try:
        with _text(path) as file:
            X = np.loadtxt(
                file,
                delimiter=layout.separator,
                skiprows=_lines_before_data(path) if layout.has_header else 0,
                usecols=features,
                quotechar='"',
                comments=None,
                ndmin=2,
            )
        if _same_width(path, layout):
            return X
    except (ValueError, IndexError):
        pass
    # the slow reading: it takes empty cells, and it knows which cell is at fault
    rows = []
    for line, cells in _cells(path, layout):
        rows.append([_number(path, layout, line, i, cells[i]) for i in features])
    return np.array(rows, np.float64)


def _lines_before_data(path: Path) -> int:
    """How many lines end with the header: one, and blank lines above it."""
    with _text(path) as file:
        return next(i for i, line in enumerate(file, 1) if line.strip())


def _same_width(path: Path, layout: Layout) -> bool:
    """Whether every row has as many cells as the first; loadtxt only looks at those it uses.

    A quoted cell with the separator in it makes this False, which only costs time.
    """
    mark = layout.separator
    with _text(path) as file:
        rows = (line for line in file if line.strip())
        widths = {line.count(mark) + 1 if mark else len(line.split()) for line in rows}
    return widths == {len(layout.columns)}


def _number(path: Path, layout: Layout, line: int, column: int, cell: str) -> float:
    text = cell.strip()
    if text.lower() in MISSING:
        return float("nan")
    try:
        return plain_number(text)
    except ValueError:
        name = layout.columns[column]
        remedy = f"remove the column or, if it holds labels, pass labels={name!r} (--labels {name})"
        if re.fullmatch(r"[+-]?\d+,\d+", text):
            remedy = "write decimals with a point"
        raise InputError(
            f"{path}, line {line}, column {name!r}: {text[:40]!r} is not a number; {remedy}."
        ) from None


def _label_values(path: Path, layout: Layout, label: int) -> list[str]:
    values = []
    for line, cells in _cells(path, layout):
        values.append(cells[label].strip())
        if not values[-1]:
            raise InputError(f"{path}, line {line}, column {layout.columns[label]!r}: no label.")
    return values


def _as_labels(values: list[str]) -> np.ndarray:
    """Labels as integers where all of them are, else as text."""
    numbers = [_integer(v) for v in values]
    return np.array(values if None in numbers else numbers)


def _integer(text: str) -> int | None:
    return int(float(text)) if re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", text) else None


def _cells(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """(line number from 1, cells) of each data row; every row has the first row's width."""
    with _text(path) as file:
        lines = [0]

        def counted() -> Iterator[str]:
            for number, text in enumerate(file, 1):
                lines[0] = number
                if text.strip():
                    yield text

        rows = _split(path, counted(), layout.separator)
        if layout.has_header:
            next(rows)
        for cells in rows:
            if len(cells) != len(layout.columns):
                raise InputError(
                    f"{path}, line {lines[0]}: {len(cells)} cells where the first row has "
                    f"{len(layout.columns)}."
                )
            yield lines[0], cells


def _split(path: Path, lines: Iterable[str], separator: str | None) -> Iterator[list[str]]:
    if separator is None:
        yield from (line.split() for line in lines)
        return
    try:
        yield from csv.reader(lines, delimiter=separator)
    except csv.Error as error:
        raise InputError(f"{path} is not a readable table: {error}.") from None


def _is_number(cell: str) -> bool:
    try:
        plain_number(cell)
    except ValueError:
        return cell.strip().lower() in MISSING - {""}
    return True


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    """The file as UTF-8 text; other bytes are one clear error."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            yield file
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
