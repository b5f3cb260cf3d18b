"""Folders of images: which files are images, in which order, and what their sub-folders say."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.datasets import streamed
from dcfsc.datasets.dataset import Dataset
from dcfsc.datasets.image_stream import bytes_of, stream_images
from dcfsc.datasets.images import ImageSource, check_size, natural_order, read_images
from dcfsc.errors import InputError

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

    A flat folder has no labels. ``size`` is (height, width); without it all images must have one
    size already. Broken images are an error, or with ``skip_broken`` a warning.
    """
    files, groups = _find_images(folder)
    sources = [ImageSource.file(f) for f in files]
    size = check_size(size)
    X: Any
    if bytes_of(sources, size, gray) > streamed.STREAM_BYTES:
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
        paths=[_text(files[i]) for i in kept],
        label_names=names,
        notes=notes,
    )


def _find_images(folder: Path) -> tuple[list[Path], list[str] | None]:
    """Image files in natural order, and for each the sub-folder's name (None: flat folder)."""
    flat = [p for p in _visible(folder) if p.is_file() and p.suffix.lower() in SUFFIXES]
    groups: list[tuple[Path, str]] = []
    for sub in sorted((p for p in _visible(folder) if p.is_dir()), key=natural_order):
        found = [p for p in _walk(sub) if p.suffix.lower() in SUFFIXES]
        groups += [(p, _text(Path(sub.name))) for p in sorted(found, key=natural_order)]
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


def _visible(folder: Path) -> list[Path]:
    """The entries of a folder, less the hidden ones and what macOS adds to archives."""
    return [p for p in folder.iterdir() if not p.name.startswith(".") and p.name != "__MACOSX"]


def _walk(folder: Path) -> Iterator[Path]:
    """Files below the folder; links to folders are not followed, so that none leads round."""
    folders = [folder]
    while folders:
        for path in _visible(folders.pop()):
            if path.is_file():  # not a pipe, which would be waited for
                yield path
            elif path.is_dir() and not path.is_symlink():
                folders.append(path)


def _text(path: Path) -> str:
    """The path as text that can be written to a file: bytes that are no text are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
