"""One cell, computed and stored, and what came of it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

from . import catalog, tables
from .cells import Cell, one_line, without_folders
from .pipeline import Session


@dataclass(frozen=True)
class Outcome:
    """``kind`` is "computed", "copied" or "failed"; ``line`` says it to a person."""

    kind: str
    line: str


def run_cell(experiment: catalog.Experiment, cell: Cell, session: Session) -> Outcome:
    """Compute and store one cell, or store why not."""
    store = session.store
    copied = None if session.force else store.load_twin(cell)
    if copied is not None:
        store.save(cell, copied)
        return Outcome("copied", f"taken over from {copied['copied_from']}")
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)  # ConvergenceWarning is one
            record = experiment.measure(cell, session)
    except Exception as error:  # one cell must not take a night's run with it
        reason = one_line(error)
        store.fail(cell, reason, time.perf_counter() - start)
        session.release()
        return Outcome("failed", reason)
    seconds = time.perf_counter() - start
    said = list(dict.fromkeys(without_folders(str(w.message)) for w in caught))
    store.save(cell, {**record, "warnings": said, "cell_seconds": round(seconds, 3)})
    return Outcome("computed", f"{tables.headline(record)} ({duration(seconds)})")


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
