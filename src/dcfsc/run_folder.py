"""A run's folder: what lies in it, how it is read back, and which folder a new run may take.

Nothing here needs the numerical libraries: what only reads a run starts at once.
"""

from __future__ import annotations

import csv
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from dcfsc._version import __version__
from dcfsc.errors import InputError

FORMAT = 1
RECORD, LABELS, MODEL = "run.json", "labels.csv", "model.safetensors"
PREDICTIONS, DETAILS, REPORT = "predictions.csv", "details.npz", "report.html"


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
