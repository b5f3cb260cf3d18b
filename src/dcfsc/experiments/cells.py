"""Cells: the unit that an experiment computes, stores and never computes twice.

A cell is one method on one problem (a dataset, a window of its classes or a trial). Its result is
one JSON file, written in one step, at ``out/<experiment>/cells/<method>/<key>.json``; a failure is
``<key>.failed.json`` beside it and is tried again. So a run may be killed at any moment, resumed,
and shared by several processes without locks.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dcfsc.errors import DcfscError
from dcfsc.files import write_json

Record = dict[str, Any]
_FAILED = ".failed.json"
_STALE_SECONDS = 3600.0


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
    twin: tuple[str, str, str] | None = None  # the same cell of another experiment

    @property
    def problem_key(self) -> str:
        """Problem and seed as a file name, whatever the method."""
        if self.problem.window is not None:
            return f"k{self.problem.n_clusters:02d}-w{self.problem.window:02d}-seed{self.seed}"
        return f"trial-{self.seed:02d}" if self.trial is not None else self.problem.dataset

    @property
    def key(self) -> str:
        """The file's name without its ending, unique within the method."""
        return self.problem_key if self.lam is None else f"lam-{self.lam:g}-{self.problem_key}"

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.method}/{self.key}"

    def reference(self, method: str) -> Cell:
        """The cell of a reference on the same problem with the same seed.

        The lambda experiment shares its references, as its problem, with coil100.
        """
        twin = ("coil100", method, self.problem_key) if self.experiment == "lambda" else None
        return replace(self, method=method, lam=None, twin=twin)

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

    def path(self, cell: Cell) -> Path:
        return self.cells / cell.method / f"{cell.key}.json"

    def load(self, cell: Cell) -> Record | None:
        """The record of a finished cell; None if there is none that can be read."""
        return _read(self.path(cell))

    def load_twin(self, cell: Cell) -> Record | None:
        """The same cell, as another experiment computed it, under this experiment's name."""
        if cell.twin is None:
            return None
        experiment, method, key = cell.twin
        record = _read(self.out / experiment / "cells" / method / f"{key}.json")
        if record is None:
            return None
        return {**record, **cell.identity(), "copied_from": f"{experiment}/{method}/{key}"}

    def save(self, cell: Cell, record: Record) -> None:
        write_json(self.path(cell), record)
        self._failed_path(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, reason: str, seconds: float) -> None:
        write_json(
            self._failed_path(cell),
            {**cell.identity(), "failed": reason, "seconds": round(seconds, 3)},
        )

    def records(self) -> list[Record]:
        """Every finished cell, by method and key."""
        return [record for _, record in self._files(failed=False)]

    def failures(self) -> list[Record]:
        return [record for _, record in self._files(failed=True)]

    def remove_stale_parts(self) -> None:
        """Remove what killed processes left: a part lives for milliseconds, an old one is dead."""
        for part in self.cells.glob("*/.*.part"):
            try:
                if time.time() - part.stat().st_mtime > _STALE_SECONDS:
                    part.unlink()
            except FileNotFoundError:
                pass  # another process was quicker

    def _failed_path(self, cell: Cell) -> Path:
        return self.cells / cell.method / f"{cell.key}{_FAILED}"

    def _files(self, failed: bool) -> Iterator[tuple[Path, Record]]:
        for path in sorted(self.cells.glob("*/*.json")):
            if path.name.endswith(_FAILED) == failed:
                record = _read(path)
                if record is not None:
                    yield path, record


def _read(path: Path) -> Record | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


_ABSOLUTE_PATH = re.compile(r"(?<![\w.~])(?:/[^\s/'\"`;:,()]+)+/([^\s/'\"`;:,()]*)")


def without_folders(text: str) -> str:
    """A message as one line, folders left out: a stored result names no place on a machine."""
    return _ABSOLUTE_PATH.sub(r"\1", " ".join(text.split()))


def one_line(error: BaseException) -> str:
    """An exception as one line; what the library did not say itself is named by its class."""
    text = without_folders(str(error)) or "no message"
    return text if isinstance(error, DcfscError) else f"{type(error).__name__}: {text}"[:300]
