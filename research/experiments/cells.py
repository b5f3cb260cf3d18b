"""Cells: the unit that an experiment computes, stores and never computes twice.

A cell is one method on one problem (a dataset, a window of its classes or a trial). Its result is
one line of ``out/<experiment>/cells/<method>.jsonl``; a failure is a line of
``<method>.failed.jsonl`` beside it and is tried again. Lines are appended whole and under a lock
(``record_file``), so a run may be killed at any moment, resumed, and shared by several processes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from dcfsc.errors import DcfscError
from dcfsc.files import remove_abandoned

from . import record_file
from .record_file import Record

_ENDING, _FAILED = ".jsonl", ".failed.jsonl"


@dataclass(frozen=True)
class Problem:
    """Which samples: every class of a dataset, or ``n_clusters`` consecutive ones.

    ``per_class`` keeps that many samples of each class, for experiments meant to be small.
    """

    dataset: str
    n_clusters: int
    window: int | None = None
    per_class: int | None = None


@dataclass(frozen=True)
class Cell:
    """One method on one problem with one seed."""

    experiment: str
    method: str
    problem: Problem
    seed: int = 0
    trial: int | None = None
    lam: float | None = None  # where it differs from the protocol's
    named: bool = False  # the key names the dataset, where an experiment has several

    @property
    def problem_key(self) -> str:
        if self.problem.window is not None:
            return f"k{self.problem.n_clusters:02d}-w{self.problem.window:02d}-seed{self.seed}"
        if self.trial is None:
            return self.problem.dataset
        trial = f"trial-{self.seed:02d}"
        return f"{self.problem.dataset}-{trial}" if self.named else trial

    @property
    def key(self) -> str:
        """The name of the cell's record, unique within the method."""
        return self.problem_key if self.lam is None else f"lam-{self.lam:g}-{self.problem_key}"

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.method}/{self.key}"

    def reference(self, method: str) -> Cell:
        return replace(self, method=method, lam=None)

    def identity(self) -> Record:
        """The part of a record that says which cell it is."""
        record: Record = {
            "experiment": self.experiment,
            "method": self.method,
            "key": self.key,
            "dataset": self.problem.dataset,
            "K": self.problem.n_clusters,
        }
        if self.problem.window is not None:
            record["window"] = self.problem.window
        if self.trial is not None:
            record["trial"] = self.trial
        return {**record, "seed": self.seed}


class CellStore:
    """The cells of one experiment on disk."""

    def __init__(self, out: Path, experiment: str):
        self.out = Path(out)
        self.experiment = experiment
        self.folder = self.out / experiment
        self.cells = self.folder / "cells"
        self._read: dict[Path, tuple[tuple[int, int, int], dict[str, Record]]] = {}

    def path(self, cell: Cell) -> Path:
        return self.cells / f"{cell.method}{_ENDING}"

    def load(self, cell: Cell) -> Record | None:
        return self._records(self.path(cell)).get(cell.key)

    def save(self, cell: Cell, record: Record) -> None:
        record_file.append(self.path(cell), {**cell.identity(), **record})
        record_file.discard(self._failed_path(cell), cell.key)

    def fail(self, cell: Cell, reason: str, seconds: float) -> None:
        record_file.append(
            self._failed_path(cell),
            {**cell.identity(), "failed": reason, "seconds": round(seconds, 3)},
        )

    def records(self) -> list[Record]:
        return [record for path in self._paths() for record in self._records(path).values()]

    def failures(self) -> list[Record]:
        """The last failure of every cell that has failed and not been finished since."""
        failures = []
        for path in sorted(self.cells.glob(f"*{_FAILED}")):
            finished = self._records(path.with_name(path.name.removesuffix(_FAILED) + _ENDING))
            failures += [r for key, r in self._records(path).items() if key not in finished]
        return failures

    def tidy(self) -> None:
        """Sort every file by key and drop the records that were computed again since."""
        for path in self.cells.glob(f"*{_ENDING}"):
            record_file.tidy(path)

    def remove_abandoned_parts(self) -> None:
        """Remove what killed processes left of files that were half written."""
        for folder in (self.folder, *filter(Path.is_dir, self.folder.glob("*"))):
            remove_abandoned(folder)

    def _failed_path(self, cell: Cell) -> Path:
        return self.cells / f"{cell.method}{_FAILED}"

    def _paths(self) -> list[Path]:
        paths = self.cells.glob(f"*{_ENDING}")
        return sorted((p for p in paths if not p.name.endswith(_FAILED)), key=lambda p: p.stem)

    def _records(self, path: Path) -> dict[str, Record]:
        """A file's records by key, read again only if the file has changed."""
        try:
            stat = path.stat()
        except FileNotFoundError:
            return {}
        version = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        known = self._read.get(path)
        if known is None or known[0] != version:
            known = self._read[path] = version, record_file.read(path, _is_cell)
        return known[1]


def _is_cell(record: Record) -> bool:
    """Whether a record says which cell it is of, as :meth:`Cell.identity` does."""
    words = (record.get(name) for name in ("experiment", "method", "key", "dataset"))
    return all(isinstance(word, str) for word in words) and all(
        type(record.get(name)) is int for name in ("K", "seed")
    )


_ABSOLUTE_PATH = re.compile(r"(?<![\w.~])(?:/[^\s/'\"`;:,()]+)+/([^\s/'\"`;:,()]*)")


def without_folders(text: str) -> str:
    """A message as one line, folders left out: a stored result names no place on a machine."""
    return _ABSOLUTE_PATH.sub(r"\1", " ".join(text.split()))


def one_line(error: BaseException) -> str:
    """An exception as one line; what the library did not say itself is named by its class."""
    text = without_folders(str(error)) or "no message"
    return text if isinstance(error, DcfscError) else f"{type(error).__name__}: {text}"[:300]
