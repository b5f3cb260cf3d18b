"""Runs on disk: fit and write a run's folder, read it back, label new samples with its model.

A run's folder holds ``labels.csv``, ``model.safetensors`` where the method can be saved, and
``run.json``. The last is written last: where it is, the run is whole.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch
from safetensors import SafetensorError

from dcfsc import affinity as affinities
from dcfsc import metrics
from dcfsc._version import __version__
from dcfsc.datasets import Dataset
from dcfsc.errors import InputError, unknown_name
from dcfsc.estimators.methods import create, load_model
from dcfsc.estimators.persistence import encode_parameter
from dcfsc.estimators.validation import resolve_device
from dcfsc.files import atomic_path
from dcfsc.spectral.assignment import METHODS as ASSIGNMENTS

FORMAT = 1
RECORD, LABELS, MODEL = "run.json", "labels.csv", "model.safetensors"
PREDICTIONS, REPORT = "predictions.csv", "report.html"
BLOCK_BYTES = 1 << 26  # of X looked at together when it is searched for NaN


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run: its folder, the content of ``run.json``, and the labels (N,)."""

    folder: Path
    record: dict[str, Any]
    labels: np.ndarray


def fit_run(
    data: Dataset,
    method: str,
    options: Mapping[str, Any],
    out: Path | None = None,
    *,
    command: str | None = None,
    progress: bool = True,
    started: Callable[[dict[str, Any]], None] | None = None,
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
        ``random_state`` a seed is drawn, and recorded.
    out : Path or None
        A new or empty folder, or an earlier run, which is replaced. None is
        ``runs/<data>-<method>``, with a number appended if that is taken.
    command : str or None
        The command line, for the record.
    progress : bool
        Whether the method may show a progress bar.
    started : callable or None
        Is given the record so far once the input has been found good.
    """
    given = dict(options)
    if given.get("random_state") is None:
        given["random_state"] = int(np.random.SeedSequence().generate_state(1)[0])
    estimator = create(method, **given)
    check_clusters(given.get("n_clusters"), data)
    check_samples(data)
    check_choices(estimator.get_params(deep=False))
    if not progress and "verbose" in estimator.get_params(deep=False):
        estimator.set_params(verbose=False)
    record = describe_run(data, method, estimator, command)
    folder = default_folder(f"{data.name}-{method}") if out is None else Path(out)
    check_replaceable(folder)
    with reserved(folder, exist_ok=out is not None):
        if started is not None:
            started(record)
        begin = time.perf_counter()
        estimator.fit(in_memory(data.X))
        record["timings"] = {"fit_seconds": round(time.perf_counter() - begin, 4)}
        record |= describe_result(data, estimator)
        write_run(folder, record, data, estimator)
    return Run(folder, record, np.asarray(estimator.labels_))


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
    with reserved(target.parent, exist_ok=True):
        labels = np.asarray(model.predict(in_memory(data.X)))
        with write_errors(target), atomic_path(target) as part:
            write_labels(part, data, labels)
    return labels


def read_run(run: str | os.PathLike[str]) -> Run:
    """A run's record and labels, or one line saying why the folder holds no whole run."""
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(f"there is no run's folder {folder}; 'dcfsc fit ... --out {folder}'.")
    if not (folder / RECORD).is_file():
        if (folder / MODEL).exists() or (folder / LABELS).exists():
            raise InputError(f"the run {folder} was cut short and has no {RECORD}; fit it again.")
        raise InputError(f"{folder} is not a run's folder: it has no {RECORD}.")
    record = _read_record(folder / RECORD)
    labels = _read_labels(folder / LABELS)
    if len(labels) != record["data"]["n"]:
        raise InputError(
            f"{folder / LABELS} has {len(labels)} rows, but the run had {record['data']['n']} "
            "samples; the file is damaged, fit again."
        )
    if record["model"] and not (folder / MODEL).is_file():
        raise InputError(f"the run {folder} has lost its {MODEL}; fit it again.")
    return Run(folder, record, labels)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        newer = int(record["dcfsc_run"]) > FORMAT
        complete = {"method", "parameters", "model"} <= record.keys() and "n" in record["data"]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is damaged or not written by dcfsc; fit again.") from None
    if newer:
        raise InputError(
            f"{path} has the format {record['dcfsc_run']}; this is dcfsc {__version__}, which "
            f"reads up to format {FORMAT}. Upgrade dcfsc."
        )
    if not complete:
        raise InputError(f"{path} is damaged: it lacks the method or the data; fit again.")
    return record


def _read_labels(path: Path) -> np.ndarray:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return np.array([int(row["label"]) for row in csv.DictReader(file)], np.int64)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; fit again.") from None
    except (ValueError, KeyError, TypeError, csv.Error):
        raise InputError(f"{path} is damaged in its column 'label'; fit again.") from None


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


def check_samples(data: Dataset) -> None:
    """X holds real numbers, all of them finite; a file larger than memory is read in blocks."""
    X = data.X
    if X.dtype.kind not in "biuf":
        raise InputError(f"{data.name} holds values of type {X.dtype}, not real numbers.")
    rows = max(1, BLOCK_BYTES // max(1, X[0].nbytes))
    wrong = np.zeros(len(X), np.int64)
    for start in range(0, len(X), rows):
        block = X[start : start + rows]
        wrong[start : start + rows] = (~np.isfinite(block)).reshape(len(block), -1).sum(axis=1)
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
        "lam_": getattr(estimator, "lam_", None),
        "effective_dof_": getattr(estimator, "effective_dof_", None),
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
        "system": f"{platform.system()} {platform.machine()}",
    }


def write_run(folder: Path, record: dict[str, Any], data: Dataset, estimator: Any) -> None:
    """All files, or none of them; ``run.json`` takes its place last."""
    with write_errors(folder), ExitStack() as files:
        # a stack is unwound from its end: what is entered first takes its place last
        record_part = files.enter_context(atomic_path(folder / RECORD))
        labels_part = files.enter_context(atomic_path(folder / LABELS))
        write_labels(labels_part, data, estimator.labels_)
        if record["model"]:
            estimator.save(files.enter_context(atomic_path(folder / MODEL)))
        text = json.dumps(record, indent=2, allow_nan=False)
        record_part.write_text(text + "\n", encoding="utf-8")
        # The earlier run ends here: without its record, its files are not taken for a run, and
        # what was made from its model must not be taken for this one's.
        for name in {RECORD, MODEL, PREDICTIONS, REPORT} - {record["model"]}:
            (folder / name).unlink(missing_ok=True)


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


def default_folder(name: str) -> Path:
    """The first free one of runs/name, runs/name-2, ..."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    candidates = (Path("runs", stem if i == 1 else f"{stem}-{i}") for i in count(1))
    return next(folder for folder in candidates if not folder.exists())


def check_replaceable(folder: Path) -> None:
    """A folder that exists must be empty or an earlier run: nothing else is ever overwritten."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder; choose another with --out.")
    with write_errors(folder):
        entries = sorted(p.name for p in folder.iterdir() if not p.name.endswith(".part"))
    if not entries:
        return
    with suppress(InputError):
        if RECORD in entries and _read_record(folder / RECORD):
            return
    raise InputError(
        f"{folder} has files in it ({', '.join(entries[:3])}{', ...' if entries[3:] else ''}) and "
        "is not an earlier run; choose a new or empty folder with --out."
    )


@contextmanager
def reserved(folder: Path, *, exist_ok: bool) -> Iterator[None]:
    """Make the folder and prove that it takes files; take it away again if the work fails."""
    made = [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=exist_ok)
            with tempfile.TemporaryFile(dir=folder):
                pass
        yield
    except BaseException:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
        raise


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """A folder that takes no files, or a full disk, in one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        message = f"cannot write to {path}: {reason}; choose another place with --out."
        raise InputError(message) from error


def in_memory(X: np.ndarray) -> np.ndarray:
    """X itself, or a copy if it is a read-only map of a file, which torch cannot share."""
    return np.require(X, requirements=["W", "E"])
