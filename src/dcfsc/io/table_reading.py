"""How a table's columns became samples, so that a later table is read in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.streamed import Derived, Streamed
from dcfsc.io.texts import text_array

DROP_ROWS, MEDIAN = "drop-rows", "median"
MISSING = (DROP_ROWS, MEDIAN)
NAMED = 5  # columns that a message names


@dataclass(frozen=True)
class TableReading:
    """How the columns of a table became samples.

    Parameters
    ----------
    features : tuple of str
        The columns that are compared, in order; of a transposed table, the names of its rows.
    vector : str or None
        The one column of lists that is the samples, in place of ``features``.
    id, text : str or None
        The columns with the samples' ids, and with their texts.
    missing : "drop-rows", "median" or None
        What is done with gaps: leave their rows out, or fill in the ``medians`` of the fit.
    medians : tuple of float
        One for each feature, if ``missing`` is "median".
    transpose : bool
        Whether the rows are features and the columns samples.
    components : int
        The number of leading components of a sparse matrix that are the samples, if they are.
    """

    features: tuple[str, ...] = ()
    vector: str | None = None
    id: str | None = None
    text: str | None = None
    missing: str | None = None
    medians: tuple[float, ...] = ()
    transpose: bool = False
    components: int = 0

    @classmethod
    def from_record(cls, values: dict[str, Any]) -> TableReading:
        """The reading that ``dataclasses.asdict`` made ``values`` of."""
        known: dict[str, Any] = {field.name: values[field.name] for field in fields(cls)}
        known |= {name: tuple(known[name]) for name in ("features", "medians")}
        return cls(**known)

    @property
    def columns(self) -> list[str]:
        """The columns to read from a file; ids are not needed, texts are."""
        return [*self.features, *(name for name in (self.vector, self.text) if name is not None)]

    def order(self, names: Sequence[str], source: object, kind: str = "column") -> list[int]:
        """The places of the features among ``names``."""
        place = {name: i for i, name in enumerate(names)}
        if absent := [name for name in self.features if name not in place]:
            raise InputError(f"{source} lacks {named_as(kind, absent)} of the run.")
        return [place[name] for name in self.features]

    def numbers(self, table: Any, source: object) -> np.ndarray:
        """The features of a pyarrow table as (n, features), gaps as NaN."""
        self._check(table, source)
        if self.vector is not None:
            return vectors(table.column(self.vector), self.vector, source)
        return matrix(table, self.features, source)

    def rows(self, table: Any, source: object) -> np.ndarray:
        """The samples (n, features) of a pyarrow table; gaps are filled in, or refused."""
        if self.text is not None:
            return text_array(self.texts(table, source))
        return self.filled(self.numbers(table, source), source)

    def _check(self, table: Any, source: object) -> None:
        names = table.schema.names
        if absent := [name for name in self.columns if name not in names]:
            raise InputError(f"{source} lacks {columns_named(absent)} of the run.")

    def texts(self, table: Any, source: object) -> list[str]:
        """The texts of a pyarrow table; missing ones are empty."""
        self._check(table, source)
        column = table.column(self.text)
        if is_numeric(column.type) or is_vector(column.type):
            raise InputError(f"{source}, column {self.text!r}: {column.type} is no text.")
        return texts(column)

    def complete(self, table: Any, source: object) -> Any:
        """The table without the rows that have gaps, if that is what is done with them.

        Rows without a text are always left out.
        """
        if self.text is not None:
            return table.filter([bool(text.strip()) for text in self.texts(table, source)])
        if self.missing != DROP_ROWS:
            return table
        return table.filter(np.isfinite(self.numbers(table, source)).all(axis=1))

    def filled(self, X: np.ndarray, source: object) -> np.ndarray:
        if X.dtype.kind != "f" or not (gaps := ~np.isfinite(X)).any():
            return X
        if len(self.medians) != X.shape[1]:
            columns = zip(self.features, gaps.any(axis=0), strict=False)
            wrong = [name for name, has_gaps in columns if has_gaps]
            where = f" in {columns_named(wrong)}" if wrong else ""
            raise InputError(
                f"{source} has {gaps.sum():,} missing or infinite values{where}; fill them in, or "
                "leave those rows out."
            )
        return fill(X, self.medians)


def columns_named(names: Sequence[str]) -> str:
    return named_as("column", names)


def named_as(kind: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{kind}{'s' * (len(names) > 1)} {', '.join(map(repr, names[:NAMED]))}{more}"


def fill(X: Any, medians: Sequence[float]) -> Any:
    """X (n, features) with a median in place of every value that is not finite."""
    values = np.asarray(medians, X.dtype)
    if isinstance(X, Streamed):
        return Derived(X, lambda rows: fill(rows, medians), X.shape[1:], X.dtype)
    return np.where(np.isfinite(X), X, values)


def is_numeric(kind: Any) -> bool:
    import pyarrow.types as pt

    return bool(
        pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind) or pt.is_decimal(kind)
    )


def is_vector(kind: Any) -> bool:
    """Whether cells of this type are lists of numbers."""
    import pyarrow.types as pt

    lists = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return bool(lists and (pt.is_integer(kind.value_type) or pt.is_floating(kind.value_type)))


def common_type(schema: Any, features: Iterable[str], missing: Iterable[str]) -> np.dtype:
    """The narrowest type that holds every feature column (float where cells are missing)."""
    import pyarrow.types as pt

    kinds, missing = [], {*missing}
    for name in features:
        kind = schema.field(name).type
        kind = kind.value_type if is_vector(kind) else kind
        if pt.is_boolean(kind):
            stored: Any = np.uint8
        else:
            stored = np.float64 if pt.is_decimal(kind) else kind.to_pandas_dtype()
        kinds.append(np.result_type(stored, np.float32) if name in missing else stored)
    return np.result_type(*{np.dtype(kind) for kind in kinds})


def matrix(table: Any, features: Sequence[str], source: object) -> np.ndarray:
    """Columns of numbers as (n, features), of the narrowest type that holds them."""
    wrong = [name for name in features if not is_numeric(table.schema.field(name).type)]
    if wrong:
        raise InputError(f"{source}: {columns_named(wrong)} of numbers in the run, not here.")
    missing = [name for name in features if table.column(name).null_count]
    X = np.empty((table.num_rows, len(features)), common_type(table.schema, features, missing))
    for j, name in enumerate(features):
        X[:, j] = table.column(name).to_numpy(**_copied(table.column(name)))
    return X


def _copied(column: Any) -> dict[str, bool]:
    """A batch's arrays are not copied unless it is allowed; a table's always are."""
    return {} if hasattr(column, "chunks") else {"zero_copy_only": False}


def vectors(column: Any, name: str, source: object) -> np.ndarray:
    """A column of equally long lists of numbers as (n, length)."""
    import pyarrow.compute as pc

    if not is_vector(column.type):
        raise InputError(f"{source}, column {name!r}: {column.type} is not a vector of numbers.")
    lengths = pc.unique(pc.list_value_length(column)).drop_null()
    if len(lengths) != 1:
        raise InputError(f"{source}, column {name!r}: vectors differ in length or are missing.")
    flat, length = pc.list_flatten(column), lengths[0].as_py()
    rows = flat.to_numpy(**_copied(flat)).reshape(-1, length)
    if not column.null_count:
        return rows
    X = np.full((len(column), length), np.nan, np.result_type(rows, np.float32))
    X[np.asarray(column.is_valid())] = rows
    return X


def texts(column: Any) -> list[str]:
    """A column's cells as text; missing ones are empty."""
    return ["" if value is None else str(value) for value in column.to_pylist()]
