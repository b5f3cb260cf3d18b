"""What ``run.json`` says: of a run before it is done, and of what came out of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dcfsc import metrics, processes
from dcfsc.errors import without_folders
from dcfsc.estimators.encoder_features import PretrainedFeatures
from dcfsc.estimators.persistence import encode_parameter
from dcfsc.io import Dataset
from dcfsc.io.digest import digest_of, digest_of_labels
from dcfsc.io.images import Reading, check_size
from dcfsc.io.table_reading import TableReading
from dcfsc.io.working_size import FULL
from dcfsc.machine import machine, resolve_device, versions
from dcfsc.selection import Suggestion

from .folder import ALL, CHOSEN, CHOSEN_BY_VIEWS, FORMAT
from .life import FEATURES, MODEL
from .ranges import column_ranges
from .request import RunRequest
from .verdict import verdict

PASSING = ("device", "verbose", "callbacks", "checkpoint", "checkpoint_every")
CANDIDATES_KEPT = 10  # for the number of clusters, where it was not given


def describe_run(
    request: RunRequest, estimator: Any, transformer: Any, suggestion: Suggestion | None
) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    device = resolve_device(params.get("device", "cpu"))
    command = request.command
    if command is not None and request.data.paths is not None:
        command = without_folders(command)  # the data folder has a field of its own
    return {
        "dcfsc_run": FORMAT,
        "method": request.method,
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_clusters": int(params["n_clusters"]),
        "seed": encode_parameter("random_state", params["random_state"]),
        "parameters": _encoded(estimator),
        "data": {**describe_data(request.data), "ranges": column_ranges(request.data.X)},
        "versions": versions(),
        "machine": {**machine(device), **processes.described(device)},
        "features": _describe_features(request.features, transformer),
        "suggestion": None if suggestion is None else suggestion.to_dict(CANDIDATES_KEPT),
    }


def _describe_features(name: str | None, transformer: Any) -> dict[str, Any] | None:
    if transformer is None:
        return None
    features = {"name": name, "parameters": _encoded(transformer), "file": FEATURES}
    if isinstance(transformer, PretrainedFeatures):
        features["encoder"] = transformer.open().title
    return features


def describe_data(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "n": len(data),
        "shape": list(data.X.shape[1:]),
        "dtype": "text" if data.X.ndim == 1 else str(data.X.dtype),
        "fingerprint": fingerprint(data.X),
        "classes": data.n_classes,
        "labels": digest_of_labels(data.y),
        "notes": data.notes,
        "broken": list(data.broken),
        "directory": None if data.paths is None else os.path.abspath(data.folder or ""),
        "reading": None if data.reading is None else asdict(data.reading),
        "photographs": data.photographs,
    }


def reading_of(record: dict[str, Any]) -> Reading | TableReading | None:
    """How the images or the table of a run were read; None in the record of an older run."""
    values = record["data"].get("reading")
    if not isinstance(values, dict):
        return None
    try:
        if "features" in values:
            return TableReading.from_record(values)
        size = check_size(tuple(values["size"]))
        levels = tuple(map(int, values.get("levels", FULL)))
        channels = None if (c := values.get("channels")) is None else tuple(map(int, c))
        reading = Reading(**{**values, "size": size, "levels": levels, "channels": channels})
        ranges = reading.ranges()
        whole = size is not None and len(ranges) == len(channels or (1,)) and reading.page >= 0
        return reading if whole and all(low < high for low, high in ranges) else None
    except (KeyError, TypeError, ValueError):
        return None  # of another version


def fingerprint(X: Any) -> str:
    return f"{ALL}{digest_of(X):x}"


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Fields in which two runs differ, ignoring time, machine and verbosity."""
    fields, others = _identity(one), _identity(other)
    return [n for n in sorted(fields.keys() | others.keys()) if fields.get(n) != others.get(n)]


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    def choices(step: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in step["parameters"].items() if k not in PASSING}

    known_by = ("n", "shape", "dtype", "fingerprint", "labels")
    data = {f"data's {k}": record["data"].get(k) for k in known_by}
    features = record.get("features")
    if features is not None:
        features = {**features, "parameters": choices(features)}
    fields = {"method": record["method"], **choices(record), **data, "features": features}
    return json.loads(json.dumps(fields))


def describe_result(data: Dataset, estimator: Any) -> dict[str, Any]:
    sizes = np.bincount(estimator.labels_, minlength=estimator.n_clusters_)
    fitted = vars(estimator)
    result = {
        **{name: fitted.get(f"{name}_") for name in (*CHOSEN, *CHOSEN_BY_VIEWS)},
        "cluster_sizes": sizes.tolist(),
        "confidence": float(np.mean(estimator.confidence_)),
        "scores": None if data.y is None else metrics.score(data.y, estimator.labels_),
        "history": list(fitted.get("history_", ())),
        "model": MODEL if hasattr(estimator, "save") else None,
    }
    result["verdict"] = verdict(result)
    # through JSON and back: NumPy's numbers become Python's, and NaN, which JSON lacks, None
    text = json.dumps(result, default=lambda value: value.tolist())
    return json.loads(text, parse_constant=lambda constant: None)


def _encoded(step: Any) -> dict[str, Any]:
    params = step.get_params(deep=False)
    return {name: encode_parameter(name, value) for name, value in params.items()}
