"""The command export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcfsc.cli import output
from dcfsc.cli.options import QuietOption, RunArgument


def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(metavar="KIND", help="folders, csv or parquet.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The file, or for folders the folder.",
            show_default="RUN/export.csv, RUN/export.parquet, RUN-clusters",
        ),
    ] = None,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the files; else link to them.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder if it is there.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Write the clusters of RUN for other programs: folders of files, .csv or Parquet.

    Names, merged and split clusters are those of 'dcfsc name'. The Parquet table has path,
    thumbnail, x, y, cluster, name, confidence and neighbors, as Embedding Atlas and FiftyOne take
    them.
    """
    from dcfsc.runs.export import export_run

    target = export_run(run, to, out, copy=copy, overwrite=overwrite)
    if not quiet:
        output.print_facts([("run", str(run)), (to, str(target))])
