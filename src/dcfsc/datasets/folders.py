"""Folders of images: which files are images, in which order, and what their sub-folders say."""

from __future__ import annotations

import os
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.datasets import streamed
from dcfsc.datasets.dataset import Dataset
from dcfsc.datasets.image_stream import bytes_of, stream_images
from dcfsc.datasets.images import ImageSource, check_size, natural_order, read_images
from dcfsc.errors import InputError, writable

SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")
)


def load_folder(
    folder: Path,
    *,
    size: tuple[int, int] | None = None,
    gray: bool = True,
    skip_broken: bool = False,
) -> Dataset:
    """A folder of images, in natural order; its sub-folders are the labels.

    A flat folder has no labels. Links to files and folders are followed at every level; no folder
    is read twice, so a link that leads back is passed over. ``size`` is (height, width); without
    it all images must have one size already. Broken images are an error, or with ``skip_broken`` a
    warning.
    """
    files, groups = _find_images(folder)
    sources = [ImageSource.file(f) for f in files]
    size = check_size(size)
    X: Any
    if bytes_of(sources, size, gray, skip_broken) > streamed.STREAM_BYTES:
        X, kept = stream_images(str(folder), sources, size=size, gray=gray, skip_broken=skip_broken)
    else:
        X, kept = read_images(sources, size=size, gray=gray, skip_broken=skip_broken)
    y, names = None, None
    if groups is not None:
        names = sorted({groups[i] for i in kept}, key=natural_order)
        number = {name: k for k, name in enumerate(names)}
        y = np.array([number[groups[i]] for i in kept], np.int64)
    broken = sorted(set(range(len(files))) - set(kept))
    notes = f"{len(broken)} of {len(files)} images were broken and left out" if broken else ""
    if broken:
        named = ", ".join(str(files[i]) for i in broken[:3]) + (", ..." if broken[3:] else "")
        warnings.warn(f"{notes}: {named}", stacklevel=5)  # the caller of load
    return Dataset(
        name=folder.resolve().name or str(folder),
        X=X,
        y=y,
        paths=[str(files[i]) for i in kept],
        label_names=names,
        notes=notes,
    )


def _find_images(folder: Path) -> tuple[list[Path], list[str] | None]:
    """Image files in natural order, and for each the sub-folder's name (None: flat folder)."""
    flat, grouped = _walk(folder)
    groups = [
        (image, writable(sub.name))
        for sub, found in sorted(grouped.items(), key=lambda item: natural_order(item[0]))
        for image in sorted(found, key=natural_order)
    ]
    if flat and groups:
        raise InputError(
            f"{folder} holds images beside its sub-folders ({flat[0].name}, and "
            f"{groups[0][1]}/{groups[0][0].name}): put them all in sub-folders, one for each "
            "label, or all in one folder."
        )
    if not flat and not groups:
        raise InputError(
            f"{folder} holds no images; looked for {' '.join(sorted(SUFFIXES))} in it and in its "
            "sub-folders."
        )
    if flat:
        return sorted(flat, key=natural_order), None
    return [p for p, _ in groups], [name for _, name in groups]


def _walk(folder: Path) -> tuple[list[Path], dict[Path, list[Path]]]:
    """The images in the folder itself, and those below each of its sub-folders.

    Links to files and folders are followed at every level. No folder is entered twice, nor one
    that the folder lies in, so that no link leads round; what lies here itself goes before what a
    link leads to.
    """
    top = folder.resolve()
    entered = {_identity(place) for place in (top, *top.parents)}
    flat, subs = _entries(folder)
    groups: dict[Path, list[Path]] = {sub: [] for sub in subs}
    here = [(sub, sub) for sub in reversed(subs) if not sub.is_symlink()]
    linked = deque((sub, sub) for sub in subs if sub.is_symlink())
    while here or linked:
        path, group = here.pop() if here else linked.popleft()
        identity = _identity(path)
        if identity in entered:
            continue
        entered.add(identity)
        images, subs = _entries(path)
        groups[group] += images
        here += [(sub, group) for sub in reversed(subs) if not sub.is_symlink()]
        linked += [(sub, group) for sub in subs if sub.is_symlink()]
    return flat, groups


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """Images and, in natural order, folders in a folder; links count as what they lead to.

    Left out are hidden entries, what macOS adds to archives, and pipes, which would be waited for.
    """
    images, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            link = entry.is_symlink()  # of one that leads nowhere a DirEntry may raise
            if os.path.isdir(entry) if link else entry.is_dir():
                folders.append(Path(entry.path))
            elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and (
                os.path.isfile(entry) if link else entry.is_file()
            ):
                images.append(Path(entry.path))
    return images, sorted(folders, key=natural_order)


def _identity(folder: Path) -> tuple[int, int]:
    """What a folder is, however it was reached."""
    status = folder.stat()
    return status.st_dev, status.st_ino
