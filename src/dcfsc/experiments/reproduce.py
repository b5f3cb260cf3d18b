"""Run an experiment: fill the gaps of its grid, cell by cell, then draw its table and figures."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError

from . import catalogue, figures, tables
from .cells import Cell, CellStore, Record, one_line, without_folders
from .pipeline import Session

Report = Callable[[str], None]


@dataclass
class Summary:
    """What a run did, or with ``dry_run`` would do."""

    experiment: str
    cells: int  # of this shard
    done_before: int = 0
    computed: int = 0
    copied: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # cell -> reason
    seconds: float = 0.0
    estimate: float | None = None  # seconds that the missing cells may take
    files: list[Path] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.cells - self.done_before - self.computed - self.copied

    def __str__(self) -> str:
        parts = [f"{self.cells} cells", f"{self.done_before} were done"]
        if self.computed:
            parts.append(f"{self.computed} computed in {duration(self.seconds)}")
        if self.copied:
            parts.append(f"{self.copied} taken over from another experiment")
        if self.failed:
            parts.append(f"{len(self.failed)} failed (tried again next time)")
        if self.missing:
            parts.append(f"{self.missing} missing")
        return f"{self.experiment}: {', '.join(parts)}."


def reproduce(
    name: str,
    *,
    out: Path | str = Path("results"),
    methods: Sequence[str] | None = None,
    trials: int | None = None,
    device: Any = "auto",
    dry_run: bool = False,
    force: bool = False,
    shard: tuple[int, int] = (0, 1),
    clusters: Sequence[int] | None = None,
    report: Report = print,
) -> Summary:
    """Compute the missing cells of an experiment, then its tables and figures.

    Parameters
    ----------
    name : one of ``names()``: "eyaleb", "orl", "coil100", "lambda", "parameters", "memory", "smoke"
    out : folder that gets ``<name>/cells/<method>/<key>.json``, tables and figures
    methods : some of the experiment's methods instead of all
    trials : number of seeds, 0, 1, ... (Extended Yale B: per window)
    dry_run : only say what would run, and how long the same kind of cell took last time
    force : compute finished cells again
    shard : (i, n), this process takes the i-th of n parts; several may fill one folder
    clusters : Extended Yale B: some numbers of people instead of all
    report : called with one line of text at a time

    A cell that fails is recorded with its reason and tried again next time; the run goes on.
    """
    experiment = catalogue.get(name)
    planned = deal(experiment.plan(methods, trials, clusters), shard)
    store = CellStore(Path(out), name)
    missing = [cell for cell in planned if force or store.load(cell) is None]
    summary = Summary(name, len(planned), done_before=len(planned) - len(missing))
    if dry_run:
        summary.estimate = announce(missing, planned, store, report)
        return summary
    start = time.perf_counter()
    if missing:
        store.remove_stale_parts()
        session = Session(store, device, force)
        if experiment.needs_data:
            for dataset in dict.fromkeys(cell.problem.dataset for cell in missing):
                session.dataset(dataset)  # a missing file is said once, before the work
        for number, cell in enumerate(missing, start=1):
            line = run_cell(experiment, cell, session, summary, force)
            report(f"[{number}/{len(missing)}] {cell.method} {cell.key}: {line}")
    summary.seconds = time.perf_counter() - start
    summary.files = render(name, out, report=report)
    report(str(summary))
    return summary


def run_cell(
    experiment: catalogue.Experiment, cell: Cell, session: Session, summary: Summary, force: bool
) -> str:
    """Compute and store one cell, or store why not; returns a line to report."""
    copied = None if force else session.store.load_twin(cell)
    if copied is not None:
        session.store.save(cell, copied)
        summary.copied += 1
        return f"taken over from {copied['copied_from']}"
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)  # ConvergenceWarning is one
            record = experiment.measure(cell, session)
    except Exception as error:  # one cell must not take a night's run with it
        reason = one_line(error)
        session.store.fail(cell, reason, time.perf_counter() - start)
        summary.failed[f"{cell.method}/{cell.key}"] = reason
        session.release()
        return f"FAILED, {reason}"
    seconds = time.perf_counter() - start
    said = list(dict.fromkeys(without_folders(str(w.message)) for w in caught))
    session.store.save(cell, {**record, "warnings": said, "cell_seconds": round(seconds, 3)})
    summary.computed += 1
    return f"{tables.headline(record)} ({duration(seconds)})"


def deal(cells: list[Cell], shard: tuple[int, int]) -> list[Cell]:
    """This shard's cells: units are dealt round-robin, in order."""
    index, count = shard
    if not (count >= 1 and 0 <= index < count):
        raise InputError(
            f"shard must be (i, n) with 0 <= i < n; got ({index}, {count}). "
            "The first of four is (0, 4)."
        )
    units = {u: n for n, u in enumerate(dict.fromkeys(map(catalogue.unit, cells)))}
    return [cell for cell in cells if units[catalogue.unit(cell)] % count == index]


def announce(
    missing: list[Cell], planned: list[Cell], store: CellStore, report: Report
) -> float | None:
    """Say what would run, by method and number of clusters; returns the estimate in seconds."""
    records = store.records()
    total, unknown = 0.0, False
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in planned:
        groups.setdefault((cell.method, cell.problem.n_clusters), []).append(cell)
    waiting = set(missing)
    for (method, K), cells in groups.items():
        todo = [cell for cell in cells if cell in waiting]
        each = last_time(records, method, K)
        line = f"{method}, K={K}: {len(todo)} of {len(cells)} cells to run"
        if each is not None:
            total += each * len(todo)
            line += f", {duration(each)} a cell last time"
        elif todo:
            unknown = True
            line += ", never timed"
        report(line)
    reasons = {f"{r['method']}/{r['key']}": r["failed"] for r in store.failures()}
    for cell in missing:
        reason = reasons.get(f"{cell.method}/{cell.key}")
        if reason:
            report(f"failed before: {cell.method} {cell.key}: {reason}")
    estimate = None if unknown and total == 0.0 else total
    said = "unknown" if estimate is None else duration(estimate) + (" or more" if unknown else "")
    report(f"{len(missing)} of {len(planned)} cells to run; estimated time: {said}.")
    return estimate


def last_time(records: list[Record], method: str, n_clusters: int) -> float | None:
    """The median seconds of this kind of cell; with another number of clusters if need be."""
    timed = [r for r in records if r["method"] == method and "cell_seconds" in r]
    same = [r for r in timed if r["K"] == n_clusters]
    seconds = [float(r["cell_seconds"]) for r in same or timed]
    return statistics.median(seconds) if seconds else None


def render(name: str, out: Path | str = Path("results"), report: Report = print) -> list[Path]:
    """Write an experiment's table (CSV, Markdown) and figures (PNG, SVG) from its saved cells."""
    catalogue.get(name)
    store = CellStore(Path(out), name)
    files = tables.write(store)
    try:
        files += figures.write(store)
    except ImportError:
        report("no figures: matplotlib is not installed (pip install 'dcfsc[plots]').")
    return files


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
