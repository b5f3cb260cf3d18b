"""Draw the page of a saved run, with its clusters as edited. Needs no PyTorch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError
from dcfsc.ownership import Output
from dcfsc.report import Details, write_report
from dcfsc.report.plots import PICTURES, write_map

from .edits import edited_details, read_edits
from .folder import Run, read_columns, read_run
from .life import DETAILS, REPORT
from .outputs import output_of


def draw(
    run: Run, output: Output, details: Details | None = None, absolute_paths: bool = False
) -> None:
    edits = read_edits(run)
    present = edited_details(run.details() if details is None else details, edits)
    if absolute_paths and not len(present.files):
        raise InputError("--absolute-paths is for samples that come from files; leave it out.")
    columns = read_columns(run.folder)
    ids = columns.get("id", columns.get("path"))
    options = {"names": edits.names, "ids": ids, "absolute_paths": absolute_paths}
    base = output.target.absolute().parent
    with output.open() as part:
        write_report(part, run.record, present, clusters=edits.clusters, base=base, **options)


def draw_map(run: Run, target: Path, **options: Any) -> None:
    """Draw the map of all samples, with axes and a legend, as the kind that the ending says."""
    if (kind := target.suffix[1:].lower()) not in PICTURES:
        raise InputError(f"--map takes a .svg, .pdf or .png file; got {target.name!r}.")
    output, edits = output_of(run.folder, target, **options), read_edits(run)
    present = edited_details(run.details(), edits)
    titles = [edits.title(k) for k in range(max(edits.clusters) + 1)]
    with output.open() as part:
        write_map(part, kind, present.view, present.labels, titles)


def page_of(run: Run, target: Path | None = None, **options: Any) -> Output:
    return output_of(run.folder, target or run.folder / REPORT, asks=target is not None, **options)


def redraw(folder: Path) -> None:
    """Draw the run's own page again, where it has one."""
    run = read_run(folder)
    if (run.folder / DETAILS).is_file() and (run.folder / REPORT).is_file():
        try:
            page = page_of(run)
        except InputError as error:  # a page that somebody changed is theirs
            warnings.warn(f"the page was not drawn again: {error}", UserWarning, stacklevel=2)
        else:
            draw(run, page)
