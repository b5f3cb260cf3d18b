"""The command export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dcfsc.cli import output
from dcfsc.cli.options import AbsoluteOption, QuietOption, RunArgument, option, switch


def export(
    run: RunArgument,
    to: Annotated[str, option("What to write: folders, csv or parquet.", "KIND")],
    out: Annotated[
        Path | None,
        option(
            "Output file, or output folder for folders.",
            "PATH",
            shown="RUN/export.csv, RUN/export.parquet, RUN-clusters",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        option(
            "The folder of the samples' files, for a run that was made elsewhere or by "
            "version 1.0.",
            "FOLDER",
        ),
    ] = None,
    copy: Annotated[
        bool,
        switch(
            "--copy",
            "Copy the files instead of linking to them. A folder of links is not meant to be "
            "passed on; a folder of copies is.",
        ),
    ] = False,
    absolute_paths: AbsoluteOption = False,
    overwrite: Annotated[
        bool,
        switch(
            "--overwrite",
            "Renew an earlier export, except what you changed, added or took out; a file of "
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
