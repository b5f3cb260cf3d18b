"""Folders for clusters: a run's files sorted by cluster, and new files beside them.

Such an export keeps the digest of its run's record and the new files that ``predict`` has put in
it, so that a later export of the run moves them with their clusters. What somebody changed, added
or took out stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.files import read_json, write_errors
from dcfsc.io import Dataset
from dcfsc.io.images import open_regular
from dcfsc.journal import EXPORT, RECORD, Filled, digest, filling, held, settle
from dcfsc.ownership import check_export, check_place

from .edits import Edits, read_edits
from .folder import Run
from .life import READ, reserved
from .trust import place_in

NOTES = ".dcfsc-export.json"
LONGEST = 200  # of a name, in bytes, so that there is room for a number
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows


def folders_of(run: Path) -> Path:
    """Where the clusters of a run are sorted into folders unless a place is named."""
    return run.absolute().with_name(f"{run.absolute().name}-clusters")


@dataclass(frozen=True)
class Export:
    """An export as it is: its list, the digest of its run's record, and the new files in it.

    ``new`` is the part of each by its place, and its own name: the part is the half of a cluster of
    the fit, counted as in :class:`dcfsc.report.Details`.
    """

    folder: Path
    known: Filled = field(default_factory=lambda: Filled(EXPORT, {}))
    record: str | None = None
    new: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Export:
        known = Filled.read(folder) or Filled(EXPORT, {})
        if NOTES not in known.files:
            return cls(folder, known)
        try:
            if not known.owns(folder, NOTES):
                raise ValueError("somebody else's")
            notes = read_json(folder / NOTES)
            kept = [(place, *notes["new"][place]) for place in notes["new"] if place in known.files]
            new = {place: (int(part), os.path.basename(name)) for place, part, name in kept}
            return cls(folder, known, str(notes["record"]), new)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise InputError(
                f"{folder / NOTES} was changed or removed, so that it is not known which files are "
                "new; choose another folder with --out."
            ) from None

    def moved(
        self, edits: Edits, titles: Mapping[int, str], taken: set[str]
    ) -> tuple[dict[str, tuple[int, str]], dict[str, str]]:
        """The new files in the folders of their present clusters, and the changes of place.

        They make way for files that have ``taken`` their places.
        """
        new, moves = {}, {}
        for place, (part, name) in self.new.items():
            title = titles[int(edits.place.ravel()[part])]
            moves_on = place.split("/")[0] != title or _one_on_disk(place) in taken
            if moves_on and self.known.owns(self.folder, place):
                moves[place] = _free(f"{title}/{name}", taken, self.folder)
            new[moves.get(place, place)] = part, name
        return new, moves


def open_export(
    target: Path, run: Run, *, overwrite: bool = False, inputs: Iterable[Path] = ()
) -> Export:
    """The export in a folder, or an error where one of this run may not be written.

    An earlier export of this run is renewed unasked.
    """
    target = Path(os.path.realpath(target))
    check_place(target, inputs=inputs, own=run.folder)
    with write_errors(target):
        settle(target)
    export = Export.read(target)
    same = export.record == digest(run.folder / RECORD)
    check_export(target, overwrite or same)
    if export.new and not (
        same and max(part for part, _ in export.new.values()) < 2 * run.record["n_clusters"]
    ):
        raise InputError(
            f"{target} holds new files that another run sorted; choose another folder with --out."
        )
    return export


def write_folders(
    target: Path,
    run: Run,
    edits: Edits,
    files: Mapping[int, str],
    clusters: np.ndarray,
    *,
    copy: bool,
    overwrite: bool,
    inputs: Sequence[Path] = (),
) -> None:
    """A folder for each cluster, with links to the samples' files, or copies; all or nothing."""
    read = [*inputs, *{Path(file).parent for file in files.values()}]
    missing = [file for file in files.values() if not os.path.exists(file)]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(clusters)} files cannot be found, such as {missing[0]}; put "
            "them back, say with --data where they are, or fit again."
        )
    titles = folder_names(edits)
    with _writing(target, run, copy, overwrite=overwrite, inputs=read) as export:
        places = _places(files, clusters, titles)
        new, moves = export.moved(edits, titles, {*map(_one_on_disk, places.values())})
        removes = export.known.files.keys() - export.new.keys() | moves.keys()
        with filling(export.folder, EXPORT, removes=removes) as stage:
            for cluster in edits.clusters:
                (stage / titles[cluster]).mkdir()
            for i, place in places.items():
                _put(files[i], stage / place, copy)
            _finish(stage, export, moves, run, new)


def sort_new(target: Path, run: Run, data: Dataset, labels: np.ndarray, *, copy: bool) -> Path:
    """Put the files of new samples into the folders of their clusters, beside what is there.

    A file that is there already is moved if its cluster is another one now.
    """
    if data.relative_paths is None:
        raise InputError(f"{data.name} has no files of its own to sort; leave out --to folders.")
    top = os.path.abspath(data.folder or "")
    files = [place_in(path, top, top, os.path.abspath) for path in data.relative_paths]
    inputs = [Path(top), *(run.folder / name for name in READ)]
    edits = read_edits(run)
    titles, halves = folder_names(edits), edits.place.ravel().tolist()
    with _writing(target, run, copy, overwrite=True, inputs=inputs) as export:
        folder = export.folder
        if export.known.files and export.record is None:
            raise InputError(
                f"{folder} was made by an earlier dcfsc; export to it again, with --overwrite."
            )
        there: dict[str, list[str]] = {}
        for place, digests in export.known.files.items():
            for known in digests:
                there.setdefault(known, []).append(place)
        parts, added = dict(export.new), []
        for file, label in zip(map(str, files), labels.tolist(), strict=True):
            part = halves.index(label), os.path.basename(file)
            earlier = [p for p in there.get(_digest(file, copy), ()) if p.endswith(part[1])]
            if not earlier:
                added.append((file, titles[label], part))
            elif earlier[0] in parts:
                parts[earlier[0]] = part
        old = export.known.files.keys() - parts.keys()
        new, moves = replace(export, new=parts).moved(edits, titles, {*map(_one_on_disk, old)})
        taken = {*map(_one_on_disk, (*export.known.files, *new))}
        with filling(folder, EXPORT, removes=moves.keys()) as stage:
            for file, title, part in added:
                place = _free(f"{title}/{part[1]}", taken, folder)
                (stage / place).parent.mkdir(exist_ok=True)
                _put(file, stage / place, copy)
                new[place] = part
            _finish(stage, export, moves, run, new)
    return folder


@contextmanager
def _writing(target: Path, run: Run, copy: bool, **options: Any) -> Iterator[Export]:
    """The export in a folder, which is held while it is filled."""
    folder = open_export(target, run, **options).folder
    try:
        with reserved(folder), held(folder), write_errors(folder):
            yield open_export(target, run, **options)
    except InputError as error:
        if not copy and isinstance(error.__cause__, NotImplementedError | PermissionError):
            raise InputError(f"{error} If links cannot be made, add --copy.") from error
        raise


def _finish(
    stage: Path,
    export: Export,
    moves: Mapping[str, str],
    run: Run,
    new: Mapping[str, tuple[int, str]],
) -> None:
    """Add the new files that move, and the notes, to what will be moved into the export."""
    for old, place in moves.items():
        (stage / place).parent.mkdir(exist_ok=True)
        shutil.copy2(export.folder / old, stage / place, follow_symlinks=False)
    notes = {"record": digest(run.folder / RECORD), "new": new}
    (stage / NOTES).write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")


def _put(file: str, place: Path, copy: bool) -> None:
    if not copy:
        os.symlink(file, place)
        return
    with open_regular(file) as source, open(place, "xb") as target:
        shutil.copyfileobj(source, target)


def _digest(file: str, copy: bool) -> str:
    """What the list says of a copy of a file, or of a link to it."""
    if copy:
        return str(digest(Path(os.path.realpath(file))))
    return f"link {hashlib.sha256(os.fsencode(file)).hexdigest()}"


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


def _free(place: str, taken: set[str], folder: Path) -> str:
    """The place in a folder, with a number where another file has it; it is taken then."""
    title, name = place.split("/", 1)
    number = 1
    while _one_on_disk(place) in taken or os.path.lexists(folder / place):
        number += 1
        place = f"{title}/{number}-{_short(name)}"
    taken.add(_one_on_disk(place))
    return place


def _short(name: str) -> str:
    raw = os.fsencode(name)
    if len(raw) <= LONGEST:
        return name
    return b"".join((raw[: LONGEST // 2], raw[-LONGEST // 8 :])).decode("utf-8", "ignore")
