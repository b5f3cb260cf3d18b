"""Folders of images: which files are images, in which order, and how they are read."""

from __future__ import annotations

import os
import warnings
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError, writable
from dcfsc.io import images, streamed
from dcfsc.io.dataset import Dataset
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, Reading, check_size, natural_order
from dcfsc.io.working_size import FULL, MOST_CHANNELS, working_size
from dcfsc.journal import kind_of

# what cameras and their programs write
PHOTOGRAPHS = (".jpg", ".jpeg", ".webp", *images.AVIF_SUFFIXES, *images.HEIC_SUFFIXES)
LOOKED_AT = 32  # images that are decoded to see whether there is color
KINDS_NAMED, BROKEN_NAMED = 5, 3
FOLDERS = "folders"  # given as labels
UNKNOWN = (1, 1)  # a size that is not chosen yet


def load_folder(
    folder: Path,
    *,
    size: tuple[int, int] | None = None,
    gray: bool | None = None,
    page: int | str | None = None,
    channels: Sequence[int] | None = None,
    strict: bool = False,
    labels: str | None = None,
    reading: Reading | None = None,
) -> Dataset:
    """Read the images in a folder and below it as one set, in natural order of their paths.

    With ``labels="folders"`` the first sub-folder on the way to an image is its label. Links to
    files and folders are followed at every level; no folder is read twice, so a link that leads
    back is passed over. ``size`` is (height, width); without it large images, and images of
    different sizes, are read at a working size. ``gray=None`` keeps color where there is any.
    ``reading`` says all of this, and has files read only when they are used. Broken images are left
    out with a warning, or with ``strict`` an error.
    """
    files, skipped = _find_images(folder)
    groups = [_first_folder(file, folder) for file in files]
    if labels == FOLDERS:
        _check_labels(files, groups)
    sources = [ImageSource.file(f) for f in files]
    lazy = reading is not None
    chosen = Reading(check_size(size) or UNKNOWN, bool(gray), **_planes(page, channels, gray))
    reading, notes = _choose_reading(sources, chosen, reading, size, gray, page, strict)
    X: Any = StreamedImages(str(folder), sources, reading)
    readable = list(range(len(files))) if strict else X.readable()
    broken = [str(files[i].relative_to(folder)) for i in sorted({*range(len(files))} - {*readable})]
    if broken:
        X = X.take(readable)
        notes.append(f"{len(broken):,} of {len(files):,} images were broken and left out")
        named = ", ".join(broken[:BROKEN_NAMED]) + (", ..." if broken[BROKEN_NAMED:] else "")
        warnings.warn(f"{notes[-1]}: {named}", stacklevel=5)  # the caller of load
    if not lazy and X.nbytes <= streamed.STREAM_BYTES:
        X = X.in_memory()
    y, names = None, None
    if labels == FOLDERS:
        names = sorted({groups[i] for i in readable}, key=natural_order)
        number = {name: k for k, name in enumerate(names)}
        y = np.array([number[groups[i]] for i in readable], np.int64)
    elif labels is None and _look_like_labels(groups):
        notes.append("the sub-folders are not used; --labels folders scores against them")
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
        photographs=reading.channels is None and not reading.gray and photographs > len(files) / 2,
        broken=tuple(broken),
    )


# Labels -----------------------------------------------------------------------------------------


def _first_folder(file: Path, top: Path) -> str:
    """The first folder on the way from ``top`` to a file; "" where the file lies in it itself."""
    parts = file.relative_to(top).parts
    return writable(parts[0]) if len(parts) > 1 else ""


def _check_labels(files: Sequence[Path], groups: Sequence[str]) -> None:
    loose = [file.name for file, group in zip(files, groups, strict=True) if not group]
    if loose:
        raise InputError(
            f"with --labels folders each image lies in a sub-folder, its label; {len(loose):,} of "
            f"{len(files):,} do not, such as {loose[0]}: move them into one, or leave out --labels."
        )


def _look_like_labels(groups: Sequence[str]) -> bool:
    sizes = Counter(groups)
    return len(sizes) > 1 and "" not in sizes and min(sizes.values()) > 1


# How to read ------------------------------------------------------------------------------------


def _planes(page: Any, channels: Any, gray: bool | None) -> dict[str, Any]:
    """``page`` and ``channels`` as fields of a Reading, checked."""
    if not (page in (None, "all") or (isinstance(page, Integral) and int(page) > 0)):
        raise InputError(f"page is {page!r}; give a number, counted from 1, or all.")
    if channels is not None:
        known = [c for c in channels if isinstance(c, Integral) and int(c) > 0]
        if not known or len({*known}) < len(channels):
            raise InputError(
                f"channels is {channels!r}; give different numbers, counted from 1, as in 1,3."
            )
        channels = tuple(map(int, known))
    if gray is not None and (page == "all" or channels is not None):
        name = "gray" if gray else "color"
        raise InputError(f"{name} has no effect where channels are read; leave it out.")
    return {"page": 0 if page == "all" else int(page or 1), "channels": channels}


def _choose_reading(
    sources: list[ImageSource],
    chosen: Reading,
    reading: Reading | None,
    size: tuple[int, int] | None,
    gray: bool | None,
    page: int | str | None,
    strict: bool,
) -> tuple[Reading, list[str]]:
    """How to read images, decided by one look at each file, and notes on what that changes.

    Of what was ``chosen``, ``size`` and ``gray`` count where they were given.
    """
    if reading is not None and reading.levels != images.OF_THE_SET:
        return reading, []
    spread = np.unique(np.linspace(0, len(sources) - 1, LOOKED_AT).astype(int))
    judged = {sources[i] for i in spread} if reading is None and gray is None else {}
    looks = images.each(
        lambda source: images.read_header(source, source in judged, chosen.page, chosen.channels),
        sources,
        strict and reading is None,
    )
    headers = [header for header in looks if header is not None]
    if not headers:
        raise images.none_readable(sources, chosen)
    channels, notes = _choose_channels(headers, chosen)
    if page is None and (more := sum(header.pages > 1 for header in headers)):
        notes.append(
            f"{more:,} images have more pages, of which the first is read; --page N takes another, "
            "--page all takes them as channels"
        )
    if reading is None:
        if gray is None:
            gray = channels is not None or not any(header.colored for header in headers)
        if size is None:
            values = 3 if channels is None and not gray else len(channels or (1,))
            size, note = _choose_size([header.size for header in headers], values)
            notes.append(note)
        reading = Reading(size, gray)
    levels, more_notes = _choose_levels(headers)
    reading = replace(reading, levels=levels, page=chosen.page, channels=channels)
    return reading, notes + more_notes


def _choose_channels(
    headers: list[images.Header], chosen: Reading
) -> tuple[tuple[int, ...] | None, list[str]]:
    """The channels that were chosen, or all of images that have too many for a color."""
    counts = {header.channels for header in headers}
    if chosen.channels is not None or (chosen.page and max(counts) <= MOST_CHANNELS):
        return chosen.channels, []
    if len(counts) > 1:
        raise InputError(
            f"the images have {min(counts)} to {max(counts)} channels; choose those that all have "
            "with --channels, as in 1,2."
        )
    (count,) = counts
    return tuple(range(1, count + 1)), [f"{count} channels are read; --channels takes some of them"]


def _choose_size(sizes: list[tuple[int, int]], channels: int) -> tuple[tuple[int, int], str]:
    """The size at which to read images of these sizes, and a note where it is not theirs."""
    chosen = working_size(sizes, channels)
    if chosen is None:
        return sizes[0], ""
    different = sorted(set(sizes), key=lambda size: (prod(size), size))
    low, high = (f"{h} x {w}" for h, w in (different[0], different[-1]))
    originals = low if low == high else f"{len(different):,} sizes, {low} to {high},"
    kind = {1: " in gray", 3: " in color"}.get(channels, "")
    return chosen, (
        f"images of {originals} read at {chosen[0]} x {chosen[1]}{kind}; --size HxW takes another "
        "size"
    )


def _choose_levels(headers: list[images.Header]) -> tuple[tuple[int, ...], list[str]]:
    """Which 16-bit values become 0 and 255, and what reading with eight bits changes."""
    deep, levels, notes = [h.levels for h in headers if h.levels is not None], FULL, []
    if deep and len(deep) == len(headers):
        ends = np.array(deep).reshape(len(deep), -1, 2)
        low, high = ends[:, :, 0].min(axis=0), ends[:, :, 1].max(axis=0)
        ends = np.where((low < high)[:, None], np.stack([low, high], axis=1), FULL)
        if (ends != FULL).any():
            levels = tuple(ends.ravel().tolist())
            each = ", those of each channel by themselves" if len(ends) > 1 else ""
            notes.append(
                f"16-bit values from {ends.min():,} to {ends.max():,} are scaled to 0 to 255{each}"
            )
    elif deep:
        notes.append("16-bit images are scaled by their full range, as others have 8 bits")
    if any(header.deep_color for header in headers):
        notes.append("colors of 16 bits are read with 8 bits")
    if transparent := sum(header.transparent for header in headers):
        notes.append(f"transparency is shown over white: {transparent:,} images")
    return levels, notes


# Which files ------------------------------------------------------------------------------------


def _find_images(folder: Path) -> tuple[list[Path], str]:
    """Image files in natural order of their paths, and what was skipped."""
    files, others, left_out = _walk(folder)
    skipped = "; ".join([*([_skipped(others)] if others else []), *left_out])
    if not files:
        raise InputError(
            f"{folder} holds no images; looked for {' '.join(sorted(images.suffixes()))} in it and "
            f"in its sub-folders{f' ({skipped})' if skipped else ''}."
        )
    top = len(folder.parts)
    return sorted(files, key=lambda file: [*map(natural_order, file.parts[top:])]), skipped


def _skipped(others: Counter[str]) -> str:
    """How many files of which kinds are no images, and which of them an extra could read."""
    ranked = sorted(others.items(), key=lambda item: (-item[1], item[0] or "~"))
    kinds = [f"{count:,} {kind or 'without a suffix'}" for kind, count in ranked]
    named = ", ".join(kinds[:KINDS_NAMED]) + (", ..." if kinds[KINDS_NAMED:] else "")
    text = f"{others.total():,} file{'s' if others.total() > 1 else ''} skipped: {named}"
    if images.HEIC_SUFFIXES & others.keys():
        text += "; HEIC needs pip install 'dcfsc[heic]'"
    if images.AVIF_SUFFIXES & others.keys():
        text += "; AVIF needs a newer Pillow"
    return text


def _walk(folder: Path) -> tuple[list[Path], Counter[str], list[str]]:
    """The images in a folder and below it, the kinds of other files, and what was left out.

    Left out are sub-folders that dcfsc wrote, and links to images that are here anyway. Other links
    to files and folders are followed at every level. No folder is entered twice, nor one that the
    folder lies in, so that no link leads round; what lies here itself goes before what a link leads
    to.
    """
    top = folder.resolve()
    entered = {_identity(place) for place in top.parents}
    links: set[Path] = set()
    found: list[Path] = []
    others = Counter[str]()
    written = 0
    here, linked = [folder], deque[Path]()
    while here or linked:
        path = here.pop() if here else linked.popleft()
        identity = _identity(path)
        if identity in entered:
            continue
        entered.add(identity)
        if path != folder and kind_of(path) is not None:
            written += 1
            continue
        files, subs, more = _entries(path, links)
        found += files
        others += more
        here += [sub for sub in reversed(subs) if not sub.is_symlink()]
        linked += [sub for sub in subs if sub.is_symlink()]
    left_out = [f"folders that dcfsc wrote were left out: {written}"] if written else []
    if links:
        last = sorted(found, key=lambda i: (i in links, natural_order(i)))
        again = links - {*{_identity(image): image for image in reversed(last)}.values()}
        found = [image for image in found if image not in again]
        left_out += [f"links to images of the set were left out: {len(again)}"] if again else []
    return found, others, left_out


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
