"""Label shards, a file for a file; by one process or several, and again after an interruption.

Every shard gets a file of predictions, which is moved into place when it is whole and says of which
run and of which input it is. A process claims a shard by a lock, which ends with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.files import is_part, new_stage, part_name, releasing, try_lock, write_errors
from dcfsc.io.shards import batches, open_shard
from dcfsc.io.streamed import require_room
from dcfsc.io.tables import arrow_errors
from dcfsc.journal import (
    MOVING_SECONDS,
    PREDICTED,
    RECORD,
    Filled,
    digest,
    filling,
    held,
    kind_of,
    settle,
)
from dcfsc.machine import available_cpus
from dcfsc.ownership import check_place
from dcfsc.progress import progress, stage

from .life import EDITS, MODEL, reserved
from .predictor import BLOCK_ROWS, ROW, Predictor

MARK = "dcfsc"  # in a file's metadata
CORE_BYTES = 64 << 20  # of products and neighbors
REMEDY = "write the shards with smaller row groups, or free some memory"


@dataclass(frozen=True)
class Outcome:
    """What a call has done.

    ``labeled`` shards are new, ``earlier`` ones were there, and ``others`` are at work in other
    processes. ``sizes`` are those of the clusters in the first two.
    """

    labeled: int
    earlier: int
    others: int
    sizes: np.ndarray


def predict_shards(
    run: str | os.PathLike[str],
    files: Sequence[Path],
    out: Path,
    *,
    device: str = "auto",
    overwrite: bool = False,
    started: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Label shards with a run's model: of ``x.parquet`` or ``x.npy`` in ``out/x.parquet``.

    Shards that were labeled before are left alone, unless run or input are others; then this is an
    error, or with ``overwrite`` they are labeled again. ``started`` is given the number of samples
    and the bytes of memory that the work needs.
    """
    predictor = Predictor(run, device=device)
    folder = predictor.run.folder
    targets = {out / f"{file.stem}.parquet": file for file in files}
    if len(targets) < len(files):
        raise InputError("two of the shards have the same name; label them one folder at a time.")
    check_place(out, inputs=[*files, *{file.parent for file in files}, folder])
    _check_folder(out)
    shards = [open_shard(file) for file in files]
    need = max(shard.group_bytes for shard in shards) * 3 + CORE_BYTES * available_cpus()
    need += 3 * (folder / MODEL).stat().st_size
    require_room(f"labeling {len(files)} shards", need, REMEDY)
    known = {"run": digest(folder / RECORD), "edits": digest(folder / EDITS)}
    sizes = np.zeros(int(predictor.edits.place.max()) + 1, np.int64)
    for target, file in targets.items():
        _sizes_of(target, file, known, overwrite)  # an error comes before the work
    if started is not None:
        started(sum(shard.n for shard in shards), need)
    count = {"labeled": 0, "earlier": 0, "others": 0}
    with reserved(out):
        for number, (target, file) in enumerate(targets.items()):
            progress(number, len(targets))
            with _claimed(target) as ours:
                found = _sizes_of(target, file, known, overwrite) if ours else None
                what = "others" if not ours else "labeled" if found is None else "earlier"
                if what == "labeled":
                    stage("labeling %s", file)
                    found = _label(predictor, file, target, known, len(sizes))
            count[what] += 1
            sizes += 0 if found is None else np.asarray(found)
    return Outcome(**count, sizes=sizes)


def _check_folder(out: Path) -> None:
    """Refuse a folder of somebody's; settle one of ours."""
    if os.path.lexists(out) and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder with --out.")
    with write_errors(out):
        settle(out)
    names = [name for name in os.listdir(out) if not is_part(name)] if out.is_dir() else []
    if names and kind_of(out) != PREDICTED:
        raise InputError(
            f"{out} has files in it that are not predictions of shards; choose a new or empty "
            "folder with --out."
        )


def _sizes_of(
    target: Path, file: Path, known: dict[str, str | None], overwrite: bool
) -> list[int] | None:
    """The sizes of the clusters in a file of predictions; None where it is to be written."""
    import pyarrow.parquet as pq

    if not os.path.lexists(target):
        return None
    listed = Filled.read(target.parent)
    if listed is not None and listed.owns(target.parent, target.name):
        with arrow_errors(target):
            mark = json.loads((pq.read_metadata(target).metadata or {})[MARK.encode()])
        if {key: mark.get(key) for key in (*known, "input")} == {**known, "input": digest(file)}:
            return mark["sizes"]
        what = "has the predictions of another run, of other edits, or of another input"
    else:
        what = "was changed or is not dcfsc's"
    if not overwrite:
        raise InputError(
            f"{target} {what}; add --overwrite to write it again, or choose another folder with "
            "--out."
        )
    return None


@contextmanager
def _claimed(target: Path) -> Iterator[bool]:
    """Whether this process may write the file, and no other meanwhile."""
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]
    claim = target.with_name(part_name(name))
    with write_errors(target.parent):
        lock = try_lock(claim)
    if lock is None:
        yield False
        return
    with releasing(lock, claim):
        yield True


def _label(
    predictor: Predictor, file: Path, target: Path, known: dict[str, str | None], n_clusters: int
) -> list[int]:
    """Write the predictions of a shard; the sizes of its clusters."""
    import pyarrow.parquet as pq

    folder, sizes = target.parent, np.zeros(n_clusters, np.int64)
    mark: dict[str, Any] = {**known, "input": digest(file)}
    with write_errors(folder), new_stage(folder) as place:
        # a file object, so that a full disk is an error of ours
        with open(place / target.name, "wb") as sink:
            writer = None
            for table in _labeled(predictor, file):
                if writer is None:
                    writer = pq.ParquetWriter(sink, table.schema)
                writer.write_table(table)
                sizes += np.bincount(table.column("cluster"), minlength=n_clusters)
            if writer is None:
                raise InputError(f"{file} has no rows.")
            mark |= {"sizes": sizes.tolist()}
            writer.add_key_value_metadata({MARK: json.dumps(mark)})
            writer.close()
        with held(folder, MOVING_SECONDS), filling(folder, PREDICTED, removes=()) as new:
            os.replace(place / target.name, new / target.name)
    return mark["sizes"]


def _labeled(predictor: Predictor, file: Path) -> Iterator[Any]:
    """The predictions of a shard, some rows at a time, as tables of Arrow."""
    import pyarrow as pa

    shard, first = open_shard(file), 0
    reading = None if shard.schema is None else predictor.reading_for(shard.schema)
    for part in batches(shard, BLOCK_ROWS, reading):
        rows = np.arange(first, first + len(part))
        if reading is None:
            found = predictor.label(part, str(file))
        else:
            kept, found = predictor.labeled(part.append_column(ROW, pa.array(rows)), str(file))
            rows = kept.column(ROW)
        first += len(part)
        columns = found.columns
        yield pa.table(columns if "id" in columns else {"index": rows, **columns})
