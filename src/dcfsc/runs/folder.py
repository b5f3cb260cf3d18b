"""A run's folder: what lies in it, how it is read back, and which folder a new run may take.

It holds ``labels.csv``, ``model.safetensors`` where the method can be saved,
``features.safetensors`` where features were computed first, and ``run.json``. The last is written
last: where it is, the run is whole. What a report is drawn from (``details.npz``) and the report
itself come after it.

Nothing here needs the numerical libraries: what only reads a run starts at once.
"""

from __future__ import annotations

import csv
import errno
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

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

FORMAT = 2
RECORD, LABELS, MODEL = "run.json", "labels.csv", "model.safetensors"
# A name in .part is never mistaken for a user's file.
LOCK = ".running.part"
ROOM_BYTES = 1 << 20
PREDICTIONS, DETAILS, REPORT = "predictions.csv", "details.npz", "report.html"
FEATURES = "features.safetensors"  # where features were computed first


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
    clusters = record.get("n_clusters", 1 + int(labels.max(initial=0)))
    if len(labels) and not 0 <= labels.min() <= labels.max() < clusters:
        raise InputError(
            f"{folder / LABELS} has labels outside 0 to {clusters - 1}; the file is damaged, fit "
            "again."
        )
    if record["model"] and not (folder / MODEL).is_file():
        raise InputError(f"the run {folder} has lost its {MODEL}; fit it again.")
    return Run(folder, record, labels)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        written = int(record["dcfsc_run"])
        complete = {"method", "parameters", "model"} <= record.keys() and "n" in record["data"]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InputError(f"{path} is damaged or not written by dcfsc; fit again.") from None
    if written < FORMAT:
        raise InputError(
            f"{path} was written by an earlier dcfsc in format {written}, which is no longer read; "
            "fit again."
        )
    if written > FORMAT:
        raise InputError(
            f"{path} has the format {str(record['dcfsc_run'])[:20]}; this is dcfsc {__version__}, "
            f"which reads up to format {FORMAT}. Upgrade dcfsc."
        )
    if not complete:
        raise InputError(f"{path} is damaged: it lacks the method or the data; fit again.")
    n, clusters = record["data"]["n"], record.get("n_clusters", 1)
    counts = all(isinstance(v, int) and not isinstance(v, bool) for v in (n, clusters))
    if not counts or not 1 <= clusters <= n or not isinstance(record["method"], str):
        raise InputError(
            f"{path} is damaged: {str(clusters)[:20]} clusters of {str(n)[:20]} samples by the "
            f"method {str(record['method'])[:20]!r} are no run; fit again."
        )
    return record


def _read_labels(path: Path) -> np.ndarray:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            labels = np.array([int(row["label"]) for row in csv.DictReader(file)], np.int64)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; fit again.") from None
    except (ValueError, KeyError, TypeError, OverflowError, csv.Error):
        raise InputError(f"{path} is damaged in its column 'label'; fit again.") from None
    return labels


def default_folder(name: str) -> Path:
    """The first free one of runs/name, runs/name-2, ..."""
    return next(folder for folder in default_folders(name) if not folder.exists())


def default_folders(name: str) -> Iterator[Path]:
    """runs/name, runs/name-2, ... without end."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    return (Path("runs", stem if i == 1 else f"{stem}-{i}") for i in count(1))


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
def reserved(folder: Path, *, exist_ok: bool, room: int = ROOM_BYTES) -> Iterator[None]:
    """Make the folder and prove that it takes ``room`` bytes; take it away if the work fails."""
    made = [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=exist_ok)
            with tempfile.TemporaryFile(dir=folder) as probe:
                _allocate(probe.fileno(), room)
        yield
    except BaseException:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
        raise


def room_for(data: Any, method: str, features: str | None) -> int:
    """Bytes that a run on ``data`` (N, ...) will write, or fewer, known before the work.

    Labels are a few digits a sample. The closed form keeps its samples; how wide the latents of a
    network or the features will be is known only later.
    """
    kept = 4 * int(np.prod(data.X.shape)) if method == "closed-form" and features is None else 0
    return ROOM_BYTES + 16 * len(data) + kept


def _allocate(descriptor: int, size: int) -> None:
    """Have the disk set the bytes aside, which costs no writing where it can."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(min(size, ROOM_BYTES)))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One run at a time writes a folder; another one is refused until it has ended.

    The system gives the lock back when a process ends, however it ends: a file that a killed run
    has left is no obstacle. Its half written files are cleared away.
    """
    lock = folder / LOCK
    with write_errors(folder):
        descriptor = _locked(lock)
    try:
        for name in (RECORD, LABELS, MODEL, DETAILS, REPORT):
            for part in folder.glob(f".*{name}.*.part"):
                part.unlink(missing_ok=True)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int:
    """A descriptor that holds the lock of the file that has the name now."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.exists() and os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"another run is writing to {lock.parent}; wait for its end, or choose another "
                "folder with --out."
            ) from None
        except FileNotFoundError:
            pass  # its holder took it away between the two looks
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                return descriptor  # a file system without locks
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """A folder that takes no files, or a full disk, in one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        message = f"cannot write to {path}: {reason}; choose another place with --out."
        raise InputError(message) from error
