"""A file of JSON records, one a line, that several processes append to.

A record has a ``key``; a later record replaces an earlier one of the same key. Appending takes an
exclusive lock, writes one whole line and waits until it is on disk, so a process that is killed
loses at most the record it was writing. Reading needs no lock: a line cut short is passed over, and
the next append removes it. A file with other lines in it was changed by somebody: it is added to,
and otherwise left as it is.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dcfsc.files import try_lock, write_text

Record = dict[str, Any]
_WAIT_SECONDS = 0.01


def read(path: Path, ours: Callable[[Record], bool] = bool) -> dict[str, Record]:
    """The records by key, in the order of their keys; empty if there is no file."""
    try:
        lines = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    except OSError:
        lines = [b""]
    parsed = [_parsed(line) for line in lines]
    records = [record for record in parsed if record is not None and ours(record)]
    cut_short = parsed[-1] is None
    if foreign := len(parsed) - len(records) - cut_short:
        message = (
            f"{path} has lines that are no results, {foreign} in number; they count for nothing."
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    return {record["key"]: record for record in sorted(records, key=lambda r: str(r["key"]))}


def append(path: Path, record: Record) -> None:
    """Add one record behind the last whole line, on disk when this returns."""
    with _locked(path) as descriptor:
        content = path.read_bytes()
        last = content[content.rfind(b"\n") + 1 :]
        whole = _parsed(last) is not None
        if last and not whole:  # what a killed process left
            os.ftruncate(descriptor, len(content) - len(last))
        new = b"\n" * whole + _line(record)
        os.lseek(descriptor, 0, os.SEEK_END)
        while new:  # one call does, unless the system is interrupted or short of space
            new = new[os.write(descriptor, new) :]
        os.fsync(descriptor)


def discard(path: Path, key: str) -> None:
    """Remove the record of a key, and the file with its last record."""
    if path.exists():
        _rewrite(path, lambda record: record["key"] != key)


def tidy(path: Path) -> None:
    """Sort the records by key and drop replaced ones; a file in that form is left alone."""
    _rewrite(path, bool)


def _rewrite(path: Path, wanted: Callable[[Record], bool]) -> None:
    with _locked(path):
        content = path.read_bytes()
        *lines, _ = content.split(b"\n")
        if not all(map(_parsed, lines)):
            return
        text = b"".join(_line(record) for record in read(path).values() if wanted(record))
        if not text:
            path.unlink(missing_ok=True)
        elif content != text:
            write_text(path, text.decode())


def _line(record: Record) -> bytes:
    return (json.dumps(record) + "\n").encode()


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold the file, made if need be, so that no other process changes it; its descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while (descriptor := try_lock(path)) is None:
        time.sleep(_WAIT_SECONDS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
