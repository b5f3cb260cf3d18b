"""A run's life: the states that its folder can be in, and the steps between them.

==========  ==================================  ================================================
state       in the folder                       what to do with it
==========  ==================================  ================================================
empty       nothing                             ``fit``
training    a checkpoint                        ``fit --resume`` goes on, ``fit --overwrite``
                                                begins again
whole       ``run.json``, the files it names    ``predict``, ``report``; ``fit --overwrite``
                                                replaces it
replacing   a whole run and a checkpoint        ``predict`` and ``report`` use the run; ``fit
                                                --resume`` goes on with the one that replaces it
foreign     anything else                       nothing: it is never written to
==========  ==================================  ================================================

A new run is written to the folder ``.staged.part``, and one rename to ``.whole.part`` makes it the
run. Before that step an earlier run and a checkpoint are as they were. After it the new run counts:
its files move up, ``run.json`` last, and whatever interrupts that, the next command completes it.
Names in ``.part`` are no state of their own. :func:`settle` brings a folder with any of them into
one of the states above, and everything that reads or writes a run begins with it.

One process at a time writes. Its lock is the system's, which gives it back when the process ends,
however it ends.

Nothing here needs the numerical libraries: what only reads a run starts at once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from dcfsc.errors import InputError
from dcfsc.files import remove_abandoned, sync, take_lock, try_lock

RECORD, LABELS, MODEL = "run.json", "labels.csv", "model.safetensors"
FEATURES = "features.safetensors"  # where features were computed first
DETAILS, REPORT, PREDICTIONS = "details.npz", "report.html", "predictions.csv"
EDITS, CSV, PARQUET = "edits.json", "export.csv", "export.parquet"
CHECKPOINT = "checkpoint.safetensors"
CHECKPOINT_METHOD = "dcfsc"  # the one that trains long enough to save itself
OURS = {RECORD, LABELS, MODEL, FEATURES, DETAILS, REPORT, PREDICTIONS, CHECKPOINT}
OURS |= {EDITS, CSV, PARQUET}
# A name in .part is never mistaken for a user's file.
LOCK, STAGED, WHOLE = ".running.part", ".staged.part", ".whole.part"
ROOM_BYTES = 1 << 20
MOVING_SECONDS = 10.0  # how long a reader waits for the few renames of another process


class WriteError(InputError):
    """A folder takes no files, or the disk is full."""


class State(Enum):
    """What a run's folder holds; see the table at the top of this file."""

    EMPTY = "empty"
    TRAINING = "training"
    WHOLE = "whole"
    REPLACING = "replacing"
    FOREIGN = "foreign"


def state_of(folder: Path) -> State:
    """The state of a settled folder, by the names in it; a damaged run counts as whole."""
    if not folder.exists():
        return State.EMPTY
    if not folder.is_dir():
        return State.FOREIGN
    names = {name for name in os.listdir(folder) if not name.endswith(".part")}
    damaged = names <= OURS and ({RECORD, LABELS} <= names or {MODEL, LABELS} <= names)
    if damaged or is_record(folder / RECORD):
        return State.REPLACING if CHECKPOINT in names else State.WHOLE
    if not names:
        return State.EMPTY
    return State.TRAINING if names == {CHECKPOINT} else State.FOREIGN


def is_record(path: Path) -> bool:
    """Whether the file is the record of a run, in the format of this or of another version."""
    try:
        return "dcfsc_run" in json.loads(path.read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def method_in(folder: Path) -> str | None:
    """The method of the checkpoint or of the run in a folder, if it holds one."""
    with write_errors(folder):
        settle(folder)
        state = state_of(folder)
    if state in (State.TRAINING, State.REPLACING):
        return CHECKPOINT_METHOD
    if state is State.WHOLE:
        with suppress(OSError, ValueError, RecursionError):
            method = json.loads((folder / RECORD).read_bytes()).get("method")
            return method if isinstance(method, str) else None
    return None


def settle(folder: Path) -> None:
    """Complete or undo what a killed process began in the folder, unless one is at work there.

    A reader that finds another process in the middle of the last step waits for its end.
    """
    if not folder.is_dir() or not any(name.endswith(".part") for name in os.listdir(folder)):
        return
    until = time.monotonic() + MOVING_SECONDS
    while True:
        try:
            lock = try_lock(folder / LOCK)
            if lock is not None:
                with _releasing(lock, folder):
                    if take_lock(lock):
                        _settle(folder)
                    elif (folder / WHOLE).exists():
                        _move_up(folder)  # without locks, what is staged may be somebody's work
                return
        except OSError as error:
            if (folder / WHOLE / RECORD).exists():
                raise _not_moved(folder, error) from error
            return  # a folder that is only read from
        if not (folder / WHOLE).exists() or time.monotonic() > until:
            return
        time.sleep(0.01)


def _settle(folder: Path) -> None:
    shutil.rmtree(folder / STAGED, ignore_errors=True)
    if (folder / WHOLE).exists():
        _move_up(folder)
    remove_abandoned(folder)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One process at a time writes to the folder, settled; another one is refused meanwhile."""
    with write_errors(folder):
        lock = try_lock(folder / LOCK)
    if lock is None:
        raise InputError(
            f"another run is writing to {folder}; wait until it ends, or choose another folder "
            "with --out."
        )
    with _releasing(lock, folder):
        try:
            _settle(folder)
        except OSError as error:
            raise _not_moved(folder, error) from error
        yield


@contextmanager
def _releasing(lock: int, folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        os.close(lock)


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give an empty folder for the files of a new run; at the end they become the run, or none.

    ``run.json`` must be among them, and names the others. The caller is alone in the folder.
    """
    place = folder / STAGED
    try:
        with write_errors(folder):
            place.mkdir()
            yield place
            sync(place)
            place.rename(folder / WHOLE)  # the run is this one from here on
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    try:
        sync(folder)
        _move_up(folder)
    except OSError as error:
        raise _not_moved(folder, error) from error


def _move_up(folder: Path) -> None:
    """Put the files of the new run in their places, and take away what the earlier one had."""
    place = folder / WHOLE
    if (place / RECORD).exists():
        try:
            ours = {RECORD, LABELS, *files_named(json.loads((place / RECORD).read_bytes()))}
        except (ValueError, AttributeError, RecursionError):
            raise InputError(f"{place / RECORD} is damaged; delete {place}.") from None
        for name in OURS - ours:
            (folder / name).unlink(missing_ok=True)
        for name in sorted(ours - {RECORD}):
            if (place / name).exists():  # else it moved before the interruption
                os.replace(place / name, folder / name)
        os.replace(place / RECORD, folder / RECORD)
    place.rmdir()
    sync(folder)


def _not_moved(folder: Path, error: OSError) -> WriteError:
    return WriteError(
        f"the run {folder} is complete, but its files could not be moved into place: "
        f"{error.strerror or error}; repeat the command with --resume to do that."
    )


def files_named(record: dict[str, Any]) -> list[str]:
    """The files that a record says its run has, beside itself and the labels."""
    return [name for key, name in (("model", MODEL), ("features", FEATURES)) if record.get(key)]


def choose_folder(name: str, out: Path | None, resume: bool = False) -> Path:
    """The folder of a new run, or with ``resume`` of one that was interrupted; settled.

    Without ``out`` it is one of runs/name, runs/name-2, ...: with ``resume`` the one that was left
    last with a checkpoint, else the first that is free.
    """
    folder = Path(out) if out is not None else None
    if folder is None:
        folder = (interrupted(name) if resume else None) or default_folder(name)
    with write_errors(folder):
        settle(folder)
    return folder


def check_free(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder whose content a new run would destroy without having been asked to."""
    with write_errors(folder):
        state = state_of(folder)
    if state is State.FOREIGN:
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, not a folder; choose another with --out.")
        names = sorted(n for n in os.listdir(folder) if not n.endswith(".part"))
        shown = ", ".join(names[:3]) + (", ..." if names[3:] else "")
        raise InputError(
            f"{folder} has files in it ({shown}) and is not an earlier run; choose a new or empty "
            "folder with --out."
        )
    if state in (State.TRAINING, State.REPLACING) and not (resume or overwrite):
        raise InputError(
            f"{folder} holds the checkpoint of an interrupted run; add --resume to continue it, "
            "--overwrite to start again, or choose another folder with --out."
        )
    if state is State.WHOLE and not overwrite:
        raise InputError(
            f"{folder} holds a finished run; add --overwrite to replace it, or choose another "
            "folder with --out."
        )


def default_folder(name: str) -> Path:
    """The first of runs/name, runs/name-2, ... that is not there."""
    return next(folder for folder in default_folders(name) if not folder.exists())


def default_folders(name: str) -> Iterator[Path]:
    """runs/name, runs/name-2, ... without end."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    return (Path("runs", stem if i == 1 else f"{stem}-{i}") for i in count(1))


def interrupted(name: str) -> Path | None:
    """The default folder of that name that was left last with a checkpoint, or with nothing."""
    taken = takewhile(Path.is_dir, default_folders(name))
    open_to_more = (State.EMPTY, State.TRAINING)
    found = [folder for folder in taken if state_of(folder) in open_to_more]
    return max(found, key=lambda f: f.stat().st_mtime, default=None)


@contextmanager
def reserved(folder: Path, room: int = ROOM_BYTES) -> Iterator[None]:
    """Make the folder and prove that it takes ``room`` bytes; take it away if the work fails."""
    made: list[Path] = []
    try:
        with write_errors(folder):
            made += [p for p in (folder, *folder.parents) if not p.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as probe:
                _allocate(probe.fileno(), room)
        yield
    except BaseException:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
        raise


def _allocate(descriptor: int, size: int) -> None:
    """Have the disk set the bytes aside, which costs no writing where it can."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(min(size, ROOM_BYTES)))


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """A folder that takes no files, or a full disk, in one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        message = f"cannot write to {path}: {reason}; choose another place with --out."
        raise WriteError(message) from error
