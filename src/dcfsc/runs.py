"""Runs on disk: fit and write a run's folder, read it back, label new samples with its model.

A run's folder holds ``labels.csv``, ``model.safetensors`` where the method can be saved,
``features.safetensors`` where features were computed first, and ``run.json``. The last is written
last: where it is, the run is whole. What a report is drawn from
(``details.npz``) and the report itself come after it.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch

from dcfsc import affinity as affinities
from dcfsc import distributed, metrics, run_checkpoint
from dcfsc._version import __version__
from dcfsc.datasets import Dataset
from dcfsc.errors import InputError, unknown_name
from dcfsc.estimators import ScatteringFeatures
from dcfsc.estimators.features import create_features, load_features
from dcfsc.estimators.methods import create, load_model
from dcfsc.estimators.persistence import encode_parameter
from dcfsc.estimators.validation import resolve_device
from dcfsc.files import atomic_path
from dcfsc.report import write_details, write_report
from dcfsc.run_clusters import suggest_for_run
from dcfsc.run_details import describe_details
from dcfsc.run_folder import (
    DETAILS,
    FORMAT,
    LABELS,
    MODEL,
    PREDICTIONS,
    RECORD,
    REPORT,
    Run,
    alone_in,
    read_run,
    reserved,
    room_for,
    write_errors,
)
from dcfsc.spectral.assignment import METHODS as ASSIGNMENTS

FEATURES = "features.safetensors"
CHOSEN = ("lam_", "effective_dof_", "features_", "transformations_", "metric_", "stability_")
CANDIDATES_KEPT = 10  # for the number of clusters, where it was not given
BLOCK_BYTES = 1 << 26  # of X looked at together when it is searched for NaN


def fit_run(
    data: Dataset,
    method: str,
    options: Mapping[str, Any],
    out: Path | None = None,
    *,
    command: str | None = None,
    progress: bool = True,
    started: Callable[[dict[str, Any]], None] | None = None,
    report: bool = False,
    features: str | None = None,
    resume: bool = False,
    share: slice = slice(None),
    fit: Callable[[Any, Any, Any], dict[str, float]] | None = None,
) -> Run:
    """Cluster ``data`` by a method's name and write the run's folder.

    Input and folder are checked before the work; if anything fails, nothing stays behind and an
    earlier run in ``out`` is as it was. The data's labels only score the result.

    Parameters
    ----------
    method : str
        A name of ``dcfsc.estimators.methods.METHODS``.
    options : mapping
        Parameters of its estimator, ``n_clusters`` among them; None means not given. Without
        ``random_state`` a seed is drawn, and recorded. ``n_clusters="auto"`` takes the first of
        :func:`dcfsc.suggest_k`'s candidates, which are recorded.
    out : Path or None
        A new or empty folder, or an earlier run, which is replaced. None is
        ``runs/<data>[-<features>]-<method>``, with a number appended if that is taken.
    command : str or None
        The command line, for the record.
    progress : bool
        Whether the method may show a progress bar.
    started : callable or None
        Is given the record so far once the input has been found good.
    report : bool
        Whether to write the details and the page; a failure there is a warning, the run stays.
    features : str or None
        A name of ``dcfsc.estimators.features.FEATURES``, computed first and clustered instead of
        the samples. Options that are not the method's are its.
    resume : bool
        Go on from the folder's checkpoint, if there is one. Training keeps one there until the run
        is whole.
    share, fit : slice, callable or None
        The samples that this process has to look at, and what fits in place of
        :func:`timed_fit`; for runs of many processes.
    """
    given = dict(options)
    if given.get("random_state") is None:
        given["random_state"] = int(np.random.SeedSequence().generate_state(1)[0])
    transformer = None
    if features is not None:
        transformer, given = create_features(features, method, given)
    estimator = create(method, **given)
    steps = [step for step in (estimator, transformer) if step is not None]
    suggestion = None
    if isinstance(given.get("n_clusters"), str) and given["n_clusters"] == "auto":
        check_samples(data, share)
        suggestion = suggest_for_run(data, {**options, **given}, features)
        given["n_clusters"] = suggestion.k
        estimator.set_params(n_clusters=suggestion.k)
    check_clusters(given.get("n_clusters"), data)
    check_samples(data, share)
    for step in steps:
        check_choices(step.get_params(deep=False))
        if not progress and "verbose" in step.get_params(deep=False):
            step.set_params(verbose=False)
    record = describe_run(data, method, estimator, command)
    record["features"] = describe_features(features, transformer)
    record["suggestion"] = None if suggestion is None else suggestion.to_dict(CANDIDATES_KEPT)
    stem = "-".join(filter(None, (data.name, features, method)))
    folder = run_checkpoint.choose_folder(stem, out, resume)
    room = room_for(data, method, features)
    with reserved(folder, exist_ok=resume or out is not None, room=room), alone_in(folder):
        if started is not None:
            started(record)
        with run_checkpoint.kept(estimator, folder, command):
            record["timings"] = (fit or timed_fit)(data.X, transformer, estimator)
        record |= describe_result(data, estimator)
        write_run(folder, record, data, estimator, transformer)
        run_checkpoint.remove(folder)
        if report:
            add_report(folder, record, data, estimator)
    return Run(folder, record, np.asarray(estimator.labels_))


def timed_fit(X: Any, transformer: Any, estimator: Any) -> dict[str, float]:
    """Fit the estimator on X or on its features; the seconds that each took."""
    timings = {}
    begin = time.perf_counter()
    if transformer is None:
        X = in_memory(X)
    else:
        X = transformer.fit_transform(readable(X, transformer))
        timings["features_seconds"] = round(time.perf_counter() - begin, 4)
        begin = time.perf_counter()
    estimator.fit(X)
    timings["fit_seconds"] = round(time.perf_counter() - begin, 4)
    return timings


def predict_run(
    run: str | os.PathLike[str], data: Dataset, out: Path | None = None, *, device: str = "auto"
) -> np.ndarray:
    """Label ``data`` (n, ...) with a run's model; write and return the labels (n,).

    ``out`` is the file to write, by default ``predictions.csv`` in the run's folder.
    """
    saved = read_run(run)
    if not saved.record["model"]:
        raise InputError(
            f"the method {saved.record['method']!r} of the run {run} labels only the samples it "
            "was fitted on; fit the new samples, or use a method with a model, such as "
            "closed-form or dcfsc."
        )
    check_samples(data)
    check_device(device)
    target = Path(out) if out is not None else saved.folder / PREDICTIONS
    if target.is_dir():
        raise InputError(f"{target} is a folder; give the name of a .csv file.")
    model: Any = load_model(saved.folder / MODEL, device=device)
    transformer: Any = None
    if saved.record.get("features"):
        transformer = load_features(saved.folder / FEATURES, device=device)
    with reserved(target.parent, exist_ok=True):
        if transformer is None:
            X = in_memory(data.X)
        else:
            X = transformer.transform(readable(data.X, transformer))
        labels = np.asarray(model.predict(X))
        with write_errors(target), atomic_path(target) as part:
            write_labels(part, data, labels)
    return labels


def check_clusters(n_clusters: Any, data: Dataset) -> None:
    """2 <= K <= N, a whole number."""
    if not isinstance(n_clusters, int | np.integer) or isinstance(n_clusters, bool):
        raise InputError(f"the number of clusters must be a whole number; got {n_clusters!r}.")
    if n_clusters < 2:
        raise InputError(f"the number of clusters must be at least 2; got {n_clusters}.")
    if n_clusters > len(data):
        raise InputError(
            f"{n_clusters} clusters were asked for, but {data.name} has only {len(data)} samples."
        )


def check_samples(data: Dataset, share: slice = slice(None)) -> None:
    """X holds real numbers, all of them finite; a file larger than memory is read in blocks."""
    X = data.X
    first, stop, _ = share.indices(len(X))
    if X.dtype.kind not in "biuf":
        raise InputError(f"{data.name} holds values of type {X.dtype}, not real numbers.")
    if X.dtype.kind != "f":
        return  # integers are finite: images in a folder need not be decoded to know it
    rows = max(1, BLOCK_BYTES // max(1, X[0].nbytes))
    wrong = np.zeros(len(X), np.int64)
    for start in range(first, stop, rows):
        block = X[start : min(start + rows, stop)]
        wrong[start : start + len(block)] = (~np.isfinite(block)).reshape(len(block), -1).sum(1)
    if wrong.any():
        raise InputError(
            f"{data.name} has {wrong.sum()} values that are NaN or infinite, the first in row "
            f"{wrong.nonzero()[0][0]} (counted from 0); fill them in or leave those samples out."
        )


def check_choices(params: Mapping[str, Any]) -> None:
    """Find a wrong choice before the work that comes before its use."""
    if "affinity" in params:
        affinities.get(params["affinity"], params["n_clusters"])
    if params.get("assign", "kmeans") not in ASSIGNMENTS:
        raise unknown_name("assignment method", params["assign"], ASSIGNMENTS)
    if "device" in params:
        check_device(params["device"])
    for name in ("subspace_dim", "learning_rate"):
        value = params.get(name)
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name.replace('_', '-')} must be a positive number; got {value}.")


def check_device(device: Any) -> None:
    if isinstance(device, str) and not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise unknown_name("device", device, ("auto", "cpu", "cuda", "cuda:0"))
    index = resolve_device(device).index
    if index is not None and index >= torch.cuda.device_count() > 0:
        raise InputError(
            f"device {device!r} was asked for, but the last one here is "
            f"'cuda:{torch.cuda.device_count() - 1}'."
        )


def describe_run(data: Dataset, method: str, estimator: Any, command: str | None) -> dict[str, Any]:
    """What a run is, before it is done."""
    params = estimator.get_params(deep=False)
    return {
        "dcfsc_run": FORMAT,
        "method": method,
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_clusters": int(params["n_clusters"]),
        "seed": encode_parameter("random_state", params["random_state"]),
        "parameters": {name: encode_parameter(name, value) for name, value in params.items()},
        "data": describe_data(data),
        "versions": versions(),
        "machine": machine(params.get("device", "cpu")),
    }


def describe_features(name: str | None, transformer: Any) -> dict[str, Any] | None:
    """How the features were made, or None where the samples themselves were clustered."""
    if transformer is None:
        return None
    params = transformer.get_params(deep=False)
    return {
        "name": name,
        "parameters": {key: encode_parameter(key, value) for key, value in params.items()},
        "file": FEATURES,
    }


def describe_data(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "n": len(data),
        "shape": list(data.X.shape[1:]),
        "dtype": str(data.X.dtype),
        "classes": data.n_classes,
        "notes": data.notes,
    }


def describe_result(data: Dataset, estimator: Any) -> dict[str, Any]:
    """What came out of a run."""
    sizes = np.bincount(estimator.labels_, minlength=estimator.n_clusters)
    result = {
        **{name: getattr(estimator, name, None) for name in CHOSEN},
        "cluster_sizes": sizes.tolist(),
        "scores": None if data.y is None else metrics.score(data.y, estimator.labels_),
        "history": list(getattr(estimator, "history_", ())),
        "model": MODEL if hasattr(estimator, "save") else None,
    }
    # through JSON and back: NumPy's numbers become Python's, and NaN, which JSON lacks, None
    text = json.dumps(result, default=lambda value: value.tolist())
    return json.loads(text, parse_constant=lambda constant: None)


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "dcfsc": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
    }


def machine(device: Any) -> dict[str, Any]:
    """The device that does the work, by its name, and the threads of the CPU."""
    resolved = resolve_device(device)
    cpu = platform.processor() or platform.machine()
    return {
        "device": str(resolved),
        "device_name": torch.cuda.get_device_name(resolved) if resolved.type == "cuda" else cpu,
        "threads": torch.get_num_threads(),
        **distributed.described(resolved),
        "system": f"{platform.system()} {platform.machine()}",
    }


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
    """One row a sample: index, [path], label, [true_label]."""
    columns: dict[str, Iterable[Any]] = {"index": range(len(labels))}
    if data.paths is not None:
        columns["path"] = data.paths
    columns["label"] = labels.tolist()
    if data.y is not None:
        names, y = data.label_names, data.y.tolist()
        columns["true_label"] = y if names is None else [names[k] for k in y]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def in_memory(X: np.ndarray) -> np.ndarray:
    """X itself, or a copy if it is a read-only map of a file, which torch cannot share."""
    return np.require(X, requirements=["W", "E"])


def readable(X: Any, transformer: Any) -> Any:
    """X as the transformer takes it: scattering only slices it, and reads what is on disk."""
    return X if isinstance(transformer, ScatteringFeatures) else in_memory(X)
