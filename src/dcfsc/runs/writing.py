"""Write a run's files: all of them or none; then its report."""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.datasets import Dataset
from dcfsc.files import atomic_path, write_text
from dcfsc.report import write_details, write_report

from .details import describe_details
from .life import DETAILS, FEATURES, LABELS, MODEL, RECORD, REPORT, staged

Columns = Mapping[str, Iterable[Any]]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")


def write_run(
    folder: Path, record: dict[str, Any], data: Dataset, estimator: Any, transformer: Any = None
) -> None:
    """All files, or none of them: an earlier run in the folder is whole until this one is."""
    with staged(folder) as place:
        with atomic_path(place / LABELS) as part:
            write_labels(part, data, estimator.labels_, _certainty(estimator))
        if record["model"]:
            estimator.save(place / MODEL)
        if transformer is not None:
            transformer.save(place / FEATURES)
        write_text(place / RECORD, json.dumps(record, indent=2, allow_nan=False) + "\n")


def add_report(folder: Path, record: dict[str, Any], data: Dataset, estimator: Any) -> None:
    """Write ``details.npz`` and ``report.html`` beside a finished run, or say why not."""
    try:
        details = describe_details(estimator, data)
        write_details(folder / DETAILS, details)
        write_report(folder / REPORT, record, details)
    except Exception as error:  # whatever it is, the run is whole and must not seem to have failed
        reason = str(error).strip().splitlines()
        warnings.warn(
            f"the run is saved in {folder}, but its report could not be made: "
            f"{type(error).__name__}{': ' + reason[0] if reason else ''}",
            RuntimeWarning,
            stacklevel=3,
        )


def _certainty(estimator: Any) -> Columns:
    return certainty_columns(estimator.confidence_, estimator.next_best_)


def certainty_columns(confidence: np.ndarray, next_best: np.ndarray) -> Columns:
    """The columns that say how sure the labels are."""
    return {
        "confidence": (f"{value:.4f}" for value in confidence),
        "next_best": next_best.tolist(),
    }


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
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def no_formula(text: str) -> str:
    """The text, with an apostrophe where a spreadsheet would compute it; integers are harmless."""
    text = text.replace("\r", "\\r")  # not in quotes, and yet the end of a row to readers
    harmless = not text.startswith(FORMULA_STARTS) or re.fullmatch(r"-[0-9]+", text)
    return text if harmless else f"'{text}"
