"""A file of JSON records, one a line, that several processes append to.

A record has a ``key``; a later record replaces an earlier one of the same key. Appending takes an
exclusive lock, writes one whole line and waits until it is on disk, so a process that is killed
loses at most the record it was writing. Reading needs no lock: a line cut short is passed over, and
the next append removes it. A file with other lines in it was changed by somebody: before the next
change it becomes ``NAME.bak``, and its records go on in a new one.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dcfsc.files import set_aside, try_lock, write_text

Record = dict[str, Any]
_WAIT_SECONDS = 0.01


def read(path: Path, ours: Callable[[Record], bool] = bool) -> dict[str, Record]:
    """The records by key, in the order of their keys; empty if there is no file."""
    records, foreign = _parsed_lines(path, ours)
    if foreign:
        message = (
            f"{path} has lines that are no results, {foreign} in number; they count for nothing."
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    return {record["key"]: record for record in sorted(records, key=lambda r: str(r["key"]))}


def _parsed_lines(path: Path, ours: Callable[[Record], bool]) -> tuple[list[Record], int]:
    """The records of a file, and the number of its whole lines that are none."""
    try:
        lines = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    except OSError:
        lines = [b""]
    parsed = [_parsed(line) for line in lines]
    records = [record for record in parsed if record is not None and ours(record)]
    cut_short = parsed[-1] is None
    return records, len(parsed) - len(records) - cut_short


def append(path: Path, record: Record) -> None:
    """Add one record at the end, on disk when this returns."""
    with _locked(path) as descriptor:
        _append(path, descriptor, [record])


def discard(path: Path, key: str) -> None:
    """Remove the record of a key, and the file with its last record."""
    if not path.exists():
        return
    with _locked(path):
        _replace(path, [record for other, record in read(path).items() if other != key])


def tidy(path: Path) -> None:
    """Sort the records by key and drop replaced ones; a file in that form is left alone."""
    with _locked(path):
        _replace(path, read(path).values())


def _replace(path: Path, records: Iterable[Record]) -> None:
    text = b"".join(map(_line, records)).decode()
    if not text:
        path.unlink(missing_ok=True)
    elif path.read_text(encoding="utf-8", errors="replace") != text:
        write_text(path, text)


def _line(record: Record) -> bytes:
    return (json.dumps(record) + "\n").encode()


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None


def _append(path: Path, descriptor: int, records: Iterable[Record]) -> None:
    """Write all of them behind the last whole line: what a killed process left there goes."""
    content = path.read_bytes()
    last = content[content.rfind(b"\n") + 1 :]
    whole = _parsed(last) is not None
    if last and not whole:
        os.ftruncate(descriptor, len(content) - len(last))
    new = b"\n" * whole + b"".join(map(_line, records))
    os.lseek(descriptor, 0, os.SEEK_END)
    while new:  # one call does, unless the system is interrupted or short of space
        new = new[os.write(descriptor, new) :]
    os.fsync(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold the file, made if need be, so that no other process changes it; its descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: list[Record] = []
    while True:
        descriptor = try_lock(path)
        if descriptor is None:
            time.sleep(_WAIT_SECONDS)
            continue
        try:
            if not _is_changed(path):
                if kept:
                    _append(path, descriptor, kept)
                yield descriptor
                return
            kept += _parsed_lines(path, bool)[0]
            set_aside(path)
        finally:
            os.close(descriptor)


def _is_changed(path: Path) -> bool:
    """Whether there are lines that this module did not write."""
    *lines, last = path.read_bytes().split(b"\n")
    return not all(map(_parsed, lines)) or not (last.startswith(b"{") or not last)
