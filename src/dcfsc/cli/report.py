"""The command report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from dcfsc.cli import options, output
from dcfsc.cli.options import option
from dcfsc.errors import InputError


def report(
    run: Path = options.RUN,
    data: str | None = option(
        "Images to show instead: the same samples in the same order.", "DATA"
    ),
    out: Path | None = option("Output page.", "FILE", shown="RUN/report.html"),
    map_file: Path | None = typer.Option(
        None, "--map", metavar="FILE", help="Also draw the map, as .svg, .pdf or .png."
    ),
    overwrite: bool = options.OVERWRITE,
    size: str | None = options.SIZE,
    color: bool | None = options.COLOR,
    strict: bool = options.STRICT,
    absolute_paths: bool = options.ABSOLUTE_PATHS,
    quiet: bool = options.QUIET,
) -> None:
    """Make the report of a run again from its saved files."""
    from dcfsc.report import with_images
    from dcfsc.runs.folder import read_run
    from dcfsc.runs.reporting import draw, draw_map, page_of

    if data is None and not (size is None and color is None and not strict):
        raise InputError("--size, --color, --gray and --strict are for --data; add it.")
    saved = read_run(run)
    rule: dict[str, Any] = {"overwrite": overwrite, "inputs": options.sources(data)}
    page = page_of(saved, out, **rule)
    details = saved.details()
    if data is not None:
        samples = options.load_samples(data, None, size, color, strict, saved.record["seed"])
        details = with_images(details, samples.X, samples.name)
    if map_file is not None:
        draw_map(saved, map_file, **rule)
    draw(saved, page, details, absolute_paths)
    if not quiet:
        drawn = [] if map_file is None else [("map", str(map_file))]
        output.print_facts([("run", str(run)), *drawn, output.report_fact(page.target)])
