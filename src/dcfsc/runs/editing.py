"""Edit the clusters of a run: ``edits.json``, and the tables that follow from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dcfsc.journal import RUN, filling, held

from .cluster_tables import write_clusters, write_differences
from .edits import FORMAT, Edits, read_edits
from .export import read_samples
from .folder import read_run
from .life import CLUSTERS, DETAILS, DIFFERENCES, EDITS
from .outputs import adopt_held


def edit_run(
    folder: Path,
    names: Mapping[str, str],
    merges: Sequence[Sequence[str]] = (),
    splits: Sequence[str] = (),
    *,
    undo: bool = False,
) -> Edits:
    """Edit a run's clusters, or undo the last edit; the edits that there are then.

    The edits and the tables of the clusters are all written, or none of them.
    """
    read_run(folder)  # says in one line what is wrong with it
    with held(folder):
        adopt_held(folder)
        run = read_run(folder)
        before = read_edits(run)
        edits = before.undone() if undo else before.extended(names, merges, splits)
        if edits == before:
            return edits
        has_details = (folder / DETAILS).is_file()
        samples = read_samples(run, edits, need_details=has_details)
        with filling(folder, RUN, removes=()) as place:
            content = {"dcfsc_edits": FORMAT, "commands": edits.commands}
            text = json.dumps(content, indent=2) + "\n"
            (place / EDITS).write_text(text, encoding="utf-8")
            sure = samples.names, samples.confidence, samples.next_best
            write_clusters(place / CLUSTERS, samples.ids, samples.clusters, *sure)
            if samples.details is not None and len(samples.details.profile):
                write_differences(place / DIFFERENCES, samples.details)
    return edits
