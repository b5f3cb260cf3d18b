"""Folders of images: which files are images, in which order, and what their sub-folders say."""

from __future__ import annotations

import os
import warnings
from collections import Counter, deque
from dataclasses import replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, writable
from dcfsc.io import images, streamed
from dcfsc.io.dataset import Dataset
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, Reading, check_size, natural_order
from dcfsc.io.working_size import FULL, working_size
from dcfsc.journal import kind_of

# what cameras and their programs write
PHOTOGRAPHS = (".jpg", ".jpeg", ".webp", *images.AVIF_SUFFIXES, *images.HEIC_SUFFIXES)
LOOKED_AT = 32  # images that are decoded to see whether there is color
KINDS_NAMED = 5


def load_folder(
    folder: Path,
    *,
    size: tuple[int, int] | None = None,
    gray: bool | None = None,
    skip_broken: bool = False,
    reading: Reading | None = None,
) -> Dataset:
    """Read a folder of images, in natural order; its sub-folders are the labels.

    A flat folder has no labels. Links to files and folders are followed at every level; no folder
    is read twice, so a link that leads back is passed over. ``size`` is (height, width); without
    it large images, and images of different sizes, are read at a working size. ``gray=None`` keeps
    color where there is any. ``reading`` says both, and has files read only when they are used.
    Broken images are an error, or with ``skip_broken`` a warning.
    """
    files, groups, skipped = _find_images(folder)
    sources = [ImageSource.file(f) for f in files]
    lazy = reading is not None
    reading, notes = _choose_reading(sources, check_size(size), gray, skip_broken, reading)
    X: Any = StreamedImages(str(folder), sources, reading)
    readable = list(range(len(files)))
    if skip_broken:
        readable = X.readable()
    broken = sorted({*range(len(files))}.difference(readable))
    if broken:
        X = X.take(readable)
        notes.append(f"{len(broken)} of {len(files)} images were broken and left out")
        named = ", ".join(str(files[i]) for i in broken[:3]) + (", ..." if broken[3:] else "")
        warnings.warn(f"{notes[-1]}: {named}", stacklevel=5)  # the caller of load
    if not lazy and X.nbytes <= streamed.STREAM_BYTES:
        X = X.in_memory()
    y, names = None, None
    if groups is not None:
        names = sorted({groups[i] for i in readable}, key=natural_order)
        number = {name: k for k, name in enumerate(names)}
        y = np.array([number[groups[i]] for i in readable], np.int64)
    photographs = sum(file.suffix.lower() in PHOTOGRAPHS for file in files)
    return Dataset(
        name=folder.resolve().name or str(folder),
        X=X,
        y=y,
        paths=[str(files[i]) for i in readable],
        folder=str(folder),
        label_names=names,
        notes="; ".join(filter(None, [skipped, *notes])),
        reading=reading,
        photographs=not reading.gray and photographs > len(files) / 2,
    )


def _choose_reading(
    sources: list[ImageSource],
    size: tuple[int, int] | None,
    gray: bool | None,
    skip_broken: bool,
    reading: Reading | None,
) -> tuple[Reading, list[str]]:
    """How to read images, decided by one look at each file, and notes on what that changes."""
    if reading is not None and reading.levels != images.OF_THE_SET:
        return reading, []
    spread = np.unique(np.linspace(0, len(sources) - 1, LOOKED_AT).astype(int))
    judged = {sources[i] for i in spread} if reading is None and gray is None else {}
    looks = images.each(
        lambda source: images.read_header(source, source in judged),
        sources,
        skip_broken or reading is not None,
    )
    headers = [header for header in looks if header is not None]
    notes = []
    if reading is None:
        if gray is None:
            gray = not any(header.colored for header in headers)
        if size is None:
            if not headers:
                raise images.none_readable(sources)
            size, note = _choose_size([header.size for header in headers], gray)
            notes.append(note)
        reading = Reading(size, gray)
    levels, more = _choose_levels(headers)
    return replace(reading, levels=levels), notes + more


def _choose_size(sizes: list[tuple[int, int]], gray: bool) -> tuple[tuple[int, int], str]:
    """The size at which to read images of these sizes, and a note where it is not theirs."""
    chosen = working_size(sizes, 1 if gray else 3)
    if chosen is None:
        return sizes[0], ""
    different = sorted(set(sizes), key=lambda size: (prod(size), size))
    low, high = (f"{h} x {w}" for h, w in (different[0], different[-1]))
    originals = low if low == high else f"{len(different):,} sizes, {low} to {high},"
    read = f"{chosen[0]} x {chosen[1]} in {'gray' if gray else 'color'}"
    return chosen, f"images of {originals} read at {read}; --size HxW takes another size"


def _choose_levels(headers: list[images.Header]) -> tuple[tuple[int, int], list[str]]:
    """Which 16-bit values become 0 and 255, and what reading with eight bits changes."""
    deep, levels, notes = [h.levels for h in headers if h.levels is not None], FULL, []
    if deep and len(deep) == len(headers):
        low, high = min(low for low, _ in deep), max(high for _, high in deep)
        if low < high and (low, high) != levels:
            levels = low, high
            notes.append(f"16-bit values from {low:,} to {high:,} are scaled to 0 to 255")
    elif deep:
        notes.append("16-bit images are scaled by their full range, as others have 8 bits")
    if any(header.deep_color for header in headers):
        notes.append("colors of 16 bits are read with 8 bits")
    if transparent := sum(header.transparent for header in headers):
        notes.append(f"transparency is shown over white: {transparent:,} images")
    return levels, notes


def _find_images(folder: Path) -> tuple[list[Path], list[str] | None, str]:
    """Image files in natural order, each one's sub-folder (None: flat folder), what was skipped."""
    flat, grouped, others, left_out = _walk(folder)
    skipped = "; ".join([*([_skipped(others)] if others else []), *left_out])
    groups = [
        (image, writable(sub.name))
        for sub, files in sorted(grouped.items(), key=lambda item: natural_order(item[0]))
        for image in sorted(files, key=natural_order)
    ]
    if flat and groups:
        raise InputError(
            f"{folder} holds images beside its sub-folders ({flat[0].name}, and "
            f"{groups[0][1]}/{groups[0][0].name}): put them all in sub-folders, one for each "
            "label, or all in one folder."
        )
    if not flat and not groups:
        raise InputError(
            f"{folder} holds no images; looked for {' '.join(sorted(images.suffixes()))} in it and "
            f"in its sub-folders{f' ({skipped})' if skipped else ''}."
        )
    if flat:
        return sorted(flat, key=natural_order), None, skipped
    return [p for p, _ in groups], [name for _, name in groups], skipped


def _skipped(others: Counter[str]) -> str:
    """How many files of which kinds are no images, and which of them an extra could read."""
    ranked = sorted(others.items(), key=lambda item: (-item[1], item[0] or "~"))
    kinds = [f"{count:,} {kind or 'without a suffix'}" for kind, count in ranked]
    named = ", ".join(kinds[:KINDS_NAMED]) + (", ..." if kinds[KINDS_NAMED:] else "")
    text = f"{others.total():,} files skipped: {named}"
    if images.HEIC_SUFFIXES & others.keys():
        text += "; HEIC needs pip install 'dcfsc[heic]'"
    if images.AVIF_SUFFIXES & others.keys():
        text += "; AVIF needs a newer Pillow"
    return text


def _walk(folder: Path) -> tuple[list[Path], dict[Path, list[Path]], Counter[str], list[str]]:
    """The images in the folder itself, those below each of its sub-folders, and other files.

    Sub-folders that dcfsc wrote are left out, and so are links to images that are here anyway; the
    last list says so. Other links to files and folders are followed at every level. No folder is
    entered twice, nor one that the folder lies in, so that no link leads round; what lies here
    itself goes before what a link leads to.
    """
    top = folder.resolve()
    entered = {_identity(place) for place in (top, *top.parents)}
    links: set[Path] = set()
    flat, subs, others = _entries(folder, links)
    written = 0
    groups: dict[Path, list[Path]] = {sub: [] for sub in subs}
    here = [(sub, sub) for sub in reversed(subs) if not sub.is_symlink()]
    linked = deque((sub, sub) for sub in subs if sub.is_symlink())
    while here or linked:
        path, group = here.pop() if here else linked.popleft()
        identity = _identity(path)
        if identity in entered:
            continue
        entered.add(identity)
        if kind_of(path) is not None:
            written += 1
            continue
        files, subs, more = _entries(path, links)
        groups[group] += files
        others += more
        here += [(sub, group) for sub in reversed(subs) if not sub.is_symlink()]
        linked += [(sub, group) for sub in subs if sub.is_symlink()]
    left_out = [f"folders that dcfsc wrote were left out: {written}"] if written else []
    if links:
        last = sorted(chain(flat, *groups.values()), key=lambda i: (i in links, natural_order(i)))
        again = links - {*{_identity(image): image for image in reversed(last)}.values()}
        flat = [image for image in flat if image not in again]
        groups = {sub: [i for i in files if i not in again] for sub, files in groups.items()}
        left_out += [f"links to images of the set were left out: {len(again)}"] if again else []
    return flat, groups, others, left_out


def _entries(folder: Path, links: set[Path]) -> tuple[list[Path], list[Path], Counter[str]]:
    """Images, folders in natural order, and the kinds of other files; links are what they lead to.

    Images that are links are added to ``links``.
    Left out are hidden entries, what macOS adds to archives, and pipes, which would be waited for.
    """
    files, folders, others = [], [], Counter[str]()
    known = images.suffixes()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            link = entry.is_symlink()  # of one that leads nowhere a DirEntry may raise
            if os.path.isdir(entry) if link else entry.is_dir():
                folders.append(Path(entry.path))
            elif os.path.isfile(entry) if link else entry.is_file():
                suffix = os.path.splitext(entry.name)[1].lower()
                if suffix in known:
                    files.append(Path(entry.path))
                    if link:
                        links.add(files[-1])
                else:
                    others[suffix] += 1
    return files, sorted(folders, key=natural_order), others


def _identity(folder: Path) -> tuple[int, int]:
    """What a folder is, however it was reached."""
    status = folder.stat()
    return status.st_dev, status.st_ino
