"""The command report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dcfsc.cli import output
from dcfsc.cli.options import (
    AbsoluteOption,
    ColorOption,
    OverwriteOption,
    QuietOption,
    RunArgument,
    SizeOption,
    SkipOption,
    load_samples,
    option,
    sources,
)
from dcfsc.errors import InputError


def report(
    run: RunArgument,
    data: Annotated[
        str | None,
        option("Images to show instead: the same samples in the same order.", "DATA"),
    ] = None,
    out: Annotated[
        Path | None,
        option("Output page.", "FILE", shown="RUN/report.html"),
    ] = None,
    overwrite: OverwriteOption = False,
    size: SizeOption = None,
    color: ColorOption = None,
    skip_broken: SkipOption = False,
    absolute_paths: AbsoluteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the report of a run again from its saved files."""
    from dcfsc.report import with_images
    from dcfsc.runs.folder import read_run
    from dcfsc.runs.reporting import draw, page_of

    if data is None and not (size is None and color is None and not skip_broken):
        raise InputError("--size, --color, --gray and --skip-broken are for --data; add it.")
    saved = read_run(run)
    page = page_of(saved, out, overwrite=overwrite, inputs=sources(data))
    details = saved.details()
    if data is not None:
        samples = load_samples(data, None, size, color, skip_broken, saved.record["seed"])
        details = with_images(details, samples.X, samples.name)
    draw(saved, page, details, absolute_paths)
    if not quiet:
        output.print_facts([("run", str(run)), output.report_fact(page.target)])
