"""Which files of a run's samples are read: a run may come from somebody else, and name any file.

Of a run that this user made here, as a mark in the user's folder shows, they are those that ``fit``
read. Of any other a person says which folder they are in, and only what is in it is read.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from dcfsc.errors import InputError
from dcfsc.io.images import ImageSource, bombs_are_errors, decoding
from dcfsc.journal import RECORD, digest

from .folder import Run

SHOWN = 3


def remember(record: Path) -> None:
    with suppress(OSError, RuntimeError):  # a home that takes no files, or none at all
        mark = _mark(record)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def made_here(run: Run) -> bool:
    with suppress(OSError, RuntimeError):
        return _mark(run.folder / RECORD).is_file()
    return False


def _mark(record: Path) -> Path:
    """An empty file in the user's own folder, with the record's digest for a name."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home, "dcfsc", "runs", str(digest(record)))


def sample_files(run: Run, paths: Sequence[str], data: Path | None) -> list[str | None]:
    """The file of each sample, there or not; None for all but images in the data folder.

    ``data`` is that folder, by default the recorded one if the run was made here. A warning says
    what is left out.
    """
    if data is None and not made_here(run):
        raise InputError(
            f"{run.folder} was not made here, or by an earlier dcfsc; say with --data in which "
            "folder its samples are."
        )
    resolve = os.path.abspath if data is None else os.path.realpath  # what fit read may be linked
    top = resolve(run.directory if data is None else data)
    if not os.path.isdir(top):
        raise InputError(f"there is no folder {top}; say with --data where the samples are.")
    places = [place_in(path, top, run.directory, resolve) for path in paths]
    with bombs_are_errors():
        files = [place if place is not None and _is_image(place) else None for place in places]
    out = [path for path, file in zip(paths, files, strict=True) if file is None]
    if out:
        named = ", ".join(out[:SHOWN]) + (", ..." if out[SHOWN:] else "")
        text = (
            f"{len(out)} of {len(paths)} files are left out, as they do not lie in {top} or are no "
            f"images that fit reads: {named}"
        )
        if len(out) == len(paths):
            raise InputError(f"{text}.")
        warnings.warn(text, UserWarning, stacklevel=3)
    return files


def place_in(path: str, top: str, before: str, resolve: Callable[[str], str]) -> str | None:
    """Where a sample's file is in the folder ``top``; None if it is not in it.

    The paths of an earlier version start from another folder, ``before``, and bytes of names that
    are no text are written out in them.
    """
    raw = re.sub(r"\\x([89a-f][0-9a-f])", lambda m: os.fsdecode(bytes.fromhex(m[1])), path)
    inside = []
    for base, name in product((top, before), (path, raw)):
        with suppress(ValueError):  # a zero in the name, or another drive
            place = resolve(os.path.join(base, name))
            if os.path.commonpath((place, top)) == top:
                inside.append(place)
    return next(filter(os.path.exists, inside), inside[0] if inside else None)


def _is_image(path: str) -> bool:
    """Whether ``fit`` reads the file; one that is not there does no harm."""
    if not os.path.exists(path):
        return True
    if os.path.basename(path).startswith("."):
        return False
    try:
        with decoding(ImageSource.file(Path(path))):
            return True
    except InputError:
        return False
