"""The command edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from dcfsc.cli import options, output
from dcfsc.cli.options import option, switch
from dcfsc.errors import InputError


def edit(
    run: Path = options.RUN,
    names: list[str] | None = typer.Argument(
        None, metavar="CLUSTER=NAME", help="Names, as in 3=cats.", show_default=False
    ),
    merge: list[str] | None = option("Merge these clusters. May be repeated.", "A,B"),
    split: list[str] | None = option("Split this cluster in two. May be repeated.", "A"),
    undo: bool = switch("--undo", "Undo the last 'dcfsc edit'.", panel=None),
    quiet: bool = options.QUIET,
    as_json: bool = options.JSON,
) -> None:
    """Name, merge and split the clusters of RUN. Without edits, list them.

    'predict' and 'export' then use the edited clusters; report.html, clusters.csv and
    differences.csv follow, and labels.csv does not change. The edits are in RUN/edits.json and can
    be undone one by one.
    """
    import numpy as np

    from dcfsc.runs.editing import edit_run
    from dcfsc.runs.edits import edited_labels, read_edits
    from dcfsc.runs.folder import read_run
    from dcfsc.runs.reporting import redraw

    given = _pairs(names or [])
    merges = [_several(text) for text in merge or []]
    changes = bool(given or merges or split)
    if undo and changes:
        raise InputError(
            "--undo cannot be combined with edits; give the new edits in a second command."
        )
    saved = read_run(run)
    edits = before = read_edits(saved)
    if undo or changes:
        edits = edit_run(run, given, merges, split or [], undo=undo)
        redraw(run)  # even if nothing changed: an earlier command may have been interrupted before
        if edits == before and not (quiet or as_json):
            output.say("nothing to change: the clusters already have these names")
    sizes = np.bincount(edited_labels(saved, edits), minlength=1 + max(edits.clusters))
    clusters: list[dict[str, Any]] = [
        {"cluster": k, "name": edits.names.get(k), "size": int(sizes[k])} for k in edits.clusters
    ]
    if as_json:
        print(json.dumps({"run": str(run), "clusters": clusters}))
    elif not quiet:
        table = [(str(c["cluster"]), c["name"] or "", f"{c['size']:,}") for c in clusters]
        output.print_table(("cluster", "name", "samples"), table)


def _pairs(words: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        cluster, equals, text = word.partition("=")
        if not equals or not cluster.strip():
            raise InputError(f"{word[:40]!r} is not a name; write CLUSTER=NAME, as in 3=cats.")
        if cluster.strip() in pairs:
            raise InputError(f"cluster {cluster.strip()} is named twice.")
        pairs[cluster.strip()] = text
    return pairs


def _several(text: str) -> list[str]:
    clusters = [part.strip() for part in text.split(",")]
    if len(clusters) < 2 or not all(clusters):
        raise InputError(f"--merge takes two or more clusters, as in 1,4; got {text[:40]!r}.")
    return clusters
