"""A run's samples and clusters for other programs: folders of files, a .csv or a Parquet table."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, unknown_name, writable
from dcfsc.io.images import ImageSource, decoding
from dcfsc.ownership import named_like
from dcfsc.progress import stage
from dcfsc.report import Details

from .edits import Edits, edited_details, read_edits
from .folder import AGAIN, Run, read_columns, read_run
from .folders import folders_of, open_export, write_folders
from .life import CSV, DETAILS, LABELS, PARQUET, READ, reserved
from .outputs import output_of
from .tables import certainty_columns, no_formula, write_samples
from .trust import sample_files

KINDS = ("folders", "csv", "parquet")
THUMBNAIL_SIDE = 128
ROWS_AT_A_TIME = 1_000


@dataclass(frozen=True, eq=False)
class Samples:
    """What there is to say of every sample of a run, with its edits made.

    ``given`` are the paths in the run's table and ``paths`` those to be written, first the absolute
    ones; ``files`` may be read, where they are not None.
    """

    edits: Edits
    clusters: np.ndarray
    confidence: np.ndarray
    next_best: np.ndarray
    paths: list[str] | None
    given: list[str] | None
    true_labels: list[str] | None
    details: Details | None
    files: list[str | None] | None = None
    ids: list[str] | None = None  # what the run's table calls each sample

    @property
    def names(self) -> list[str]:
        titles = {k: self.edits.title(k) for k in self.edits.clusters}
        return [titles[k] for k in self.clusters.tolist()]


def export_run(
    folder: Path,
    to: str,
    out: Path | None = None,
    *,
    data: Path | None = None,
    copy: bool = False,
    absolute_paths: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write a run as ``to``, one of ``KINDS``; where it was written.

    ``out`` is by default ``export.csv`` or ``export.parquet`` in the run's folder, and beside it
    ``RUN-clusters`` for folders. Folders hold links to the files, or copies of them. The files are
    in the folder ``data``, which a run that was made here knows. Paths in tables start there,
    unless they are to be absolute.
    """
    if to not in KINDS:
        raise unknown_name("kind of export", to, KINDS)
    if copy and to != "folders":
        raise InputError(f"--copy is for folders, and has no effect on {to}; leave it out.")
    if absolute_paths and to == "folders":
        raise InputError(
            "--absolute-paths is for tables, and has no effect on folders; leave it out."
        )
    run = read_run(folder)
    places = {"folders": folders_of(folder), "csv": folder / CSV, "parquet": folder / PARQUET}
    target = out or places[to]
    if to == "folders":
        open_export(target, run, overwrite=overwrite)  # before files are looked at
    samples = read_samples(run, need_details=to == "parquet")
    if samples.given is None and (data is not None or absolute_paths):
        option = "--data" if data is not None else "--absolute-paths"
        raise InputError(f"{option} is for samples that come from files; leave it out.")
    samples = _with_files(samples, run, to, data)
    named = named_like(target, samples.paths)
    if samples.given is not None and not absolute_paths:
        samples = replace(samples, paths=_relative(samples.given))
    stage("writing %s", target)
    if to == "folders":
        read = [Path(data or run.directory), *(run.folder / name for name in READ)]
        files = {i: file for i, file in enumerate(samples.files or ()) if file is not None}
        how: Any = {"copy": copy, "overwrite": overwrite, "inputs": read}
        write_folders(target, run, samples.edits, files, samples.clusters, **how)
        return target
    output = output_of(folder, target, overwrite=overwrite, inputs=named)
    with reserved(target.parent), output.open() as part:
        (write_csv if to == "csv" else write_parquet)(part, samples)
    return target


def _with_files(samples: Samples, run: Run, to: str, data: Path | None) -> Samples:
    given = samples.given
    if given is None and to == "folders":
        raise InputError(
            "the samples of this run did not come from files of their own; export to csv or "
            "parquet."
        )
    if given is not None and data is not None:
        top = writable(os.path.abspath(data))
        samples = replace(samples, paths=[os.path.join(top, path) for path in given])
    if given is not None and to != "csv":
        samples = replace(samples, files=sample_files(run, given, data))
    return samples


def _relative(given: list[str]) -> list[str]:
    """The paths as they are; absolute ones, of an earlier version, from where all of them begin."""
    absolute = [os.path.dirname(path) for path in given if os.path.isabs(path)]
    top = os.path.commonpath(absolute) if absolute else ""
    return [os.path.relpath(path, top) if os.path.isabs(path) else path for path in given]


def read_samples(run: Run, edits: Edits | None = None, *, need_details: bool = False) -> Samples:
    """The samples of a run as its files say them; ``edits`` in place of the saved ones."""
    edits = read_edits(run) if edits is None else edits
    columns = read_columns(run.folder)
    details = None
    if need_details or (edits.commands and (run.folder / DETAILS).is_file()) or edits.has_splits:
        details = edited_details(run.details(), edits)
    if details is not None:
        clusters, confidence, next_best = details.labels, details.confidence, details.next_best
    else:
        clusters = edits.place[run.labels, 0]
        confidence = np.array(columns["confidence"], np.float64)
        next_best = np.array(columns["next_best"], np.float64).astype(np.int64)
        if next_best.max(initial=-1) >= len(edits.place):
            raise InputError(f"{run.folder / LABELS} is damaged in 'next_best'; {AGAIN}.")
        next_best = np.where(next_best < 0, -1, edits.place[next_best, 0])
    given, paths = columns.get("path"), None
    if given is not None:
        paths = [writable(os.path.join(run.directory, path)) for path in given]
    truth = columns.get("true_label")
    ids = columns.get("id", given)
    return Samples(edits, clusters, confidence, next_best, paths, given, truth, details, ids=ids)


def write_csv(path: Path, samples: Samples) -> None:
    """One row a sample, with the names of the clusters."""
    columns = {
        "cluster": samples.clusters.tolist(),
        "name": map(no_formula, samples.names),
        **certainty_columns(samples.confidence, samples.next_best),
    }
    n, truth = len(samples.clusters), samples.true_labels
    ids = samples.ids if samples.paths is None else None
    write_samples(path, n, samples.paths, columns, truth, ids)


# Parquet --------------------------------------------------------------------------------------


def write_parquet(path: Path, samples: Samples) -> None:
    """A table with one row a sample; thumbnails are JPEG or PNG bytes.

    ``x`` and ``y`` are the place in the report's view, ``neighbors`` the samples of largest
    affinity as ``{"ids": [...], "distances": [...]}`` with 1 - affinity / largest affinity.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _columns(samples, pa)
    schema = pa.schema({name: kind for name, (kind, _) in columns.items()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(samples.clusters), ROWS_AT_A_TIME):
            rows = slice(start, min(start + ROWS_AT_A_TIME, len(samples.clusters)))
            arrays = [pa.array(values(rows), kind) for kind, values in columns.values()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _columns(samples: Samples, pa: Any) -> dict[str, tuple[Any, Callable[[slice], Any]]]:
    """The type of each column, and the function that gives its values for a slice of the rows."""
    details, clusters = samples.details, samples.clusters
    assert details is not None
    stored = _stored_thumbnails(details)
    files = samples.files or [None] * len(clusters)

    def thumbnails(rows: slice) -> list[bytes | None]:
        return [_thumbnail(files[i], stored.get(i)) for i in range(rows.start, rows.stop)]

    columns: dict[str, Any] = {"index": (pa.int64(), np.arange(len(clusters)).__getitem__)}
    if samples.ids is not None and samples.paths is None:
        columns["id"] = (pa.string(), samples.ids.__getitem__)
    if samples.paths is not None:
        columns["path"] = (pa.string(), samples.paths.__getitem__)
    if samples.paths is not None or stored:
        columns["thumbnail"] = (pa.binary(), thumbnails)
    columns |= {
        "x": (pa.float32(), details.view[:, 0].__getitem__),
        "y": (pa.float32(), details.view[:, 1].__getitem__),
        "cluster": (pa.int32(), clusters.__getitem__),
        "name": (pa.string(), samples.names.__getitem__),
        "confidence": (pa.float32(), samples.confidence.__getitem__),
        "next_best": (pa.int32(), samples.next_best.__getitem__),
    }
    if samples.true_labels is not None:
        columns["true_label"] = (pa.string(), samples.true_labels.__getitem__)
    near = {"ids": pa.list_(pa.int64()), "distances": pa.list_(pa.float32())}
    columns["neighbors"] = (pa.struct(near), partial(_neighbors, details))
    return columns


def _neighbors(details: Details, rows: slice) -> list[dict[str, list[float]]]:
    largest = max(float(details.neighbor_weights.max(initial=0.0)), 1e-30)
    pairs = zip(details.neighbors[rows], details.neighbor_weights[rows], strict=True)
    return [
        {"ids": ids[ids >= 0].tolist(), "distances": (1.0 - weights[ids >= 0] / largest).tolist()}
        for ids, weights in pairs
    ]


def _stored_thumbnails(details: Details) -> dict[int, bytes]:
    from PIL import Image

    pictures = {}
    if details.has_images:
        for sample, pixels in zip(details.shown.tolist(), details.thumbnails, strict=True):
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            pictures[sample] = file.getvalue()
    return pictures


def _thumbnail(path: str | None, stored: bytes | None) -> bytes | None:
    """A small picture of the file, else the one that is stored, else None.

    A file that is small already is kept as it is, pixel by pixel; what is not a pixel is left out.
    """
    from PIL import Image, ImageOps

    try:
        with decoding(ImageSource.file(Path(path or ""))) as image:
            image.draft("RGB", (2 * THUMBNAIL_SIDE, 2 * THUMBNAIL_SIDE))
            picture = ImageOps.exif_transpose(image).convert("RGB")
            lossless = max(picture.size) <= THUMBNAIL_SIDE
            picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
            file = io.BytesIO()
            bare = Image.fromarray(np.asarray(picture))
            bare.save(file, "PNG" if lossless else "JPEG")
            return file.getvalue()
    except InputError:
        return stored
