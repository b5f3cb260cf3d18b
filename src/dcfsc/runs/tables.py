"""Tables of samples as .csv files that readers and spreadsheets take alike."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.datasets import Dataset

Columns = Mapping[str, Iterable[Any]]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")


def write_labels(path: Path, data: Dataset, labels: np.ndarray, more: Columns) -> None:
    """One row a sample: index, [path], label, the columns ``more``, [true_label].

    A path or a class that a spreadsheet would take for a formula has an apostrophe in front.
    """
    columns: dict[str, Iterable[Any]] = {"index": range(len(labels))}
    if data.paths is not None:
        columns["path"] = map(no_formula, data.paths)
    columns["label"] = labels.tolist()
    columns |= more
    if data.y is not None:
        names, y = data.label_names, data.y.tolist()
        columns["true_label"] = y if names is None else [no_formula(names[k]) for k in y]
    write_table(path, columns)


def certainty_columns(confidence: np.ndarray, next_best: np.ndarray) -> Columns:
    """The columns that say how sure the labels are."""
    return {
        "confidence": (f"{value:.4f}" for value in confidence),
        "next_best": next_best.tolist(),
    }


def write_table(path: Path, columns: Columns) -> None:
    """A header with the names of the columns, and their values row by row."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def no_formula(text: str) -> str:
    """The text, with an apostrophe where a spreadsheet would compute it; integers are harmless."""
    text = text.replace("\r", "\\r")  # not in quotes, and yet the end of a row to readers
    harmless = not text.startswith(FORMULA_STARTS) or re.fullmatch(r"-[0-9]+", text)
    return text if harmless else f"'{text}"


def formula_removed(text: str) -> str:
    """The text that :func:`no_formula` was given, but for line breaks."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_STARTS) else text
