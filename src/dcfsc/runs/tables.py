"""Tables of samples as .csv files that readers and spreadsheets take alike."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.io import Dataset

Columns = Mapping[str, Iterable[Any]]
# Where a spreadsheet begins to read: at the start of a cell, and after what it may split it at.
_FORMULA = re.compile(r"(^|[;\t\r\n])(?='*[=+\-@\t\r\n])")
_MARKED = re.compile(r"(^|[;\t\r\n])'(?='*[=+\-@\t\r\n])")


def write_labels(path: Path, data: Dataset, labels: np.ndarray, more: Columns) -> None:
    """One row a sample: index, [id], [path], label, the columns ``more``, [true_label]."""
    truth = None
    if data.y is not None:
        names, y = data.label_names, data.y.tolist()
        truth = [str(k) if names is None else names[k] for k in y]
    columns = {"label": labels.tolist(), **more}
    write_samples(path, len(labels), data.relative_paths, columns, truth, data.ids)


def write_samples(
    path: Path,
    n: int,
    paths: Sequence[str] | None,
    columns: Columns,
    truth: Sequence[str] | None,
    ids: Sequence[str] | None = None,
) -> None:
    """One row for each of n samples: its index, id, path, ``columns`` and true label.

    An id, a path or a class that a spreadsheet would take for a formula has an apostrophe in front.
    """
    if paths is not None:
        columns = {"path": map(no_formula, paths), **columns}
    if ids is not None:
        columns = {"id": map(no_formula, ids), **columns}
    if truth is not None:
        columns = {**columns, "true_label": map(no_formula, truth)}
    write_table(path, {"index": range(n), **columns})


def certainty_columns(confidence: np.ndarray, next_best: np.ndarray) -> Columns:
    return {
        "confidence": (f"{value:.4f}" for value in confidence),
        "next_best": next_best.tolist(),
    }


def write_table(path: Path, columns: Columns) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        plain = csv.writer(file, lineterminator="\n")
        quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        plain.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            # without quotes a carriage return would end the row
            ends = any(isinstance(cell, str) and "\r" in cell for cell in row)
            (quoted if ends else plain).writerow(row)


def no_formula(text: str) -> str:
    """The text, with apostrophes where a spreadsheet would compute it; integers are harmless."""
    return text if re.fullmatch(r"-[0-9]+", text) else _FORMULA.sub(r"\1'", text)


def formula_removed(text: str) -> str:
    return _MARKED.sub(r"\1", text)
