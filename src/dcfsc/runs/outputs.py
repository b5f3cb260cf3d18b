"""Files that commands write beside a finished run, or anywhere else on a person's word."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dcfsc.files import WriteError
from dcfsc.journal import LIST, MOVING_SECONDS, RECORD, RUN, Filled, digest, held, is_record
from dcfsc.ownership import Output

from .life import DETAILS, EDITS, READ, REPORT

# stands in every file of that name that dcfsc wrote
MARKS = {EDITS: b'"dcfsc_edits"', REPORT: b"dcfsc report", DETAILS: b"probabilities.npy"}


def output_of(
    run: Path,
    target: Path,
    *,
    overwrite: bool = False,
    asks: bool = True,
    inputs: Iterable[Path] = (),
) -> Output:
    """A file that a command on a run will write, in the run's folder or elsewhere."""
    adopt(run)
    read = [*inputs, *(run / name for name in READ)]
    return Output(target, overwrite=overwrite, own=run, inputs=read, asks=asks)


def adopt(run: Path) -> None:
    """Give a run of version 1.0 a list of its record and of the files that bear our mark."""
    if not is_listed(run):
        with suppress(WriteError), held(run, MOVING_SECONDS):  # a folder that is only read from
            adopt_held(run)


def is_listed(run: Path) -> bool:
    return os.path.lexists(run / LIST) or not is_record(run / RECORD)


def adopt_held(run: Path) -> None:
    """The same, by who holds the folder."""
    if is_listed(run):
        return
    files = [run / name for name in MARKS]
    kept = [file for file in files if file.is_file() and not file.is_symlink()]
    names = [file.name for file in kept if MARKS[file.name] in file.read_bytes()]
    Filled(RUN, {name: [str(digest(run / name))] for name in (RECORD, *names)}).write(run)
