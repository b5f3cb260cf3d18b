"""A run's samples and clusters for other programs: folders of files, a .csv or a Parquet table."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, unknown_name
from dcfsc.files import is_part, write_errors
from dcfsc.journal import EXPORT, filling, held, kind_of
from dcfsc.ownership import check_place
from dcfsc.report import Details, read_details
from dcfsc.stages import stage

from .edits import Edits, edited_details, read_edits
from .folder import Run, read_columns, read_run
from .life import CSV, DETAILS, PARQUET, READ, reserved
from .outputs import output_of
from .tables import certainty_columns, formula_removed, no_formula, write_table

KINDS = ("folders", "csv", "parquet")
THUMBNAIL_SIDE = 128
ROWS_AT_A_TIME = 1_000


@dataclass(frozen=True, eq=False)
class Samples:
    """What there is to say of every sample of a run, with its edits made."""

    edits: Edits
    clusters: np.ndarray
    confidence: np.ndarray
    next_best: np.ndarray
    paths: list[str] | None
    true_labels: list[str] | None
    details: Details | None

    @property
    def names(self) -> list[str]:
        """The name of each sample's cluster; its number where it has none."""
        titles = {k: self.edits.title(k) for k in self.edits.clusters}
        return [titles[k] for k in self.clusters.tolist()]


def export_run(
    folder: Path, to: str, out: Path | None = None, *, copy: bool = False, overwrite: bool = False
) -> Path:
    """Write a run as ``to``, one of ``KINDS``; where it was written.

    ``out`` is by default ``export.csv`` or ``export.parquet`` in the run's folder, and beside it
    ``RUN-clusters`` for folders. Folders hold links to the files, or copies of them.
    """
    if to not in KINDS:
        raise unknown_name("kind of export", to, KINDS)
    if copy and to != "folders":
        raise InputError(f"--copy is for folders, and has no effect on {to}; leave it out.")
    run = read_run(folder)
    place = {"csv": CSV, "parquet": PARQUET}
    if to == "folders":
        target = out or folder.absolute().with_name(f"{folder.absolute().name}-clusters")
    else:
        target = out or folder / place[to]
        output = output_of(folder, target, overwrite=overwrite)
    samples = read_samples(run, need_details=to == "parquet")
    stage("writing %s", target)
    if to == "folders":
        read = [run.folder / name for name in READ]
        write_folders(target, samples, copy=copy, overwrite=overwrite, own=run.folder, inputs=read)
        return target
    with reserved(target.parent), output.open() as part:
        (write_csv if to == "csv" else write_parquet)(part, samples)
    return target


def read_samples(run: Run, *, need_details: bool = False) -> Samples:
    """The samples of a run as its files say them."""
    edits, columns = read_edits(run), read_columns(run.folder)
    details = None
    if need_details or (edits.commands and (run.folder / DETAILS).is_file()) or edits.has_splits:
        details = edited_details(read_details(run.folder / DETAILS), edits)
    if details is not None:
        if len(details.labels) != len(run.labels):
            raise InputError(f"{run.folder / DETAILS} belongs to another run; fit again.")
        clusters, confidence, next_best = details.labels, details.confidence, details.next_best
    else:
        clusters = edits.place[run.labels, 0]
        confidence = np.array(columns["confidence"], np.float64)
        next_best = np.array(columns["next_best"], np.int64)
        next_best = np.where(next_best < 0, -1, edits.place[next_best, 0])
    paths = columns.get("path")
    if paths is not None:
        base = run.record["data"].get("directory") or ""
        paths = [os.path.join(base, formula_removed(path)) for path in paths]
    return Samples(
        edits, clusters, confidence, next_best, paths, columns.get("true_label"), details
    )


def write_csv(path: Path, samples: Samples) -> None:
    """One row a sample, with the names of the clusters."""
    columns: dict[str, Any] = {"index": range(len(samples.clusters))}
    if samples.paths is not None:
        columns["path"] = map(no_formula, samples.paths)
    columns["cluster"] = samples.clusters.tolist()
    columns["name"] = map(no_formula, samples.names)
    columns |= certainty_columns(samples.confidence, samples.next_best)
    if samples.true_labels is not None:
        columns["true_label"] = samples.true_labels
    write_table(path, columns)


# Folders --------------------------------------------------------------------------------------


def write_folders(
    target: Path,
    samples: Samples,
    *,
    copy: bool,
    overwrite: bool,
    own: Path | None = None,
    inputs: Sequence[Path] = (),
) -> None:
    """A folder for each cluster, with links to its files, or copies; all of it or nothing.

    Of an earlier export what somebody changed, added or took out stays as it is.
    """
    if samples.paths is None:
        raise InputError(
            "the samples of this run did not come from files of their own; export to csv or "
            "parquet."
        )
    target = target.resolve()
    from_folders = {Path(path).absolute().parent for path in samples.paths}
    check_place(target, inputs=[*inputs, *from_folders], own=own)
    _check_export(target, overwrite)
    missing = [path for path in samples.paths if not os.path.isfile(path)]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(samples.paths)} files cannot be found, such as "
            f"{missing[0]}; put them back, or fit again."
        )
    titles = folder_names(samples.edits)
    try:
        with reserved(target), held(target), filling(target, EXPORT) as part, write_errors(target):
            _check_export(target, overwrite)  # another one may have ended there just now
            for cluster in samples.edits.clusters:
                (part / titles[cluster]).mkdir()
            for place, path in _places(samples, titles):
                if copy:
                    shutil.copyfile(path, part / place)
                else:
                    os.symlink(os.path.abspath(path), part / place)
    except InputError as error:
        if not copy and isinstance(error.__cause__, NotImplementedError | PermissionError):
            raise InputError(f"{error} If links cannot be made, add --copy.") from error
        raise


def _check_export(target: Path, overwrite: bool) -> None:
    """Refuse a folder that is somebody's, and an earlier export unless it may be replaced."""
    if os.path.lexists(target) and not target.is_dir():
        raise InputError(f"{target} is a file; choose a folder with --out.")
    names = [n for n in os.listdir(target) if not is_part(n)] if target.is_dir() else []
    if names and kind_of(target) != EXPORT:
        raise InputError(
            f"{target} has files in it that no export of dcfsc is known to have made; choose a new "
            "or empty folder with --out."
        )
    if names and not overwrite:
        raise InputError(
            f"{target} holds an earlier export; add --overwrite to renew it (what you changed, "
            "added or took out stays so), or choose another folder with --out."
        )


def folder_names(edits: Edits) -> dict[int, str]:
    """A folder's name for each cluster, such as ``cluster-03``, or the name it was given."""
    width = len(str(max(edits.clusters)))
    names = {k: f"cluster-{k:0{width}d}" for k in edits.clusters}
    for k, name in edits.names.items():
        safe = re.sub(r'[\\/:*?"<>|]+', "_", name).strip(" .")
        names[k] = safe or names[k]
    often = Counter(name.casefold() for name in names.values())
    return {k: n if often[n.casefold()] == 1 else f"{n}-{k}" for k, n in names.items()}


def _places(samples: Samples, titles: dict[int, str]) -> Iterator[tuple[str, str]]:
    """Where each file goes; files of one name in one cluster have their number in front."""
    assert samples.paths is not None
    names = [os.path.basename(path) for path in samples.paths]
    keys = list(zip(samples.clusters.tolist(), map(str.casefold, names), strict=True))
    often = Counter(keys)
    for i, (key, name, path) in enumerate(zip(keys, names, samples.paths, strict=True)):
        yield f"{titles[key[0]]}/{name if often[key] == 1 else f'{i}-{name}'}", path


# Parquet --------------------------------------------------------------------------------------


def write_parquet(path: Path, samples: Samples) -> None:
    """A table with one row a sample; thumbnails are JPEG or PNG bytes.

    ``x`` and ``y`` are the place in the report's view, ``neighbors`` the samples of largest
    affinity as ``{"ids": [...], "distances": [...]}`` with 1 - affinity / largest affinity.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            "a Parquet table needs the package pyarrow; install dcfsc[parquet]."
        ) from None
    stored = _stored_thumbnails(samples)
    kinds = {"index": pa.int64()}
    if samples.paths is not None:
        kinds["path"] = pa.string()
    if samples.paths is not None or stored:
        kinds["thumbnail"] = pa.binary()
    kinds |= {"x": pa.float32(), "y": pa.float32(), "cluster": pa.int32(), "name": pa.string()}
    kinds |= {"confidence": pa.float32(), "next_best": pa.int32()}
    if samples.true_labels is not None:
        kinds["true_label"] = pa.string()
    near = [("ids", pa.list_(pa.int64())), ("distances", pa.list_(pa.float32()))]
    kinds["neighbors"] = pa.struct(near)
    schema = pa.schema(kinds)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(samples.clusters), ROWS_AT_A_TIME):
            rows = range(start, min(start + ROWS_AT_A_TIME, len(samples.clusters)))
            content = _rows(samples, rows, stored)
            arrays = [pa.array(content[name], kind) for name, kind in kinds.items()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _rows(samples: Samples, rows: range, stored: dict[int, bytes]) -> dict[str, list[Any]]:
    details, part = samples.details, slice(rows.start, rows.stop)
    assert details is not None
    largest = max(float(details.neighbour_weights.max(initial=0.0)), 1e-30)
    near = []
    for ids, weights in zip(details.neighbours[part], details.neighbour_weights[part], strict=True):
        there = ids >= 0
        distances = (1.0 - weights[there] / largest).tolist()
        near.append({"ids": ids[there].tolist(), "distances": distances})
    paths: list[Any] = [None] * len(rows) if samples.paths is None else samples.paths[part]
    return {
        "index": list(rows),
        "path": paths,
        "thumbnail": [_thumbnail(p, stored.get(i)) for p, i in zip(paths, rows, strict=True)],
        "x": details.view[part, 0].tolist(),
        "y": details.view[part, 1].tolist(),
        "cluster": samples.clusters[part].tolist(),
        "name": [samples.edits.title(k) for k in samples.clusters[part].tolist()],
        "confidence": samples.confidence[part].tolist(),
        "next_best": samples.next_best[part].tolist(),
        "true_label": (samples.true_labels or [])[part],
        "neighbors": near,
    }


def _stored_thumbnails(samples: Samples) -> dict[int, bytes]:
    """PNG bytes of the pictures that the run's details hold, by sample."""
    from PIL import Image

    details, found = samples.details, {}
    assert details is not None
    if details.has_images:
        for sample, pixels in zip(details.shown.tolist(), details.thumbnails, strict=True):
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            found[sample] = file.getvalue()
    return found


def _thumbnail(path: str | None, stored: bytes | None) -> bytes | None:
    """A small picture of the file, else the one that is stored, else None.

    A file that is small already is kept as it is, pixel by pixel.
    """
    from PIL import Image, ImageOps

    if path is None:
        return stored
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * THUMBNAIL_SIDE, 2 * THUMBNAIL_SIDE))
            picture = ImageOps.exif_transpose(image).convert("RGB")
            lossless = max(picture.size) <= THUMBNAIL_SIDE
            picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
            file = io.BytesIO()
            picture.save(file, "PNG" if lossless else "JPEG")
            return file.getvalue()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return stored
