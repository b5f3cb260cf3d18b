"""The command report."""

from __future__ import annotations

from pathlib import Path

from dcfsc.cli import options, output
from dcfsc.cli.options import option
from dcfsc.errors import InputError


def report(
    run: Path = options.RUN,
    data: str | None = option(
        "Images to show instead: the same samples in the same order.", "DATA"
    ),
    out: Path | None = option("Output page.", "FILE", shown="RUN/report.html"),
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
    from dcfsc.runs.reporting import draw, page_of

    if data is None and not (size is None and color is None and not strict):
        raise InputError("--size, --color, --gray and --strict are for --data; add it.")
    saved = read_run(run)
    page = page_of(saved, out, overwrite=overwrite, inputs=options.sources(data))
    details = saved.details()
    if data is not None:
        samples = options.load_samples(data, None, size, color, strict, saved.record["seed"])
        details = with_images(details, samples.X, samples.name)
    draw(saved, page, details, absolute_paths)
    if not quiet:
        output.print_facts([("run", str(run)), output.report_fact(page.target)])
