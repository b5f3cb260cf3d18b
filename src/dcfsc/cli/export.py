"""The command export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcfsc.cli import output
from dcfsc.cli.options import AbsoluteOption, QuietOption, RunArgument


def export(
    run: RunArgument,
    to: Annotated[
        str, typer.Option(metavar="KIND", help="What to write: folders, csv or parquet.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Output file, or output folder for folders.",
            show_default="RUN/export.csv, RUN/export.parquet, RUN-clusters",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder of the samples' files, for a run that was made elsewhere or by "
            "version 1.0.",
        ),
    ] = None,
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Copy the files instead of linking to them. A folder of links is not meant to be "
            "passed on; a folder of copies is.",
        ),
    ] = False,
    absolute_paths: AbsoluteOption = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Renew an earlier export, except what you changed, added or took out; a file of "
            "yours is kept as NAME.bak.",
        ),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Export the clusters of RUN to folders, .csv or Parquet.

    Clusters are exported as edited by 'dcfsc edit'. The Parquet table has path, thumbnail, x, y,
    cluster, name, confidence and neighbors, ready for Embedding Atlas and FiftyOne.
    """
    from dcfsc.runs.export import export_run

    options = {"copy": copy, "absolute_paths": absolute_paths, "overwrite": overwrite}
    target = export_run(run, to, out, data=data, **options)
    if not quiet:
        output.print_facts([("run", str(run)), (to, str(target))])
