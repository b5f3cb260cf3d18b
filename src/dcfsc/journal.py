"""The list of what we wrote in a folder, and changes to it that happen whole or not at all.

A *folder of ours* (a run, an export, an experiment's results, predictions of shards) holds a list,
``.dcfsc.json``, of the files that we wrote in it, with their SHA-256. A file is ours only while it
has a digest of the list.

:func:`filling` puts many files into such a folder. They are first written to a folder inside it,
with a name of our own (:func:`dcfsc.files.part_name`). Then ``plan.json`` beside them says where
they go: from that moment on the change counts, and whatever interrupts it, :func:`settle` completes
it.

Nothing here needs the numerical libraries.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dcfsc.errors import InputError
from dcfsc.files import (
    LOCK,
    PLAN,
    WriteError,
    is_part,
    make_durable,
    new_stage,
    read_json,
    releasing,
    remove_abandoned,
    set_aside,
    stages,
    sync,
    try_lock,
    write_errors,
    write_text,
)

LIST, FILES, RECORD = ".dcfsc.json", "files", "run.json"
RUN, EXPORT, RESULTS, PREDICTED = "run", "export", "results", "predictions"
KINDS = (RUN, EXPORT, RESULTS, PREDICTED)
FORMAT = 1
FIELDS = ("kind", "files", "removes", "renames")  # of a plan
LONGEST_LIST = 1 << 26
CHUNK = 1 << 20
_DIGEST = re.compile("(link )?[0-9a-f]{64}")
MOVING_SECONDS = 10.0  # how long to wait for the few renames of another process


def digest(path: Path) -> str | None:
    """SHA-256 of a file's content, or of where a link leads; None where there is nothing.

    Of a folder, a pipe, a device or what may not be read it is "other", which no list holds.
    """
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return f"link {hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()}"
        if not stat.S_ISREG(mode):
            return "other"
        content = hashlib.sha256()
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                content.update(chunk)
        return content.hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        return "other"


# The list of a folder ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Filled:
    """What we wrote in a folder: its kind, and the digests that each file may have.

    Version 1 listed two digests of a file that it was replacing.
    """

    kind: str
    files: Mapping[str, list[str]]

    @classmethod
    def read(cls, folder: Path) -> Filled | None:
        """The list of a folder, or None where there is none.

        Raises InputError for a list that this program did not write.
        """
        path = folder / LIST
        if not os.path.lexists(path):
            return None
        return cls(**_sealed(path, ("kind", "files")))

    def owns(self, folder: Path, name: str) -> bool:
        return name in self.files and digest(folder / name) in self.files[name]

    def write(self, folder: Path) -> None:
        _write_sealed(folder / LIST, {"kind": self.kind, "files": dict(self.files)})


def kind_of(folder: Path) -> str | None:
    """What a folder of ours is; None for one of somebody's."""
    with suppress(InputError):
        if (known := Filled.read(folder)) is not None:
            return known.kind
    return RUN if is_record(folder / RECORD) else None  # of version 1.0, which kept no list


def is_record(path: Path) -> bool:
    """Whether the file is the record of a run, in the format of this or of another version."""
    try:
        record = read_json(path)
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and "dcfsc_run" in record


def _write_sealed(path: Path, content: dict[str, Any]) -> None:
    """JSON with a digest of itself: one that was changed by hand is no longer ours."""
    content = {"dcfsc_files": FORMAT, **content}  # its order is that of a plan's moves
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    text = json.dumps({"sha256": seal, "content": content}, indent=1) + "\n"
    if len(text) > LONGEST_LIST:
        raise InputError(f"{path.parent} cannot take so many files; write fewer.")
    write_text(path, text)


def _sealed(path: Path, fields: Sequence[str]) -> dict[str, Any]:
    """The inverse of :func:`_write_sealed`, with the given fields and no others."""
    try:
        if path.is_symlink():
            raise ValueError("no list")
        outer = read_json(path, LONGEST_LIST)
        content = outer["content"]
        text = json.dumps(content, sort_keys=True)
        if outer["sha256"] != hashlib.sha256(text.encode()).hexdigest():
            raise ValueError("changed")
        if content.pop("dcfsc_files") > FORMAT:
            raise InputError(f"{path} was written by a later dcfsc; upgrade dcfsc.")
        if content.keys() != set(fields) or content["kind"] not in KINDS:
            raise ValueError("other fields")
        _check_names(content)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path} is damaged or not written by dcfsc; move it away, or choose another folder."
        ) from None
    return content


def _check_names(content: Mapping[str, Any]) -> None:
    """Names lie in the folder, and none is that of the list or of what is half written."""
    removes, renames = content.get("removes", {}), content.get("renames", {})
    flat = [*renames, *renames.values()]
    for name in [*content["files"], *removes, *flat]:
        os.fsencode(name)  # a ValueError for what names no file
        parts = PurePosixPath(name).parts
        plain = bool(parts) and "/".join(parts) == name and parts[0] != LIST and "\0" not in name
        if not plain or ".." in parts or any(map(is_part, parts)) or (name in flat and parts[1:]):
            raise ValueError("a name outside the folder")
    for digests in [*content["files"].values(), *removes.values()]:
        if not isinstance(digests, list) or not all(map(_DIGEST.fullmatch, digests)):
            raise ValueError("no digests")


# Changing a folder ------------------------------------------------------------------------------


@contextmanager
def held(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """One process at a time writes to the folder, settled; another one is refused meanwhile."""
    until = time.monotonic() + wait
    with write_errors(folder):
        while (lock := try_lock(folder / LOCK)) is None and time.monotonic() < until:
            time.sleep(0.01)
    if lock is None:
        raise InputError(
            f"another process is writing to {folder}; wait until it ends, or choose another folder "
            "with --out."
        )
    with releasing(lock, folder / LOCK):
        try:
            _settle(folder)
        except OSError as error:
            raise not_moved(folder, error) from error
        yield


def settle(folder: Path) -> None:
    """Complete or undo what a killed process began in the folder, unless one is at work there.

    A reader that finds another process in the middle of the last step waits for its end.
    """
    until = time.monotonic() + MOVING_SECONDS
    while folder.is_dir() and any(map(is_part, os.listdir(folder))):
        try:
            lock = try_lock(folder / LOCK)
            if lock is not None:
                with releasing(lock, folder / LOCK):
                    _settle(folder)
                return
        except OSError as error:
            if _complete(folder):
                raise not_moved(folder, error) from error
            return  # a folder that is only read from
        if not _complete(folder) or time.monotonic() > until:
            return
        time.sleep(0.01)


def _settle(folder: Path) -> None:
    for stage in _complete(folder):
        _finish(folder, stage)
    remove_abandoned(folder)


def _complete(folder: Path) -> list[Path]:
    """The changes of a folder that count, and are not done yet."""
    return [stage for stage in stages(folder) if (stage / PLAN).is_file()]


def not_moved(folder: Path, error: OSError, kind: str | None = None) -> WriteError:
    kinds = {kind, *(_sealed(stage / PLAN, FIELDS)["kind"] for stage in _complete(folder))}
    how = "" if PREDICTED in kinds else " with --resume"
    return WriteError(
        f"the files of {folder} are complete, but could not be moved into place: "
        f"{error.strerror or error}; repeat the command{how} to do that."
    )


@contextmanager
def filling(
    folder: Path,
    kind: str,
    *,
    last: str = "",
    removes: Iterable[str] | None = None,
    spent: Iterable[str] = (),
    renames: Mapping[str, str] | None = None,
) -> Iterator[Path]:
    """Give an empty folder for files, which in the end go to ``folder``: all of them, or none.

    What the list has and the new files have not is removed: those of ``removes``, or without it
    all. So are the ``spent`` ones, which the caller knows for ours. ``renames`` says which files of
    the folder get another name, and ``last`` which of the new ones is moved last. The caller holds
    the folder.

    In a run, what somebody put in the place of a new file becomes ``NAME.bak``. In an export it
    stays, and the new file is left out, as is one that somebody took out before.
    """
    with write_errors(folder), new_stage(folder) as stage:
        (stage / FILES).mkdir()
        yield stage / FILES
        names = sorted(_files_below(stage / FILES), key=lambda name: (name == last, name))
        if kind != EXPORT:
            for name in names:
                make_durable(stage / FILES / name, stage)
        files = {name: [digest(stage / FILES / name)] for name in names}
        known = Filled.read(folder) or Filled(kind, {})
        earlier = known.files.keys() - files.keys()
        chosen = earlier if removes is None else earlier & set(removes)
        gone = {name: known.files[name] for name in sorted(chosen)}
        gone |= {name: [there] for name in spent if (there := digest(folder / name))}
        sync(stage / FILES)
        plan = {"kind": kind, "files": files, "removes": gone, "renames": dict(renames or {})}
        _write_sealed(stage / PLAN, plan)  # the change counts from here on
        try:
            sync(folder)
            _finish(folder, stage)
        except OSError as error:
            raise not_moved(folder, error, kind) from error


def _files_below(top: Path) -> Iterator[str]:
    for folder, subfolders, files in os.walk(top):
        links = [name for name in subfolders if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            yield Path(folder, name).relative_to(top).as_posix()


def _finish(folder: Path, stage: Path) -> None:
    """Move the new files into place and write the list. May be interrupted and done again."""
    plan = _sealed(stage / PLAN, FIELDS)
    known = Filled.read(folder) or Filled(plan["kind"], {})
    files = {name: list(digests) for name, digests in known.files.items()}
    for old, new in plan["renames"].items():
        if os.path.lexists(folder / old) and not os.path.lexists(folder / new):
            os.rename(folder / old, folder / new)
        files[new] = files.pop(old, files.get(new, []))
    is_export = plan["kind"] == EXPORT
    out = {d for name, ds in files.items() for d in ds if not os.path.lexists(folder / name)}
    left = 0
    for name, new in plan["files"].items():
        source, target = stage / FILES / name, folder / name
        if os.path.lexists(source):  # else it was moved before an interruption
            there = digest(target)
            taken_out = there is None and (name in files or not out.isdisjoint(new))
            changed = there is not None and there not in (*new, *files.get(name, ()))
            linked = not (_in_real_folders(folder, name) and _in_real_folders(stage, FILES, name))
            if linked or (is_export and (taken_out or changed)):
                left += 1
                continue
            if changed:
                set_aside(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
        files[name] = new
    for name, digests in plan["removes"].items():
        there = digest(folder / name) if _in_real_folders(folder, name) else "other"
        if there in digests:
            (folder / name).unlink()
            with suppress(OSError):  # a folder that is not empty
                for above in PurePosixPath(name).parents[:-1]:
                    (folder / above).rmdir()
        if there is not None or not is_export:
            files.pop(name, None)
    Filled(plan["kind"], files).write(folder)
    (stage / PLAN).unlink()
    shutil.rmtree(stage, ignore_errors=True)
    sync(folder)
    if left:
        warnings.warn(
            f"{left} {'file' if left == 1 else 'files'} of {folder} "
            f"{'was' if left == 1 else 'were'} changed or taken out by hand, and left so.",
            UserWarning,
            stacklevel=2,
        )


def _in_real_folders(folder: Path, *names: str) -> bool:
    """Whether no link stands between the folder and the file: it would lead elsewhere."""
    above = [folder / part for part in PurePosixPath(*names).parents if part.parts]
    return not any(path.is_symlink() or path.is_file() for path in above)
