"""The rule for writing: what this program did not make is never removed or replaced.

In a folder of ours a list says which files we wrote (:mod:`dcfsc.journal`). Whatever else is there
belongs to somebody: a file that was added or changed stays, and in an export one that was taken out
stays out.

A file elsewhere is never ours. Where one is to be written, it is an error if there is one already;
with ``overwrite`` the earlier file becomes ``NAME.bak``, which nothing ever removes.

Commands and ``save`` have no rule of their own: they fill a folder with
:func:`dcfsc.journal.filling`, or write one file as an :class:`Output`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Self

from dcfsc.errors import InputError
from dcfsc.files import (
    is_part,
    make_durable,
    new_stage,
    remove_abandoned,
    rename_new,
    set_aside,
    sync,
    write_errors,
)
from dcfsc.journal import EXPORT, MOVING_SECONDS, RUN, Filled, digest, held, kind_of


class Output:
    """A file to be written, of which it is known before the work that it may be.

    Parameters
    ----------
    target : Path
    overwrite : bool
        Whether the person asked to replace what is there.
    own : Path or None
        The run that the command works on: a target in it is listed there.
    inputs : paths
        What the command reads; see :func:`check_place`.
    asks : bool
        Whether ``overwrite`` is needed even for a file of ours.
    ours : callable or None
        Tells by its content whether a file is ours, where no list can.
    is_held : bool
        Whether the caller holds the folder.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        own: Path | None = None,
        inputs: Iterable[Path] = (),
        asks: bool = True,
        ours: Callable[[Path], bool] | None = None,
        is_held: bool = False,
    ):
        self.target, self._overwrite, self._asks = Path(target), overwrite, asks
        self._ours, self._is_held = ours, is_held
        self._first: Path | None = None
        check_place(self.target, inputs=inputs, own=own)
        if self.target.is_dir():
            raise InputError(f"{self.target} is a folder; give the name of a file.")
        inside = own is not None and self.target.parent.resolve() == Path(own).resolve()
        self._list = Filled.read(self.target.parent) if inside else None
        self._check()

    def _check(self) -> bool:
        """Whether there is a file of ours; an error for one that may not be replaced."""
        there = os.path.lexists(self.target)
        ours = there and (
            self._ours(self.target)
            if self._ours is not None
            else self._list is not None and self._list.owns(self.target.parent, self.target.name)
        )
        if there and not ours and self._ours is not None:
            raise InputError(f"{self.target} exists and is not a dcfsc model; choose another name.")
        if there and not (self._overwrite or (ours and not self._asks)):
            raise InputError(
                f"{self.target} exists; choose another name with --out, or add --overwrite"
                f"{' to replace it' if ours else f': it is then kept as {self.target.name}.bak'}."
            )
        return bool(ours)

    @contextmanager
    def open(self) -> Iterator[Path]:
        """Give a temporary path; on success it becomes the target, in one step."""
        folder = self.target.parent
        with write_errors(self.target):
            folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)
        with write_errors(self.target), new_stage(folder) as stage:
            part = stage / self.target.name
            yield part
            make_durable(part, stage)
            if self._list is None:
                self._place(part)
            else:
                with nullcontext() if self._is_held else held(folder, MOVING_SECONDS):
                    self._place_listed(part)
            sync(folder)

    def _place_listed(self, part: Path) -> None:
        known = Filled.read(self.target.parent)
        assert known is not None
        if self._first is not None:
            self.target = _free(self._first)  # another process may have taken the name
        self._list, name, new = known, self.target.name, digest(part)
        before = digest(self.target) if self._check() else None
        # both digests, so that the file is ours whichever of the two a kill leaves
        known.adding(name, before, new).write(self.target.parent)
        self._place(part)

    def _place(self, part: Path) -> None:
        if self._check():
            os.replace(part, self.target)
            return
        if os.path.lexists(self.target):
            set_aside(self.target)
        rename_new(part, self.target)

    @classmethod
    def numbered(cls, target: Path, own: Path) -> Self:
        """The first of NAME.csv, NAME-2.csv, ... that is free in a run of ours at the end."""
        output = cls(_free(target), own=own)
        output._first = target
        return output


def named_like(target: Path, paths: Iterable[str] | None) -> list[Path]:
    """Those of many paths that may be the target."""
    return [Path(path) for path in paths or () if os.path.basename(path) == target.name]


def _free(target: Path) -> Path:
    names = (target.with_stem(f"{target.stem}-{i}") if i > 1 else target for i in count(1))
    return next(name for name in names if not os.path.lexists(name))


def check_place(target: Path, *, inputs: Iterable[Path] = (), own: Path | None = None) -> None:
    """Refuse places where nothing may be written, whatever is asked.

    These are the ``inputs`` of the command and all folders above them, any run but its own, a home,
    a root, and what is neither a file nor a folder.
    """
    real = Path(os.path.realpath(target))  # of links in a circle, too
    if os.path.exists(real) and not (real.is_file() or real.is_dir()):
        raise InputError(f"{target} is neither a file nor a folder; choose another with --out.")
    if real == Path(real.anchor) or real == Path(os.path.realpath(os.path.expanduser("~"))):
        raise InputError(f"{target} is not a place for results; choose a new folder with --out.")
    read = {Path(os.path.realpath(given)) for given in inputs}
    if real in read or any(real in given.parents for given in read):
        raise InputError(
            f"{target} {'is' if real in read else 'holds'} what the command reads; choose another "
            "place with --out."
        )
    mine = None if own is None else Path(own).resolve()
    for folder in (real, *real.parents):
        if folder != mine and kind_of(folder) == RUN:
            raise InputError(
                f"{target} lies in {'the' if mine is None else 'another'} run {folder}; choose "
                "another place with --out."
            )


def check_export(target: Path, overwrite: bool) -> None:
    """Refuse a folder that is somebody's, and an earlier export unless it may be replaced."""
    if os.path.lexists(target) and not target.is_dir():
        raise InputError(f"{target} is a file; choose a folder with --out.")
    names = [n for n in os.listdir(target) if not is_part(n)] if target.is_dir() else []
    if names and kind_of(target) != EXPORT:
        raise InputError(
            f"{target} has files in it that no export of dcfsc is known to have made; choose a new "
            "or empty folder with --out."
        )
    if names and not overwrite:
        raise InputError(
            f"{target} holds an earlier export; add --overwrite to renew it (what you changed, "
            "added or took out stays so), or choose another folder with --out."
        )
