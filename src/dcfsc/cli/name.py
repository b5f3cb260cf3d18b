"""The command name."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dcfsc.cli import output
from dcfsc.cli.options import JsonOption, QuietOption, RunArgument
from dcfsc.errors import InputError


def name(
    run: RunArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CLUSTER=NAME...", help="Names, as in 3=cats.", show_default=False),
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Make one of these clusters; may be repeated."),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="A", help="Cut this cluster in two; may be repeated."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last 'dcfsc name'.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Name, merge and split the clusters of RUN by hand; alone, list them.

    'predict', 'report' and 'export' then use the clusters as edited. The edits are kept in
    RUN/edits.json and can be undone one by one; labels.csv keeps the clusters of the fit.
    """
    from dcfsc.runs.edits import edit_run, read_edits
    from dcfsc.runs.folder import read_run
    from dcfsc.runs.reporting import redraw

    given = _pairs(names or [])
    merges = [_several(text) for text in merge or []]
    edits: Any
    if undo and (given or merges or split):
        raise InputError("--undo stands alone; give the new edits in a second command.")
    if undo or given or merges or split:
        before = read_edits(read_run(run))
        edits = edit_run(run, given, merges, split or [], undo=undo)
        redraw(run)  # even where nothing changes: an earlier command may not have come to it
        if edits == before and not (quiet or as_json):
            print("nothing to change: the clusters are so already")
    clusters = _listed(run)
    if as_json:
        print(json.dumps({"run": str(run), "clusters": clusters}))
    elif not quiet:
        table = [(str(c["cluster"]), c["name"] or "", f"{c['size']:,}") for c in clusters]
        output.print_table(("cluster", "name", "samples"), table)


def _listed(run: Any) -> list[dict[str, Any]]:
    """The clusters as they are now: number, name or None, samples."""
    from dcfsc.runs.edits import edited_labels, read_edits
    from dcfsc.runs.folder import read_run

    saved = read_run(run)
    edits = read_edits(saved)
    labels = edited_labels(saved, edits)
    return [
        {"cluster": k, "name": edits.names.get(k), "size": int((labels == k).sum())}
        for k in edits.clusters
    ]


def _pairs(words: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        cluster, equals, text = word.partition("=")
        if not equals or not cluster.strip():
            raise InputError(f"{word[:40]!r} is no name; write CLUSTER=NAME, as in 3=cats.")
        if cluster.strip() in pairs:
            raise InputError(f"cluster {cluster.strip()} is named twice.")
        pairs[cluster.strip()] = text
    return pairs


def _several(text: str) -> list[str]:
    clusters = [part.strip() for part in text.split(",")]
    if len(clusters) < 2 or not all(clusters):
        raise InputError(f"--merge takes two clusters or more, as in 1,4; got {text[:40]!r}.")
    return clusters
