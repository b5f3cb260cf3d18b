"""A file of JSON records, one a line, that several processes append to.

A record has a ``key``; a later record replaces an earlier one of the same key. Appending takes an
exclusive lock, writes one whole line and waits until it is on disk, so a process that is killed
loses at most the record it was writing. Reading needs no lock: a line cut short is passed over, and
the next append removes it. A line that is no record is somebody's: it is told, and stays.
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

from dcfsc.files import atomic_path

try:
    import fcntl
except ImportError:  # no such locks on this system; a lock file takes their place
    fcntl = None  # type: ignore[assignment]

Record = dict[str, Any]
_WAIT_SECONDS = 0.01
_ABANDONED_SECONDS = 60.0


def read(path: Path, ours: Callable[[Record], bool] = bool) -> dict[str, Record]:
    """The records by key, in the order of their keys; empty if there is no file."""
    parsed = [record for record in map(_parsed, _lines(path)) if record]
    records = {record["key"]: record for record in parsed if ours(record)}
    if number := len(_foreign(path)) + sum(not ours(record) for record in parsed):
        told = f"{path} has {number} lines that are no results; they stay, and count for nothing."
        warnings.warn(told, UserWarning, stacklevel=2)
    return dict(sorted(records.items()))


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n") if path.is_file() else []
    except OSError:
        return []


def _foreign(path: Path) -> list[bytes]:
    """Whole lines that are no records; the last is of a record that was cut short."""
    *whole, last = _lines(path) or [b""]
    if not last.startswith(b"{"):
        whole.append(last)
    return [line for line in whole if line.strip() and _parsed(line) is None]


def append(path: Path, record: Record) -> None:
    """Add one record at the end, on disk when this returns."""
    with _locked(path):
        descriptor = _open(path)
        try:
            _repair_last_line(path, descriptor)
            _write(descriptor, _line(record))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
    content = b"".join([*(line + b"\n" for line in _foreign(path)), *map(_line, records)])
    if not content:
        path.unlink(missing_ok=True)
    elif path.read_bytes() != content:
        with atomic_path(path) as part:
            part.write_bytes(content)


def _line(record: Record) -> bytes:
    return (json.dumps(record) + "\n").encode()


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None


def _repair_last_line(path: Path, descriptor: int) -> None:
    """End the last line: cut off what a killed process left, complete a whole record."""
    content = path.read_bytes()
    last = content[content.rfind(b"\n") + 1 :]
    if not last:
        return
    if last.startswith(b"{") and _parsed(last) is None:
        os.ftruncate(descriptor, len(content) - len(last))
    else:
        _write(descriptor, b"\n")


def _write(descriptor: int, content: bytes) -> None:
    """Write all of it; one call does, unless the system is interrupted or short of space."""
    while content:
        content = content[os.write(descriptor, content) :]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file, made if need be, so that no other process changes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        with _lock_file(path):
            yield
        return
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever held the lock may have put a new file in this one's place.
            if _is_file_at(path, descriptor):
                yield
                return
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    binary = getattr(os, "O_BINARY", 0)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | binary, 0o666)


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """A file that only one process can make; one left by a killed process is removed."""
    lock = path.with_name(f".{path.name}.lock")
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            try:
                if time.time() - lock.stat().st_mtime > _ABANDONED_SECONDS:
                    lock.unlink(missing_ok=True)
            except FileNotFoundError:
                pass  # released just now
            time.sleep(_WAIT_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
