"""Which files of a run's samples are read: a run may come from somebody else, and name any file.

The record of a run on files has a seal, made with a key that only its user has. With it, the run
was made here, and its files are those that ``fit`` read. Without it, a person says which folder the
samples are in, and only what is in that folder is read.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from dcfsc.datasets.images import ImageSource, bombs_are_errors, decoding
from dcfsc.errors import InputError
from dcfsc.files import new_stage, remove_abandoned, rename_new

from .folder import Run

KEY_BYTES = 32
SHOWN = 3


def seal(record: dict[str, Any], make_key: bool = False) -> str | None:
    """The seal that a record has if it was made here; None where there is no key."""
    with suppress(OSError, RuntimeError):  # a home that takes no files, or none at all
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(home, "dcfsc", "key")
        if make_key and not path.exists():
            _make_key(path)
        status, key = path.lstat(), path.read_bytes()
        private = os.name == "nt" or not (status.st_mode & 0o077 or status.st_uid != os.getuid())
        if stat.S_ISREG(status.st_mode) and private and len(key) == KEY_BYTES:
            text = json.dumps(json.loads(json.dumps({**record, "seal": ""})), sort_keys=True)
            return hmac.new(key, text.encode(), "sha256").hexdigest()
    return None


def _make_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_abandoned(path.parent)
    with new_stage(path.parent) as stage, suppress(FileExistsError):
        part = stage / path.name
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        rename_new(part, path)


def made_here(run: Run) -> bool:
    """Whether this user made the run."""
    expected = seal(run.record)
    return expected is not None and run.record.get("seal") == expected


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
    places = [_place(path, top, run.directory, resolve) for path in paths]
    with bombs_are_errors():
        found = [place if place is not None and _is_image(place) else None for place in places]
    out = [path for path, file in zip(paths, found, strict=True) if file is None]
    if out:
        named = ", ".join(out[:SHOWN]) + (", ..." if out[SHOWN:] else "")
        text = (
            f"{len(out)} of {len(paths)} files are left out, as they do not lie in {top} or are no "
            f"images that fit reads: {named}"
        )
        if len(out) == len(paths):
            raise InputError(f"{text}.")
        warnings.warn(text, UserWarning, stacklevel=3)
    return found


def _place(path: str, top: str, before: str, resolve: Callable[[str], str]) -> str | None:
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
