"""The command export."""

from __future__ import annotations

from pathlib import Path

from dcfsc.cli import options, output
from dcfsc.cli.options import option, switch


def export(
    run: Path = options.RUN,
    to: str = option("What to write: folders, csv or parquet.", "KIND", default=...),
    out: Path | None = option(
        "Output file, or output folder for folders.",
        "PATH",
        shown="RUN/export.csv, RUN/export.parquet, RUN-clusters",
    ),
    data: Path | None = option(
        "The folder of the samples' files, for a run that was made elsewhere or by version 1.0.",
        "FOLDER",
    ),
    copy: bool = options.COPY,
    absolute_paths: bool = options.ABSOLUTE_PATHS,
    overwrite: bool = switch(
        "--overwrite",
        "Replace a table, or the export of another run, except what you changed, added or took "
        "out; a file of yours is kept as NAME.bak.",
    ),
    quiet: bool = options.QUIET,
) -> None:
    """Export the clusters of RUN to folders, .csv or Parquet.

    Clusters are exported as edited by 'dcfsc edit'. A second export to folders moves what changed
    since, new files of 'dcfsc predict --to folders' too, and leaves what you changed. The Parquet
    table has path, thumbnail, x, y, cluster, name, confidence and neighbors, ready for Embedding
    Atlas and FiftyOne.
    """
    from dcfsc.runs.export import export_run

    options = {"copy": copy, "absolute_paths": absolute_paths, "overwrite": overwrite}
    target = export_run(run, to, out, data=data, **options)
    if not quiet:
        output.print_facts([("run", str(run)), (to, str(target))])
