"""Training that saves itself to the run's folder, and how to go on with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from dcfsc import parameters, processes
from dcfsc.errors import DivergenceError, InputError
from dcfsc.files import WriteError, set_aside, write_errors

from .life import CHECKPOINT, State, checkpoint_method, is_checkpoint


@contextmanager
def saving(estimator: Any, folder: Path, command: str | None, *, fresh: bool) -> Iterator[None]:
    """Within the block training saves itself to the folder, and goes on from what is there.

    ``fresh`` begins again instead. A checkpoint stays whatever happens, and the error says how to
    go on from it; only that of a training that diverged, which would diverge again, is removed.
    """
    if not saves_itself(estimator):
        yield
        return
    file = folder / CHECKPOINT
    if fresh:
        with write_errors(folder):
            if is_checkpoint(file):
                file.unlink()
            elif os.path.lexists(file):
                set_aside(file)
    was_there = file.exists()
    estimator.set_params(checkpoint=file)
    try:
        yield
    except KeyboardInterrupt:
        if not file.exists():
            raise
        raise KeyboardInterrupt(
            f"interrupted; training is saved; resume with: {resuming(command, folder)}"
        ) from None
    except DivergenceError:
        if not was_there:
            file.unlink(missing_ok=True)
        raise
    except InputError as error:
        refused = was_there and not isinstance(error, WriteError)  # it was not this run's
        if refused or not file.exists():
            raise
        more = f"Training is saved; resume with: {resuming(command, folder)}"
        raise type(error)(f"{error} {more}") from error
    finally:
        estimator.set_params(checkpoint=None)


def check(estimator: Any) -> None:
    """Refuse bad parameters before the work; one that can will have a checkpoint."""
    checkpoint = {"checkpoint": CHECKPOINT} if saves_itself(estimator) else {}
    parameters.check(copy(estimator).set_params(**checkpoint))


def saves_itself(estimator: Any) -> bool:
    """Whether the estimator can keep a checkpoint, and was not told to keep it elsewhere."""
    params = estimator.get_params(deep=False)
    return "checkpoint" in params and params["checkpoint"] is None


def check_method(folder: Path, state: State, method: str, estimator: Any) -> None:
    """Refuse to go on with a checkpoint by a method that cannot."""
    if state in (State.TRAINING, State.REPLACING) and not saves_itself(estimator):
        begun = checkpoint_method(folder)
        raise InputError(
            f"{folder} holds the checkpoint of a run by {begun}, which {method} cannot resume; "
            f"give --method {begun}, use --overwrite instead of --resume to start again, or "
            "choose another folder with --out."
        )


def resuming(command: str | None, folder: Path) -> str:
    words = command or "dcfsc fit ..."
    if "--out" not in words:
        words += f" --out {folder}"
    if "--resume" not in words:
        words += " --resume"
    return f"torchrun ... -m {words}" if processes.launched() else words
