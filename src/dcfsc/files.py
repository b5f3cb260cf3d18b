"""Atomic writes, names of our own for what is half written, and locks that end with their process.

What is half written has a name such as ``.dcfsc-4f9a01c2-6be2c1f09a3d5e77.part``, whose second half
is a digest of the first. No other program makes such a name, so whatever has one is ours to remove;
a file that merely ends in ``.part`` is not.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from dcfsc.errors import InputError

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
_WITHOUT_SYNC = (errno.EINVAL, errno.ENOTSUP)
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_PART = re.compile(r"\.dcfsc-([0-9a-z]{4,8})-([0-9a-f]{16})\.part")
LONGEST_JSON = 1 << 25  # in bytes, and so that it takes less than a gigabyte
_FEWEST_BYTES = 16  # for a list or an object in it


class WriteError(InputError):
    """A folder takes no files, or the disk is full."""


def part_name(nonce: str | None = None) -> str:
    """A new name for what is half written, or the one that belongs to ``nonce``."""
    nonce = secrets.token_hex(4) if nonce is None else nonce
    return f".dcfsc-{nonce}-{hashlib.sha256(b'dcfsc ' + nonce.encode()).hexdigest()[:16]}.part"


def is_part(name: str) -> bool:
    match = _PART.fullmatch(name)
    return match is not None and name == part_name(match[1])


LOCK = part_name("lock")
PLAN = "plan.json"  # of a stage that is complete: only :mod:`dcfsc.journal` may end it


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path of the same name; on success it replaces ``path`` in one step.

    This replaces whatever is there: only :mod:`dcfsc.ownership` says what may be. What killed
    processes left half written in the folder is removed first.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    with new_stage(target.parent) as stage:
        yield stage / target.name
        make_durable(stage / target.name, stage)
        os.replace(stage / target.name, target)
        sync(target.parent)


@contextmanager
def new_stage(folder: Path) -> Iterator[Path]:
    """An empty folder in ``folder``, locked so long as it is in use, and gone at the end.

    It takes in whatever other libraries write before they rename it.
    """
    lock = None
    while lock is None:  # until no other process took the new folder for an abandoned one
        stage = folder / part_name()
        stage.mkdir()
        with suppress(FileNotFoundError):
            lock = try_lock(stage / LOCK)
    try:
        yield stage
    finally:
        if not (stage / PLAN).exists():
            shutil.rmtree(stage, ignore_errors=True)
        os.close(lock)


def stages(folder: Path) -> list[Path]:
    """What has been staged in a folder, by anyone."""
    with os.scandir(folder) as entries:
        return [Path(e) for e in entries if is_part(e.name) and e.is_dir(follow_symlinks=False)]


def remove_abandoned(folder: Path) -> None:
    """Remove what is half written in a folder and no process is writing."""
    with suppress(OSError):  # what cannot be read or removed is left alone
        for stage in stages(folder):
            with suppress(OSError):
                lock = try_lock(stage / LOCK)
                if lock is not None:
                    # without locks it may be the work of a living process
                    if take_lock(lock) and not (stage / PLAN).exists():
                        shutil.rmtree(stage, ignore_errors=True)
                    os.close(lock)


def make_durable(path: Path, stage: Path) -> None:
    """Give a staged file the mode that new files have, and wait until it is on the disk."""
    path.chmod((stage / LOCK).stat().st_mode & 0o666)
    sync(path)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock of the file of this name, or None if another process does.

    The file is made where there is none. The system gives the lock back when the process ends,
    however it ends.
    """
    flags = os.O_RDWR | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # where the system has them
        flags |= getattr(os, name, 0)
    while True:
        descriptor = os.open(path, flags, 0o666)
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
    """Take an open file's lock at once; False where the file system has none."""
    from filelock import lock_descriptor

    try:
        if not lock_descriptor(descriptor, blocking=False):
            raise BlockingIOError
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            return False
        raise
    return True


@contextmanager
def releasing(lock: int, path: Path) -> Iterator[None]:
    """Give the lock of a file back at the end, and take the file away."""
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(lock)


def rename_new(source: Path, target: Path) -> None:
    """Rename ``source``; if ``target`` exists, raise FileExistsError and change nothing."""
    if not stat.S_ISDIR(source.lstat().st_mode):
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
        else:
            source.unlink()
            return
    # no call of Python's refuses to replace: between the two lies the only chance to lose a file
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    os.rename(source, target)


def set_aside(path: Path) -> None:
    """Rename what stands in the way to the first free of NAME.bak, NAME.bak2, ..., and say so."""
    for number in count(1):
        aside = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        try:
            rename_new(path, aside)
        except FileExistsError:
            continue
        warnings.warn(f"{path} was not dcfsc's; it is now {aside.name}.", UserWarning, stacklevel=2)
        return


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


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """A folder that takes no files, or a full disk, in one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        message = f"cannot write to {path}: {reason}; choose another place with --out."
        raise WriteError(message) from error


def read_json(path: str | os.PathLike[str], longest: int = LONGEST_JSON) -> Any:
    """The value in a JSON file, which may come from anybody; a ValueError where there is none.

    So it is for a file that is too long, or that would need far more memory than its length.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > longest:
        raise ValueError("no file of that kind")
    content = Path(path).read_bytes()
    if content.count(b"[") + content.count(b"{") > 1000 + len(content) // _FEWEST_BYTES:
        raise ValueError("too many lists")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("too deep") from None


def header_of(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What dcfsc wrote in the header of a safetensors file; None for any other file.

    The tensors are not read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(LONGEST_JSON, os.fstat(file.fileno()).st_size):
                return None
            ours = json.loads(json.loads(file.read(length))["__metadata__"]["dcfsc"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return ours if isinstance(ours, dict) else None
