"""The rule for writing: what this program did not make is never removed or replaced.

In a folder of ours a list says which files we wrote (:mod:`dcfsc.journal`). Whatever else is there
belongs to somebody: a file that was added or changed stays, and in an export one that was taken out
stays out.

A file elsewhere is never ours. Where one is to be written, it is an error if there is one already;
with ``overwrite`` the earlier file becomes ``NAME.bak``, which nothing ever removes.

Commands and ``save`` have no rule of their own: files of a run or an export go through
:func:`dcfsc.journal.filling`, a file that a person named through an :class:`Output`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self

from dcfsc import files
from dcfsc.errors import InputError
from dcfsc.journal import EXPORT, MOVING_SECONDS, RUN, Filled, filling, held, kind_of


class Output:
    """A file to be written, of which it is known before the work that it may be.

    With ``overwrite`` a file in its place is replaced, or set aside if it is somebody's. Without
    ``asks`` a file of ours is replaced in any case. It is ours if the run ``own``, on which the
    command works, lists it, or if ``ours`` knows it by its content. ``inputs`` are the paths that
    the command reads; see :func:`check_place`.
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
    ):
        self.target, self._overwrite, self._asks, self._ours = Path(target), overwrite, asks, ours
        self._first: Path | None = None
        check_place(self.target, inputs=inputs, own=own)
        if self.target.is_dir():
            raise InputError(f"{self.target} is a folder; give the name of a file.")
        folder = self.target.parent
        inside = own is not None and folder.resolve() == Path(own).resolve()
        self._is_listed = inside and Filled.read(folder) is not None
        self._check()

    def _check(self) -> bool:
        """Whether there is a file of ours; an error for one that may not be replaced."""
        if not os.path.lexists(self.target):
            return False
        known = Filled.read(self.target.parent) if self._is_listed else None
        ours = known is not None and known.owns(self.target.parent, self.target.name)
        if self._ours is not None:
            ours = self._ours(self.target)
            if not ours:
                raise InputError(
                    f"{self.target} exists and is not a dcfsc model; choose another name."
                )
        if not (self._overwrite or (ours and not self._asks)):
            raise InputError(
                f"{self.target} exists; choose another name with --out, or add --overwrite"
                f"{' to replace it' if ours else f': it is then kept as {self.target.name}.bak'}."
            )
        return ours

    @contextmanager
    def open(self) -> Iterator[Path]:
        """Give a temporary path; on success it becomes the target, in one step."""
        folder = self.target.parent
        with files.write_errors(self.target):
            folder.mkdir(parents=True, exist_ok=True)
        files.remove_abandoned(folder)
        with files.write_errors(self.target), files.new_stage(folder) as stage:
            part = stage / self.target.name
            yield part
            if self._is_listed:
                self._place_listed(part)
                return
            files.make_durable(part, stage)
            if self._check():
                os.replace(part, self.target)
            else:
                if os.path.lexists(self.target):
                    files.set_aside(self.target)
                files.rename_new(part, self.target)
            files.sync(folder)

    def _place_listed(self, part: Path) -> None:
        folder = self.target.parent
        with held(folder, MOVING_SECONDS), filling(folder, RUN, removes=()) as place:
            if self._first is not None:
                self.target = _free(self._first)  # another process may have taken the name
            self._check()
            os.replace(part, place / self.target.name)

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
    own_run = None if own is None else Path(own).resolve()
    for folder in (real, *real.parents):
        if folder != own_run and kind_of(folder) == RUN:
            raise InputError(
                f"{target} lies in {'the' if own_run is None else 'another'} run {folder}; choose "
                "another place with --out."
            )


def check_export(target: Path, overwrite: bool) -> None:
    """Refuse a folder that is somebody's, and an earlier export unless it may be replaced."""
    if os.path.lexists(target) and not target.is_dir():
        raise InputError(f"{target} is a file; choose a folder with --out.")
    names = [n for n in os.listdir(target) if not files.is_part(n)] if target.is_dir() else []
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
