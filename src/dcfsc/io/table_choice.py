"""Which columns of a table are samples, ids and labels, and what is the matter with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any

import numpy as np

from dcfsc.errors import InputError, OptionNeeded
from dcfsc.io.arrays import LABEL_KEYS, NO_LABELS
from dcfsc.io.table_columns import INDEX, LEAST_COUNTED, Column, Kind, Table, Wanted, unique
from dcfsc.io.table_reading import DROP_ROWS, NAMED, TableReading, columns_named
from dcfsc.io.texts import text_array

PROSE = 3  # spaces in the example of a column that may be one of texts


@dataclass
class Choice:
    """The columns that are chosen, and what there is to say about all of them."""

    table: Table
    wanted: Wanted
    features: list[str] = field(default_factory=list)
    vector: str | None = None
    text: str | None = None
    id: str | None = None
    label: str | None = None
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    options: dict[str, list[str]] = field(default_factory=dict)  # that would go on

    def __post_init__(self) -> None:
        self.by_name = {column.name: column for column in self.table.columns}
        self.names, self.named = list(self.by_name), self.table.named
        if self.table.n == 0 and not self.table.faults:
            raise InputError(f"{self.table.source} has no rows.")
        self.id = self._id()
        if self.wanted.text_column is not None:
            self._choose_text(self.wanted.text_column)
        elif self.wanted.reading is not None:
            self._again(self.wanted.reading)
        else:
            self._choose()

    def samples(self) -> tuple[Any, list[str] | None]:
        """The matrix with its gaps, and the ids."""
        if self.text is not None:
            X: Any = text_array(self.table.texts(self.text))
        else:
            if not self.features and self.vector is None:
                self.refuse()
            X = self.table.matrix([self.vector] if self.vector is not None else self.features)
        return X, None if self.id is None else self._ids(self.id)

    def labels(self) -> list[str] | None:
        if self.label is None:
            return None
        labels = self.table.texts(self.label)
        absent = [i for i, text in enumerate(labels) if not text]
        if absent:
            row = self.table.row(absent[0])
            self.fault(
                f"column {self.label!r} lacks {len(absent):,} labels, the first in row {row:,}",
                labels="none",
                ignore=self.label,
            )
        return labels

    def refuse(self) -> None:
        """All that is the matter, in one error, with the options that would go on."""
        faults = [*self.table.faults, *self.faults]
        if faults:
            options = [f"--{name} {quote(','.join(v))}" for name, v in self.options.items()]
            text = "; ".join([*faults, *self.notes, *self.doubts])
            raise OptionNeeded(f"{self.table.source}: {text}.", " ".join(options))

    def fault(self, text: str, **options: str) -> None:
        self.faults.append(text)
        if self.wanted.reading is None:
            for name, value in options.items():
                values = self.options.setdefault(name, [])
                values += [] if value in values else [value]

    # Choosing ----------------------------------------------------------------------------------

    def _again(self, reading: TableReading) -> None:
        """The columns of an earlier table; others are of no interest."""
        wanted = [*reading.features, *([reading.vector] if reading.vector is not None else [])]
        absent = [name for name in wanted if name not in self.by_name]
        numbers = [c.name for c in self.table.columns if c.kind == Kind.NUMBERS]
        nameless = not self.named or all(name.isdecimal() for name in reading.features)
        if absent and nameless and not reading.vector and len(numbers) == len(wanted):
            wanted = numbers  # in order, as one of the two has no names
        elif absent:
            raise InputError(f"{self.table.source} lacks {columns_named(absent)} of the run.")
        self.vector = reading.vector
        self.features = [] if reading.vector is not None else wanted
        self.label = self._label([name for name in self.names if name not in wanted])
        for name in wanted:
            self._fault_of(self.by_name[name], Kind.VECTOR if self.vector else Kind.NUMBERS)

    def _choose(self) -> None:
        exact, chosen = self._matching("columns", self.wanted.columns)
        ignored = {*self._matching("ignore", self.wanted.ignore)[1]}
        left = [name for name in self.names if name not in ignored]
        self.label = self._label([name for name in left if name not in exact])
        left = [name for name in left if name not in (self.id, self.label)]
        if self.wanted.columns is not None:
            left = [name for name in chosen if name in left]
        vectors = [name for name in left if self.by_name[name].kind == Kind.VECTOR]
        if len(vectors) > 1:
            self.fault(f"{columns_named(vectors)} hold vectors; name one", columns=vectors[0])
        if vectors:
            self.vector = vectors[0]
            self._left_out("beside the vectors", [name for name in left if name not in vectors])
            return
        for name in left:
            if name in exact or self.by_name[name].kind == Kind.MIXED:
                self._fault_of(self.by_name[name], Kind.NUMBERS)
        self.features = self._without_counts(
            [name for name in left if self.by_name[name].kind == Kind.NUMBERS], exact
        )
        aside = [self.by_name[name] for name in left if self.by_name[name].kind == Kind.TEXT]
        self._left_out("not numbers", [column.name for column in aside])
        if prose := next((c.name for c in aside if c.shown.count(" ") >= PROSE), None):
            self.notes.append(f"to cluster the texts of {prose!r}, add --text {quote(prose)}")
        if not self.features and not self.faults:
            self.fault("there is no column of numbers; to cluster texts, add --text COLUMN")

    def _choose_text(self, name: str) -> None:
        if name not in self.by_name:
            raise self._unknown(name)
        if self.by_name[name].kind in (Kind.NUMBERS, Kind.VECTOR):
            self.fault(
                f"column {name!r} holds no texts ({self.by_name[name].shown or Kind.NUMBERS})"
            )
        self.text = name
        self.label = self._label([other for other in self.names if other != name])

    def _matching(
        self, option: str, patterns: str | Sequence[str] | None
    ) -> tuple[list[str], list[str]]:
        """The columns that are named exactly, and all that match, in their order."""
        if isinstance(patterns, str):
            patterns = [patterns] if patterns in self.by_name else patterns.split(",")
        exact, found = [], set()
        for pattern in patterns or ():
            matches = [name for name in self.names if fnmatchcase(name, pattern)]
            if pattern in self.by_name:
                exact.append(pattern)
                matches = [pattern]
            if not matches:
                raise self._unknown(pattern, f"; see --{option}")
            found.update(matches)
        return exact, [name for name in self.names if name in found]

    def _without_counts(self, numbers: list[str], exact: Sequence[str]) -> list[str]:
        """Without the index of a data frame, and columns that count the rows."""
        open_ = [name for name in numbers if name not in exact]
        if not open_:
            return numbers
        may_count = _counts(self.table.start(open_)).tolist()
        dropped = []
        for name, counts in zip(open_, may_count, strict=True):
            indexed = name == self.names[0] and bool(INDEX.fullmatch(name))
            counts = counts and self.table.n >= LEAST_COUNTED
            values = np.asarray(self.table.matrix([name])) if indexed or counts else None
            if values is not None and (
                (counts and _counts(values).all()) or (indexed and _numbers_rows(values))
            ):
                dropped.append(name)
        if len(dropped) == len(numbers):
            return numbers
        if dropped and INDEX.fullmatch(dropped[0]) and dropped[0] == self.names[0]:
            self.notes.append("the row numbers in the unnamed first column were left out")
        if others := [name for name in dropped if not INDEX.fullmatch(name)]:
            self.notes.append(f"left out, as counting the rows: {', '.join(others[:NAMED])}")
        if self.id is None and self.wanted.id is None:
            self.id = next((name for name in others if name.lower() == "id"), None)
        return [name for name in numbers if name not in dropped]

    def _left_out(self, why: str, names: Sequence[str]) -> None:
        if names:
            columns = [self.by_name[name] for name in names[:NAMED]]
            shown = ", ".join(f"{c.name} ({c.shown})" if c.shown else c.name for c in columns)
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            self.notes.append(f"set aside, {why}: {shown}{more}")

    def _fault_of(self, column: Column, kind: str) -> None:
        if column.kind == kind:
            return
        name = column.name
        text = column.fault or f"column {name!r} ({column.shown or column.kind}) is not {kind}"
        self.fault(text, **({"missing": DROP_ROWS} if column.is_gap else {"ignore": name}))

    def _label(self, names: Sequence[str]) -> str | None:
        """The label column: by the name or place that is given, or the one with a label's name."""
        labels = self.wanted.labels
        if labels == NO_LABELS:
            return None
        if labels is None:
            guesses = [name for name in names if name.lower() in LABEL_KEYS]
            if len(guesses) > 1:
                many = f"{columns_named(guesses)} may be the labels"
                self.fault(f"{many}; name one, or none", labels=guesses[0])
            return guesses[0] if guesses else None
        if labels in self.by_name:
            return labels
        if labels == "-1":
            return self.names[-1]
        raise self._unknown(labels)

    def _id(self) -> str | None:
        """The column of ids: the one that is named, or one of text that is called id or nothing."""
        wanted, reading = self.wanted.id, self.wanted.reading
        if wanted is not None:
            if wanted not in self.by_name:
                raise self._unknown(wanted)
            return wanted
        if reading is not None:
            return reading.id if reading.id in self.by_name else None
        for name in self.names:
            unnamed = name == self.names[0] and INDEX.fullmatch(name)
            if (name.lower() == "id" or unnamed) and self.by_name[name].kind == Kind.TEXT:
                values = self.table.texts(name)
                if len({*values}) == len(values) and name != self.wanted.labels:
                    return name
        return None

    def _ids(self, name: str) -> list[str]:
        ids = self.table.texts(name)
        twice, times = Counter(ids).most_common(1)[0]
        if times > 1:
            self.notes.append(f"ids are not unique: {twice!r} stands in {times:,} rows")
        return ids

    def _unknown(self, name: str, more: str = "") -> InputError:
        shown = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
        return InputError(
            f"{self.table.source} has no column {name!r}; its columns: {shown}{more}."
        )

    def place(self, sample: int) -> str:
        """Where a sample is in the table."""
        return f"row {self.table.row(sample):,}"


class Transposed(Choice):
    """A table whose rows are features and whose columns of numbers are samples."""

    def __post_init__(self) -> None:
        if self.wanted.id is not None:
            raise InputError("id is for tables with samples in rows; leave it or transpose out.")
        super().__post_init__()
        self.columns, self.features = self.features, []
        texts = [c.name for c in self.table.columns if c.kind == Kind.TEXT]
        self.named = bool(texts)
        names = unique(self.table.texts(texts[0])) if texts else []
        self.features = names or [str(i) for i in range(self.table.n)]

    def samples(self) -> tuple[Any, list[str] | None]:
        if not self.columns:
            self.refuse()
        X, reading = np.asarray(self.table.matrix(self.columns)).T, self.wanted.reading
        if reading is not None:
            X = X[:, reading.order(self.features, self.table.source, "row")]
            self.features = list(reading.features)
        return np.ascontiguousarray(X), self.columns if self.table.named else None

    def _again(self, reading: TableReading) -> None:
        self._choose()

    def place(self, sample: int) -> str:
        return f"column {self.columns[sample]!r}"

    def _label(self, names: Sequence[str]) -> str | None:
        if self.wanted.labels not in (None, NO_LABELS):
            raise InputError("labels of a transposed table come from a file with a column of ids.")
        return None

    def _id(self) -> str | None:
        return None

    def _left_out(self, why: str, names: Sequence[str]) -> None:
        super()._left_out(why, names[1:])  # the first one names the rows


def _counts(values: np.ndarray) -> np.ndarray:
    """Which columns of values (n, m) are consecutive integers."""
    values = values.astype(np.float64)
    whole = np.isfinite(values).all(axis=0) & (values == np.rint(values)).all(axis=0)
    return whole & (np.diff(values, axis=0) == 1).all(axis=0)


def _numbers_rows(values: np.ndarray) -> bool:
    """Whether they may be a data frame's index: whole numbers, each of them once."""
    whole = np.isfinite(values).all() and (values == np.rint(values)).all()
    return bool(whole) and len(np.unique(values)) == len(values)
