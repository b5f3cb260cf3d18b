"""The cells of an experiment, computed here or by several processes, each taking the next unit."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dcfsc.errors import InputError
from dcfsc.machine import available_cpus
from dcfsc.selection.estimate import spoken

from . import catalog, tables
from .cells import Cell, CellStore, one_line, without_folders
from .pipeline import Session


@dataclass(frozen=True)
class Outcome:
    """What came of a cell; ``line`` says it to a person."""

    failed: bool
    line: str


def run_cell(experiment: catalog.Experiment, cell: Cell, session: Session) -> Outcome:
    store = session.store
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)  # ConvergenceWarning is one
            record = experiment.measure(cell, session)
    except Exception as error:  # one cell must not take a night's run with it
        reason = one_line(error)
        store.fail(cell, reason, time.perf_counter() - start)
        session.release()
        return Outcome(True, reason)
    seconds = time.perf_counter() - start
    said = list(dict.fromkeys(without_folders(str(w.message)) for w in caught))
    session.save(cell, {**record, "warnings": said, "cell_seconds": round(seconds, 3)})
    return Outcome(False, f"{tables.headline(record)} ({spoken(seconds)})")


def fill(
    experiment: catalog.Experiment, cells: list[Cell], session: Session
) -> Iterator[tuple[Cell, Outcome]]:
    """Compute the cells one after the other, in this process."""
    for cell in cells:
        yield cell, run_cell(experiment, cell, session)


def fill_by_processes(
    name: str, cells: list[Cell], out: Path, device: Any, force: bool, jobs: int
) -> Iterator[tuple[Cell, Outcome]]:
    """Compute the cells in ``jobs`` processes, which share the device and divide the cores.

    The longest first, by the number of clusters, so that none is left to run alone. What a process
    that dies had not finished is missing, and computed by the next call.
    """
    units: dict[Any, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: -cell.problem.n_clusters):
        units.setdefault(catalog.unit(cell), []).append(cell)
    pool = ProcessPoolExecutor(
        min(jobs, len(units)),
        mp_context=multiprocessing.get_context("spawn"),  # a forked process cannot use CUDA
        initializer=_begin,
        initargs=(name, out, device, force, max(1, available_cpus() // jobs)),
    )
    waiting: dict[Future[list[Outcome]], list[Cell]] = {
        pool.submit(_unit, unit): unit for unit in units.values()
    }
    try:
        for done in as_completed(waiting):
            yield from zip(waiting[done], done.result(), strict=True)
    except BrokenProcessPool:
        raise InputError(
            "one of the processes was killed, perhaps because memory ran out; the finished "
            f"cells are kept: run it again, with fewer than --jobs {jobs}."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_work: tuple[catalog.Experiment, Session] | None = None


def _begin(name: str, out: Path, device: Any, force: bool, threads: int) -> None:
    global _work
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    threadpool_limits(threads)
    _work = catalog.get(name), Session(CellStore(out, name), device, force)


def _unit(cells: list[Cell]) -> list[Outcome]:
    assert _work is not None, "the pool calls _begin first"
    experiment, session = _work
    return [run_cell(experiment, cell, session) for cell in cells]
