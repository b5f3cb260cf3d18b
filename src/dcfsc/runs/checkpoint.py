"""Resuming an interrupted run: where its checkpoint lies, and which folder holds one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from dcfsc import distributed
from dcfsc.errors import InputError

from .folder import check_replaceable, default_folder, default_folders

CHECKPOINT = "checkpoint.safetensors"


def choose_folder(name: str, out: Path | None, resume: bool) -> Path:
    """The folder of a new run, or with ``resume`` of one that was interrupted.

    Without ``out`` that is the newest unfinished one of runs/name, runs/name-2, ...; where there
    is nothing to go on from, the run begins.
    """
    if out is not None:
        folder = Path(out)
    else:
        folder = (interrupted(name) if resume else None) or default_folder(name)
    if not (folder / CHECKPOINT).exists():
        check_replaceable(folder)
    elif not resume:
        raise InputError(
            f"{folder} holds the checkpoint of an interrupted run; add --resume to go on with it, "
            "or choose another folder with --out."
        )
    return folder


def interrupted(name: str) -> Path | None:
    """The default folder of that name that was left last with a checkpoint, or with nothing."""
    taken = takewhile(Path.is_dir, default_folders(name))
    found = [f for f in taken if all(p.name == CHECKPOINT or _partial(p) for p in f.iterdir())]
    return max(found, key=lambda f: f.stat().st_mtime, default=None)


def _partial(path: Path) -> bool:
    return path.name.endswith(".part")


@contextmanager
def kept(estimator: Any, folder: Path, command: str | None) -> Iterator[None]:
    """Within the block training saves itself to the folder, and goes on from what is there.

    An interrupted run leaves its checkpoint, and says how to go on with it; one that was refused
    leaves nothing of its own.
    """
    params = estimator.get_params(deep=False)
    if "checkpoint" not in params or params["checkpoint"] is not None:
        yield
        return
    file = folder / CHECKPOINT
    found = file.exists()
    estimator.set_params(checkpoint=file)
    try:
        yield
    except KeyboardInterrupt:
        if not file.exists():
            raise
        raise KeyboardInterrupt(
            f"interrupted; training is saved, go on with: {resuming(command, folder)}"
        ) from None
    except InputError:
        if not found:
            remove(folder)
        raise
    finally:
        estimator.set_params(checkpoint=None)


def resuming(command: str | None, folder: Path) -> str:
    """The command line that goes on with a run."""
    words = command or "dcfsc fit ..."
    if "--out" not in words:
        words += f" --out {folder}"
    if "--resume" not in words:
        words += " --resume"
    return f"torchrun ... -m {words}" if distributed.launched() else words


def remove(folder: Path) -> None:
    """Take the checkpoint away, and what a killed process left of one half written."""
    for file in (folder / CHECKPOINT, *folder.glob(f".{CHECKPOINT}.*.part")):
        file.unlink(missing_ok=True)
