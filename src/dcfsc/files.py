"""Atomic writes, and locks that end with their process."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
_WITHOUT_SYNC = (errno.EINVAL, errno.ENOTSUP)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on success it replaces ``path`` in one step.

    What a killed process left of an earlier attempt at the same file is removed first.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent, target.name)
    with _part_of(target) as temporary:
        yield temporary
        sync(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)
        sync(target.parent)


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """An empty file beside the target, which is gone at the end, locked so long as it is in use."""
    part, descriptor = None, None
    while descriptor is None:  # until no other process took the new file for an abandoned one
        made, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
        os.close(made)
        part, descriptor = Path(name), try_lock(Path(name))
    assert part is not None
    if fcntl is None:
        os.close(descriptor)  # an open file cannot be renamed there
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)
        if fcntl is not None:
            os.close(descriptor)


def remove_abandoned(folder: Path, name: str | None = None) -> None:
    """Remove the parts of a file, or of all files in the folder, that no process is writing."""
    ours = re.compile(rf"\.{'.+' if name is None else re.escape(name)}\.[a-z0-9_]{{8}}\.part")
    with suppress(OSError):  # what cannot be read or removed is left alone
        for entry in os.scandir(folder):
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(part: Path) -> None:
    descriptor = os.open(part, os.O_RDWR)
    try:
        if take_lock(descriptor):
            part.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock of the file of this name, or None if another process does.

    The file is made where there is none. The system gives the lock back when the process ends,
    however it ends.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            take_lock(descriptor)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # its holder took it away between the two looks
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def take_lock(descriptor: int) -> bool:
    """Take an open file's lock at once; False where the system or the file system has none."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            return False
        raise
    return True


@contextmanager
def atomic_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give an empty folder beside ``target``; on success it takes the target's place, whole.

    With ``replace`` an earlier folder of that name is removed once the new one is there. What a
    killed process left of an earlier attempt is removed first, or put back. Raises BlockingIOError
    where another process is at work on the same folder.
    """
    parent, name = target.parent, target.name
    parent.mkdir(parents=True, exist_ok=True)
    part, old, lock = (parent / f".{name}{kind}.part" for kind in ("", ".old", ".lock"))
    held = try_lock(lock)
    if held is None:
        raise BlockingIOError(errno.EAGAIN, "another process is writing it", str(target))
    try:
        if old.exists() and not target.exists():
            old.rename(target)
        for left in (part, old):
            shutil.rmtree(left, ignore_errors=True)
        part.mkdir()
        yield part
        sync(part)
        if replace and target.exists():
            target.rename(old)
        part.rename(target)
        sync(parent)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for left in (part, old):
            shutil.rmtree(left, ignore_errors=True)
        lock.unlink(missing_ok=True)
        os.close(held)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # a folder that takes files and does not show them
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _WITHOUT_SYNC:
            raise
    finally:
        os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(
    path: str | os.PathLike[str], value: Any, default: Callable[[Any], Any] | None = None
) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=False, default=default) + "\n")
