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

A new run is written whole, or not at all: :mod:`dcfsc.journal` says how, and keeps the list of what
is ours in the folder. What is half written has a name of our own, and is no state: everything that
reads or writes a run begins with :func:`dcfsc.journal.settle`.

Nothing here needs the numerical libraries: what only reads a run starts at once.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError
from dcfsc.files import header_of, is_part, read_json, write_errors
from dcfsc.journal import LIST, RECORD, RUN, Filled, kind_of, settle
from dcfsc.ownership import check_place

LABELS, MODEL = "labels.csv", "model.safetensors"
FEATURES = "features.safetensors"  # where features were computed first
DETAILS, REPORT, PREDICTIONS = "details.npz", "report.html", "predictions.csv"
EDITS, CSV, PARQUET = "edits.json", "export.csv", "export.parquet"
CLUSTERS, DIFFERENCES = "clusters.csv", "differences.csv"  # as edited
CHECKPOINT = "checkpoint.safetensors"
# by a fit, with the record and the labels
REPLACED = (MODEL, FEATURES, DETAILS, REPORT, CLUSTERS, DIFFERENCES)
READ = (LIST, RECORD, LABELS, MODEL, FEATURES, DETAILS, EDITS)  # by the commands on a run
FIELDS = {"identity", "phase", "step"}  # of a checkpoint
ROOM_BYTES = 1 << 20


class State(Enum):
    """What a run's folder holds; see the table at the top of this file."""

    EMPTY = "empty"
    TRAINING = "training"
    WHOLE = "whole"
    REPLACING = "replacing"
    FOREIGN = "foreign"


def state_of(folder: Path) -> State:
    """The state of a settled folder; a damaged run counts as whole."""
    with write_errors(folder):
        if not folder.exists():
            return State.EMPTY
        if not folder.is_dir():
            return State.FOREIGN
        names = {name for name in os.listdir(folder) if not is_part(name)} - {LIST}
    if not names:
        return State.EMPTY
    trains = is_checkpoint(folder / CHECKPOINT)
    if kind_of(folder) == RUN:
        return State.REPLACING if trains else State.WHOLE
    return State.TRAINING if trains and names == {CHECKPOINT} else State.FOREIGN


def is_checkpoint(path: Path) -> bool:
    return not path.is_symlink() and (header_of(path) or {}).keys() >= FIELDS


def checkpoint_method(folder: Path) -> str:
    """The method whose training saved itself in a folder: dcfsc, or views, which notes more."""
    notes = (header_of(folder / CHECKPOINT) or {}).get("notes")
    return "views" if isinstance(notes, dict) and "augmentations" in notes else "dcfsc"


def method_in(folder: Path) -> str | None:
    """The method of the checkpoint or of the run in a folder, if it holds one."""
    with write_errors(folder):
        settle(folder)
    state = state_of(folder)
    if state in (State.TRAINING, State.REPLACING):
        return checkpoint_method(folder)
    if state is State.WHOLE:
        with suppress(OSError, ValueError, AttributeError):
            method = read_json(folder / RECORD).get("method")
            return method if isinstance(method, str) else None
    return None


def files_named(record: dict[str, Any]) -> list[str]:
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


def check_out(folder: Path, *, resume: bool, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse a folder for a new run, before anything is read for it."""
    check_place(folder, inputs=inputs, own=folder)
    with write_errors(folder):
        settle(folder)
        place = next(p for p in (folder, *folder.absolute().parents) if os.path.lexists(p))
        if place != folder and not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    state = state_of(folder)
    if not (resume and state is State.WHOLE):  # which is then returned as it is
        check_free(folder, state, resume=resume, overwrite=overwrite)


def check_free(folder: Path, state: State, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder whose content a new run would destroy without having been asked to."""
    if state is State.FOREIGN:
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, not a folder; choose another with --out.")
        names = sorted(n for n in os.listdir(folder) if not is_part(n))
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
    Filled.read(folder)  # says before the work that it was changed by hand


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
    folders = [folder for folder in taken if state_of(folder) in open_to_more]
    return max(folders, key=lambda f: f.stat().st_mtime, default=None)


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
