"""Write a run's files: all of them or none; then its report."""

from __future__ import annotations

import json
import warnings
from itertools import count
from pathlib import Path
from typing import Any

from dcfsc.errors import reason
from dcfsc.estimators.persistence import name_features
from dcfsc.io import Dataset
from dcfsc.journal import RECORD, RUN, digest, filling
from dcfsc.report import write_details, write_report

from . import life
from .cluster_tables import write_clusters, write_differences
from .details import describe_details
from .outputs import adopt_held
from .tables import certainty_columns, write_labels
from .trust import remember


def write_run(
    folder: Path, record: dict[str, Any], data: Dataset, estimator: Any, transformer: Any = None
) -> None:
    """All files, or none of them: an earlier run in the folder is whole until this one is.

    Its predictions and exports stay; its edits are kept as ``edits.1.json``. The caller holds the
    folder. The ``record`` is given the digests of the other files.
    """
    adopt_held(folder)
    first = estimator if transformer is None else transformer
    if (names := data.feature_names) is not None and data.X.shape[1:] == (len(names),):
        name_features(first, names)
    spent = [life.CHECKPOINT] if life.is_checkpoint(folder / life.CHECKPOINT) else []
    renames = _kept_edits(folder)
    changes: dict[str, Any] = {"removes": life.REPLACED, "spent": spent, "renames": renames}
    with filling(folder, RUN, last=RECORD, **changes) as place:
        sure = certainty_columns(estimator.confidence_, estimator.next_best_)
        write_labels(place / life.LABELS, data, estimator.labels_, sure)
        if record["model"]:
            estimator.write_model(place / life.MODEL)
        if transformer is not None:
            transformer.write_model(place / life.FEATURES)
        record["files"] = {path.name: digest(path) for path in sorted(place.iterdir())}
        text = json.dumps(record, indent=2, allow_nan=False) + "\n"
        (place / RECORD).write_text(text, encoding="utf-8")
        labels = estimator.labels_
        of_each = labels, labels.astype(str).tolist(), estimator.confidence_, estimator.next_best_
        write_clusters(place / life.CLUSTERS, data.sample_names, *of_each)
        if data.paths is not None:
            remember(place / RECORD)
    for name in renames.values():
        warnings.warn(f"the edits of the earlier run are kept as {folder / name}.", stacklevel=2)


def _kept_edits(folder: Path) -> dict[str, str]:
    if not (folder / life.EDITS).is_file():
        return {}
    free = (f"edits.{i}.json" for i in count(1))
    return {life.EDITS: next(name for name in free if not (folder / name).exists())}


def add_report(folder: Path, record: dict[str, Any], data: Dataset, estimator: Any) -> None:
    """Write ``details.npz`` and ``report.html`` beside a finished run, or say why not."""
    try:
        details = describe_details(estimator, data)
        with filling(folder, RUN, removes=()) as place:
            write_details(place / life.DETAILS, details, record["files"][life.LABELS])
            if len(details.profile):
                write_differences(place / life.DIFFERENCES, details)
        with filling(folder, RUN, removes=()) as place:
            options = {"ids": data.sample_names, "base": folder.absolute()}
            write_report(place / life.REPORT, record, details, **options)
    except Exception as error:  # whatever it is, the run is whole and must not seem to have failed
        warnings.warn(
            f"the run is saved in {folder}, but its report could not be made: "
            f"{type(error).__name__}: {reason(error)}",
            RuntimeWarning,
            stacklevel=3,
        )
