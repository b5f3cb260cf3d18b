"""From a table to samples: its gaps, its doubtful values, and the record of how it was read."""

from __future__ import annotations

from shlex import quote
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.dataset import Dataset, encode_labels
from dcfsc.io.streamed import Streamed, Taken, blocks
from dcfsc.io.table_choice import Choice, Transposed
from dcfsc.io.table_columns import Table, Wanted, as_labels
from dcfsc.io.table_reading import DROP_ROWS, MEDIAN, NAMED, TableReading, columns_named, fill

JUDGED_ROWS, JUDGED_COLUMNS = 10_000, 200  # in which doubtful values are looked for
FEW_VALUES, MANY_ROWS = 12, 50
SENTINELS = (-99, -999, -9999, -99999, 999, 9999, 99999)  # that stand for missing values


def to_dataset(table: Table, wanted: Wanted) -> Dataset:
    """The samples of a table, or one error that says all that is the matter with it."""
    choice = Transposed(table, wanted) if wanted.transpose else Choice(table, wanted)
    X, ids = choice.samples()
    X, kept, medians = complete(X, choice)
    doubt(X, choice)
    labels = choice.labels()
    choice.refuse()
    if kept is not None:
        ids = ids or [str(table.row(i)) for i in range(table.n)]  # to tell which rows are left
        rows = kept.nonzero()[0].tolist()
        ids, labels = (None if each is None else [each[i] for i in rows] for each in (ids, labels))
    y, names = None, None
    if labels is not None:
        try:
            y, names = encode_labels(as_labels(labels), table.source)
            choice.notes.append(f"labels from column {choice.label!r}")
        except InputError:
            if wanted.labels is not None:
                raise
            choice.notes.append(f"column {choice.label!r} is no classes and was left out")
    return Dataset(
        table.name,
        X,
        y,
        ids=ids,
        label_names=names,
        notes="; ".join([*table.notes, *choice.notes, *choice.doubts]),
        feature_names=choice.features if choice.named and choice.features else None,
        reading=TableReading(
            tuple(choice.features),
            choice.vector,
            choice.id,
            choice.text,
            missing=wanted.filling,
            medians=medians,
            transpose=wanted.transpose,
        ),
    )


def complete(X: Any, choice: Choice) -> tuple[Any, np.ndarray | None, tuple[float, ...]]:
    """X without gaps, the rows that are kept (None for all), and the medians, if used."""
    how, reading = choice.wanted.filling, choice.wanted.reading
    if choice.text is not None:
        return *_with_text(X, choice), ()
    if X.dtype.kind != "f" or (isinstance(X, Streamed) and how is None):
        return X, None, ()
    counts, rows = np.zeros(X.shape[1], np.int64), np.zeros(len(X), bool)
    for start, block in blocks(X):
        gaps = ~np.isfinite(block)
        counts += gaps.sum(axis=0)
        rows[start : start + len(block)] = gaps.any(axis=1)
    medians = reading.medians if reading and reading.missing == MEDIAN else ()
    if how == MEDIAN and not medians:
        medians = _medians(X, choice)
    if not rows.any():
        return X, None, medians
    total, where = int(counts.sum()), _gaps(counts, choice)
    if how is None:
        several = "s" if total > 1 else ""
        remedy = "" if reading is None else "; fill them in, or leave these rows out"
        choice.fault(
            f"{total:,} missing or infinite value{several}, in {int(rows.sum()):,} of "
            f"{len(X):,} rows (the first is {choice.place(int(rows.argmax()))}): {where}{remedy}",
            missing=DROP_ROWS,
        )
    elif how == MEDIAN:
        choice.notes.append(f"{total:,} missing values in {where} were set to the median")
        X = fill(X, medians)
    elif rows.all():
        choice.fault(f"all rows have missing values, in {where}", missing=MEDIAN)
    else:
        choice.notes.append(
            f"{int(rows.sum()):,} of {len(X):,} rows with missing values in {where} were left out"
        )
        X = Taken(X, (~rows).nonzero()[0]) if isinstance(X, Streamed) else X[~rows]
        return X, ~rows, medians
    return X, None, medians


def _with_text(X: np.ndarray, choice: Choice) -> tuple[np.ndarray, np.ndarray | None]:
    kept = np.array([bool(text.strip()) for text in X])
    if kept.all() or choice.faults:
        return X, None
    if not kept.any():
        choice.fault(f"column {choice.text!r} is empty")
    choice.notes.append(f"{(~kept).sum():,} of {len(X):,} rows without a text were left out")
    return X[kept], kept


def _gaps(counts: np.ndarray, choice: Choice) -> str:
    wrong = counts.nonzero()[0]
    names = choice.features or [str(j) for j in range(len(counts))]
    told = [f"{names[j]} ({counts[j]:,})" for j in wrong[:NAMED].tolist()]
    return ", ".join(told) + (f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else "")


def doubt(X: Any, choice: Choice) -> None:
    """Mention columns that may be codes, and values that may stand for missing ones."""
    if not 0 < len(choice.features) <= JUDGED_COLUMNS or X.shape[1] != len(choice.features):
        return
    start = np.asarray(X[:JUDGED_ROWS])
    codes = []
    for name, values in zip(choice.features, start.T, strict=True):
        different = np.unique(values[np.isfinite(values)])
        if len(values) >= MANY_ROWS and 1 < len(different) <= FEW_VALUES:
            codes += [name] if (different == np.rint(different)).all() else []
        _doubt_sentinels(name, values, different, choice)
    if 0 < 2 * len(codes) < len(choice.features):
        choice.doubts.append(
            f"{columns_named(codes)} with few different integers; if they are codes, add "
            f"--ignore {quote(','.join(codes[:NAMED]))}"
        )


def _doubt_sentinels(name: str, values: np.ndarray, different: np.ndarray, choice: Choice) -> None:
    for mark in SENTINELS:
        others = different[different != mark]
        if len(others) == len(different) or len(others) < 2:
            continue
        gap = others[0] - mark if mark < 0 else mark - others[-1]
        if gap > others[-1] - others[0]:
            count = int((values == mark).sum())
            choice.doubts.append(
                f"column {name!r} holds {mark} in {count:,} rows: if that means missing, "
                "empty these cells"
            )


def _medians(X: Any, choice: Choice) -> tuple[float, ...]:
    on_disk = isinstance(X, Streamed) and choice.vector is None  # where a column is read alone
    medians = []
    for j in range(X.shape[1]):
        column = choice.table.matrix([choice.features[j]])[:, 0] if on_disk else X[:, j]
        values = column[np.isfinite(column)]
        medians.append(float(np.median(values)) if len(values) else 0.0)
    return tuple(medians)
