"""What is seen of the columns of a table, and what is asked of them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.table_reading import MISSING, TableReading

# what pandas calls a data frame's index when it reads or writes it as a column
INDEX = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_0__")
LEAST_COUNTED = 10  # rows in which consecutive integers are no accident


class Kind(StrEnum):
    """What the cells of a column are."""

    NUMBERS = "numbers"
    VECTOR = "vector"
    TEXT = "text"
    MIXED = "mixed"


@dataclass(frozen=True)
class Column:
    """What is seen of a column.

    ``shown`` is an example or a type; ``fault`` says what is the matter with a mixed column, which
    with ``is_gap`` may be read as missing values.
    """

    name: str
    kind: Kind
    shown: str = ""
    fault: str = ""
    is_gap: bool = False


@dataclass(frozen=True)
class Wanted:
    """What was asked of a table: options, and the reading of an earlier one."""

    labels: str | None = None
    id: str | None = None
    text: str | None = None
    columns: str | Sequence[str] | None = None
    ignore: str | Sequence[str] | None = None
    missing: str | None = None
    transpose: bool = False
    reading: TableReading | None = None

    def __post_init__(self) -> None:
        if self.missing not in (None, *MISSING):
            raise InputError(f"missing={self.missing!r} is neither {' nor '.join(MISSING)}.")
        for name in ("columns", "ignore", "missing", "transpose"):
            if self.text is not None and getattr(self, name):
                raise InputError(f"{name} is for columns of numbers; leave it out beside text.")
        if self.reading is not None and self.reading.transpose:
            object.__setattr__(self, "transpose", True)

    def refuse(self, source: object, but: Sequence[str] = ()) -> None:
        """Refuse the options of tables for what is none, or knows only some."""
        for name in ("id", "text", "columns", "ignore", "missing", "transpose"):
            if getattr(self, name) and self.reading is None and name not in but:
                raise InputError(
                    f"{name} is for tables, and has no effect on {source}; leave it out."
                )

    @property
    def text_column(self) -> str | None:
        return self.text or (self.reading.text if self.reading else None)

    @property
    def filling(self) -> str | None:
        """What is done with missing values."""
        return self.missing or (self.reading.missing if self.reading else None)


class Table(ABC):
    """The columns of a file or a frame, with what is seen of them."""

    source: Path | str
    columns: list[Column]
    n: int
    first_row = 2  # of the values, as a spreadsheet counts
    named = True  # whether the columns have names
    notes: Sequence[str] = ()
    faults: Sequence[str] = ()  # of rows

    @abstractmethod
    def matrix(self, names: Sequence[str]) -> Any:
        """Columns of numbers (n, features), or a column of vectors; gaps are NaN."""

    @abstractmethod
    def texts(self, name: str) -> list[str]:
        """The cells of a column as text, missing ones empty."""

    def start(self, names: Sequence[str]) -> np.ndarray:
        """The first rows of columns of numbers."""
        return np.asarray(self.matrix(names)[:LEAST_COUNTED])

    def row(self, i: int) -> int:
        """The number that a spreadsheet gives to a row."""
        return i + self.first_row

    @property
    def name(self) -> str:
        return self.source.stem if isinstance(self.source, Path) else self.source


def as_labels(values: list[str]) -> np.ndarray:
    """Labels that were read as text: integers if all of them are."""
    whole = all(re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", v) for v in values)
    return np.array([int(float(v)) for v in values] if whole else values)


def unique(names: Sequence[str]) -> list[str]:
    """The names, those that are there several times told apart as a, a.1, a.2, as pandas does."""
    times, apart = Counter[str](), dict[str, None]()
    for name in names:
        new = name
        while new in apart:
            times[name] += 1
            new = f"{name}.{times[name]}"
        apart[new] = None
    return list(apart)
