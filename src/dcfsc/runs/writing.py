"""Write a run's files: all of them or none; then its report."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from dcfsc.datasets import Dataset
from dcfsc.files import atomic_path, write_text
from dcfsc.report import write_details, write_report

from .details import describe_details
from .life import DETAILS, FEATURES, LABELS, MODEL, RECORD, REPORT, staged
from .tables import certainty_columns, write_labels


def write_run(
    folder: Path, record: dict[str, Any], data: Dataset, estimator: Any, transformer: Any = None
) -> None:
    """All files, or none of them: an earlier run in the folder is whole until this one is."""
    with staged(folder) as place:
        with atomic_path(place / LABELS) as part:
            sure = certainty_columns(estimator.confidence_, estimator.next_best_)
            write_labels(part, data, estimator.labels_, sure)
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
