"""A finished run, read back from its folder.

It holds ``labels.csv``, ``model.safetensors`` where the method can be saved,
``features.safetensors`` where features were computed first, and ``run.json``. What a report is
drawn from (``details.npz``) and the report itself come after them.

Nothing here needs PyTorch or scikit-learn: what only reads a run starts at once.
"""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc._version import __version__
from dcfsc.errors import InputError
from dcfsc.journal import LIST, RECORD, settle

from .life import CHECKPOINT, LABELS, files_named, is_checkpoint

FORMAT = 2
ALL = "all:"  # begins a fingerprint; one without it, of an earlier version, is of some samples
AGAIN = "fit again, with --overwrite"


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run: its folder, the content of ``run.json``, and the labels (N,)."""

    folder: Path
    record: dict[str, Any]
    labels: np.ndarray


def read_run(run: str | os.PathLike[str]) -> Run:
    """A run's record and labels, or one line saying why the folder holds no whole run."""
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(
            f"there is no run in {folder}; make one with 'dcfsc fit ... --out {folder}'."
        )
    settle(folder)
    if not (folder / RECORD).is_file():
        if is_checkpoint(folder / CHECKPOINT):
            raise InputError(
                f"the run {folder} was interrupted while it trained; repeat its 'dcfsc fit' with "
                f"--out {folder} --resume."
            )
        if (folder / LIST).is_file():
            raise InputError(f"the run {folder} has lost its {RECORD}; {AGAIN}.")
        raise InputError(f"{folder} is not the folder of a run: it has no {RECORD}.")
    record = _read_record(folder / RECORD)
    labels = _read_labels(folder / LABELS)
    if len(labels) != record["data"]["n"]:
        raise InputError(
            f"{folder / LABELS} has {len(labels)} rows, but the run had {record['data']['n']} "
            f"samples; the file is damaged; {AGAIN}."
        )
    clusters = record.get("n_clusters", 1 + int(labels.max(initial=0)))
    if len(labels) and not 0 <= labels.min() <= labels.max() < clusters:
        raise InputError(
            f"{folder / LABELS} has labels outside 0 to {clusters - 1}; the file is damaged; "
            f"{AGAIN}."
        )
    for name in files_named(record):
        if not (folder / name).is_file():
            raise InputError(f"the run {folder} has lost its {name}; {AGAIN}.")
    return Run(folder, record, labels)


def read_columns(folder: Path) -> dict[str, list[str]]:
    """The columns of a run's ``labels.csv`` as text, by name."""
    path = folder / LABELS
    try:
        with open(path, encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
        for name in ("confidence", "next_best"):
            np.array(columns[name], np.float64)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; {AGAIN}.") from None
    except (ValueError, KeyError, csv.Error):
        raise InputError(
            f"{path} is damaged, or was written by an earlier dcfsc; {AGAIN}."
        ) from None
    return columns


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        written = int(record["dcfsc_run"])
        complete = {"method", "parameters", "model"} <= record.keys() and "n" in record["data"]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InputError(f"{path} is damaged or not written by dcfsc; {AGAIN}.") from None
    if written < FORMAT:
        raise InputError(
            f"{path} was written by an earlier dcfsc in format {written}, which is no longer read; "
            f"{AGAIN}."
        )
    if written > FORMAT:
        raise InputError(
            f"{path} has the format {str(record['dcfsc_run'])[:20]}; this is dcfsc {__version__}, "
            f"which reads up to format {FORMAT}. Upgrade dcfsc."
        )
    if not complete:
        raise InputError(f"{path} is damaged: it lacks the method or the data; {AGAIN}.")
    n, clusters = record["data"]["n"], record.get("n_clusters", 1)
    counts = all(isinstance(v, int) and not isinstance(v, bool) for v in (n, clusters))
    if not counts or not 1 <= clusters <= n or not isinstance(record["method"], str):
        raise InputError(
            f"{path} is damaged: {str(clusters)[:20]} clusters of {str(n)[:20]} samples by the "
            f"method {str(record['method'])[:20]!r} are not a valid run; {AGAIN}."
        )
    return record


def _read_labels(path: Path) -> np.ndarray:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            labels = np.array([int(row["label"]) for row in csv.DictReader(file)], np.int64)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; {AGAIN}.") from None
    except (ValueError, KeyError, TypeError, OverflowError, csv.Error):
        raise InputError(f"{path} is damaged in its column 'label'; {AGAIN}.") from None
    return labels
