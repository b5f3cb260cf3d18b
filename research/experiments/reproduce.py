"""Run an experiment: fill the gaps of its grid, cell by cell, then draw its table and figures."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError
from dcfsc.journal import RESULTS, filling, held
from dcfsc.machine import resolve_device
from dcfsc.ownership import check_place
from dcfsc.selection.estimate import spoken
from research.record import record_of, write_json

from . import catalog, figures, tables
from .cells import Cell, CellStore, Record
from .pipeline import Session
from .workers import fill, fill_by_processes

Report = Callable[[str], None]
DRAWING_SECONDS = 60.0  # how long to wait for other processes that draw


@dataclass
class Summary:
    """What a run did, or with ``dry_run`` would do."""

    experiment: str
    cells: int
    done_before: int = 0
    computed: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # cell -> reason
    seconds: float = 0.0
    files: list[Path] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.cells - self.done_before - self.computed

    def __str__(self) -> str:
        parts = [f"{self.cells} cells", f"{self.done_before} were done"]
        if self.computed:
            parts.append(f"{self.computed} computed in {spoken(self.seconds)}")
        if self.failed:
            parts.append(f"{len(self.failed)} failed (tried again next time)")
        if self.missing:
            parts.append(f"{self.missing} missing")
        return f"{self.experiment}: {', '.join(parts)}."


def reproduce(
    name: str,
    *,
    out: Path | str = Path("results"),
    device: Any = "auto",
    dry_run: bool = False,
    force: bool = False,
    jobs: int = 1,
    report: Report = print,
    **options: Any,
) -> Summary:
    """Compute the missing cells of an experiment, then its tables and figures.

    ``options`` select cells as :meth:`Experiment.plan` does. ``out`` gets a folder with the cells,
    the tables and the figures; ``report`` is called with one line of text at a time. With
    ``dry_run`` it is only said what would run. A cell that fails is recorded with its reason and
    tried again next time; the run goes on. What a run did is left in ``<name>/runs``.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1; got {jobs}.")
    resolve_device(device)
    experiment = catalog.get(name)
    planned = experiment.plan(**options)
    store = CellStore(Path(out), name)
    for place in (store.out, store.folder):
        check_place(place)
    missing = [cell for cell in planned if force or store.load(cell) is None]
    summary = Summary(name, len(planned), done_before=len(planned) - len(missing))
    if dry_run:
        announce(missing, planned, store, report)
        return summary
    start = time.perf_counter()
    store.remove_abandoned_parts()
    if missing:
        session = Session(store, device, force)
        if experiment.needs_data:
            for dataset in dict.fromkeys(cell.problem.dataset for cell in missing):
                session.dataset(dataset)  # a missing file is said once, before the work
        if jobs == 1:
            outcomes = fill(experiment, missing, session)
        else:
            outcomes = fill_by_processes(name, missing, store.out, device, force, jobs)
        for number, (cell, outcome) in enumerate(outcomes, start=1):
            line = outcome.line
            if outcome.failed:
                summary.failed[f"{cell.method}/{cell.key}"] = line
                line = f"FAILED, {line}"
            else:
                summary.computed += 1
            report(f"[{number}/{len(missing)}] {cell.method} {cell.key}: {line}")
        summary.seconds = time.perf_counter() - start
        store.tidy()
        write_run(store, summary, missing, jobs)
    summary.files = render(name, out, report=report)
    report(str(summary))
    return summary


def write_run(store: CellStore, summary: Summary, cells: list[Cell], jobs: int) -> None:
    """Leave what a run did, and how long it took from its start to its last cell."""
    run = {
        "cells": Counter(cell.method for cell in cells),
        "computed": summary.computed,
        "failed": len(summary.failed),
        "jobs": jobs,
        "seconds": round(summary.seconds, 1),
    }
    done = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = store.folder / "runs" / f"{done}-{os.getpid()}.json"
    write_json(path, record_of(summary.experiment, run))


def announce(missing: list[Cell], planned: list[Cell], store: CellStore, report: Report) -> None:
    """Say what would run, by method and number of clusters, and how long a cell took last time."""
    records = store.records()
    waiting = set(missing)
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in planned:
        groups.setdefault((cell.method, cell.problem.n_clusters), []).append(cell)
    for (method, K), cells in groups.items():
        each = last_time(records, method, K)
        said = "never timed" if each is None else f"{spoken(each)} a cell last time"
        count = sum(cell in waiting for cell in cells)
        report(f"{method}, K={K}: {count} of {len(cells)} cells to run, {said}")
    reasons = {(r["method"], r["key"]): r["failed"] for r in store.failures()}
    for cell in missing:
        if reason := reasons.get((cell.method, cell.key)):
            report(f"failed before: {cell.method} {cell.key}: {reason}")
    report(f"{len(missing)} of {len(planned)} cells to run.")


def last_time(records: list[Record], method: str, n_clusters: int) -> float | None:
    """The median seconds of this kind of cell; with another number of clusters if need be."""
    timed = [r for r in records if r["method"] == method and "cell_seconds" in r]
    same = [r for r in timed if r["K"] == n_clusters]
    seconds = [float(r["cell_seconds"]) for r in same or timed]
    return statistics.median(seconds) if seconds else None


def render(name: str, out: Path | str = Path("results"), report: Report = print) -> list[Path]:
    """Write an experiment's table (CSV, Markdown) and figures (PNG, SVG) from its saved cells."""
    experiment = catalog.get(name)
    store = CellStore(Path(out), name)
    store.folder.mkdir(parents=True, exist_ok=True)
    rows = experiment.table.rows(store)
    drawn = filling(store.folder, RESULTS, removes=())
    with held(store.folder, DRAWING_SECONDS), drawn as place:
        tables.write(experiment.title, experiment.table, rows, store, place)
        try:
            if experiment.draw is not None and rows:
                figures.write(experiment.title, experiment.draw, rows, place)
        except ImportError:
            report("no figures: matplotlib is not installed (pip install 'dcfsc[plots]').")
        files = sorted(path.name for path in place.iterdir())
    return [store.folder / file for file in files]
