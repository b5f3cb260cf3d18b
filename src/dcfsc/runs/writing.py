"""Write a run's files: all of them or none, ``run.json`` last; then its report."""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.datasets import Dataset
from dcfsc.files import atomic_path
from dcfsc.report import write_details, write_report

from .details import describe_details
from .folder import DETAILS, FEATURES, LABELS, MODEL, PREDICTIONS, RECORD, REPORT, write_errors

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")


def write_run(
    folder: Path, record: dict[str, Any], data: Dataset, estimator: Any, transformer: Any = None
) -> None:
    """All files, or none of them; ``run.json`` takes its place last."""
    with write_errors(folder), ExitStack() as files:
        # a stack is unwound from its end: what is entered first takes its place last
        record_part = files.enter_context(atomic_path(folder / RECORD))
        labels_part = files.enter_context(atomic_path(folder / LABELS))
        write_labels(labels_part, data, estimator.labels_)
        if record["model"]:
            estimator.save(files.enter_context(atomic_path(folder / MODEL)))
        if transformer is not None:
            transformer.save(files.enter_context(atomic_path(folder / FEATURES)))
        text = json.dumps(record, indent=2, allow_nan=False)
        record_part.write_text(text + "\n", encoding="utf-8")
        # The earlier run ends here: without its record, its files are not taken for a run, and
        # what was made from its model must not be taken for this one's.
        kept = {record["model"], FEATURES if transformer is not None else None}
        for name in {RECORD, MODEL, FEATURES, PREDICTIONS, DETAILS, REPORT} - kept:
            (folder / name).unlink(missing_ok=True)


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


def write_labels(path: Path, data: Dataset, labels: np.ndarray) -> None:
    """One row a sample: index, [path], label, [true_label].

    A path or a class that a spreadsheet would take for a formula has an apostrophe in front.
    """
    columns: dict[str, Iterable[Any]] = {"index": range(len(labels))}
    if data.paths is not None:
        columns["path"] = map(_no_formula, data.paths)
    columns["label"] = labels.tolist()
    if data.y is not None:
        names, y = data.label_names, data.y.tolist()
        columns["true_label"] = y if names is None else [_no_formula(names[k]) for k in y]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _no_formula(text: str) -> str:
    """The text, with an apostrophe where a spreadsheet would compute it; integers are harmless."""
    text = text.replace("\r", "\\r")  # not in quotes, and yet the end of a row to readers
    harmless = not text.startswith(FORMULA_STARTS) or re.fullmatch(r"-[0-9]+", text)
    return text if harmless else f"'{text}"
