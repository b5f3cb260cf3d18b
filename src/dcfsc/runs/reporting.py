"""Draw the page of a saved run, with its clusters as edited. Needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

from dcfsc.report import Details, read_details, write_report

from .edits import edited_details, read_edits
from .folder import Run, read_run
from .life import DETAILS, REPORT, write_errors


def draw(run: Run, target: Path, details: Details | None = None) -> None:
    """Write the page of a run to ``target``, from its saved files or from other ``details``."""
    edits = read_edits(run)
    found = read_details(run.folder / DETAILS) if details is None else details
    with write_errors(target):
        write_report(target, run.record, edited_details(found, edits), edits.clusters, edits.names)


def redraw(folder: Path) -> None:
    """Draw the run's own page again, where it has one."""
    run = read_run(folder)
    if (run.folder / DETAILS).is_file() and (run.folder / REPORT).is_file():
        draw(run, run.folder / REPORT)
