"""A run's samples and clusters for other programs: folders of files, a .csv or a Parquet table."""

from __future__ import annotations

import io
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, unknown_name, writable
from dcfsc.files import write_errors
from dcfsc.io.images import ImageSource, decoding, open_regular
from dcfsc.journal import EXPORT, filling, held, settle
from dcfsc.ownership import check_export, check_place, named_like
from dcfsc.progress import stage
from dcfsc.report import Details

from .edits import Edits, edited_details, read_edits
from .folder import AGAIN, Run, read_columns, read_run
from .life import CSV, DETAILS, LABELS, PARQUET, READ, reserved
from .outputs import output_of
from .tables import certainty_columns, no_formula, write_samples
from .trust import sample_files

KINDS = ("folders", "csv", "parquet")
THUMBNAIL_SIDE = 128
ROWS_AT_A_TIME = 1_000
LONGEST = 200  # of a name, in bytes, so that there is room for a number
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows


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
    if to == "folders":
        target = out or folder.absolute().with_name(f"{folder.absolute().name}-clusters")
    else:
        target = out or folder / {"csv": CSV, "parquet": PARQUET}[to]
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
        write_folders(target, samples, copy=copy, overwrite=overwrite, own=run.folder, inputs=read)
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
    write_samples(path, len(samples.clusters), samples.paths, columns, samples.true_labels)


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
    target = Path(os.path.realpath(target))
    files = {i: file for i, file in enumerate(samples.files or ()) if file is not None}
    check_place(target, inputs=[*inputs, *{Path(f).parent for f in files.values()}], own=own)
    with write_errors(target):
        settle(target)
    check_export(target, overwrite)
    missing = [file for file in files.values() if not os.path.exists(file)]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(samples.clusters)} files cannot be found, such as "
            f"{missing[0]}; put them back, say with --data where they are, or fit again."
        )
    titles = folder_names(samples.edits)
    try:
        with reserved(target), held(target), filling(target, EXPORT) as part, write_errors(target):
            check_export(target, overwrite)  # another one may have ended there just now
            for cluster in samples.edits.clusters:
                (part / titles[cluster]).mkdir()
            for i, place in _places(files, samples.clusters, titles).items():
                if copy:
                    with open_regular(files[i]) as source, open(part / place, "xb") as file:
                        shutil.copyfileobj(source, file)
                else:
                    os.symlink(files[i], part / place)
    except InputError as error:
        if not copy and isinstance(error.__cause__, NotImplementedError | PermissionError):
            raise InputError(f"{error} If links cannot be made, add --copy.") from error
        raise


def folder_names(edits: Edits) -> dict[int, str]:
    """A folder's name for each cluster, such as ``cluster-03``, or the name it was given."""
    width = len(str(max(edits.clusters)))
    names = {k: f"cluster-{k:0{width}d}" for k in edits.clusters}
    for k, name in edits.names.items():
        printed = "".join(c if c.isprintable() else "_" for c in name)
        safe = re.sub(r'[\\/:*?"<>|]+', "_", printed).strip(" .")
        names[k] = f"_{safe}" if RESERVED.fullmatch(safe) else _short(safe) or names[k]
    return _told_apart(names, lambda k, name: f"{name}-{k}")


def _places(
    files: Mapping[int, str], clusters: np.ndarray, titles: Mapping[int, str]
) -> dict[int, str]:
    """Where the file of each sample goes; those of one name in one cluster are numbered."""
    places = {i: f"{titles[clusters[i]]}/{os.path.basename(file)}" for i, file in files.items()}

    def numbered(i: int, place: str) -> str:
        folder, name = place.split("/", 1)
        return f"{folder}/{i}-{_short(name)}"

    return _told_apart(places, numbered)


def _told_apart(names: Mapping[int, str], numbered: Callable[[int, str], str]) -> dict[int, str]:
    """The names, numbered where a file system might take two of them for one."""
    apart, taken = {}, Counter(map(_one_on_disk, names.values()))
    for k, name in names.items():
        if taken[_one_on_disk(name)] > 1:
            while _one_on_disk(name) in taken:
                name = numbered(k, name)
            taken[_one_on_disk(name)] = 1
        apart[k] = name
    return apart


def _one_on_disk(name: str) -> str:
    """What all names have in common that are one where case and composition do not count."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def _short(name: str) -> str:
    raw = os.fsencode(name)
    if len(raw) <= LONGEST:
        return name
    return b"".join((raw[: LONGEST // 2], raw[-LONGEST // 8 :])).decode("utf-8", "ignore")


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
