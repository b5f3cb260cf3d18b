"""Images -> arrays: (n, h, w) in grey or (n, 3, h, w) in colour, always uint8."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from dcfsc.datasets.dataset import Dataset
from dcfsc.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")
)


@dataclass(frozen=True)
class ImageSource:
    """One image to be read: the name that messages use, and how to open its bytes."""

    name: str
    open: Callable[[], IO[bytes]]

    @classmethod
    def file(cls, path: Path) -> ImageSource:
        return cls(str(path), lambda: path.open("rb"))


def natural_order(text: str | Path) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which img2 comes before img10."""
    pieces = re.split(r"([0-9]+)", str(text).casefold())
    # the text itself comes last, so that 'a01' and 'a1' keep one order on every machine
    keys = [(1, int(p), "") if i % 2 else (0, 0, p) for i, p in enumerate(pieces)]
    return (*keys, (2, 0, str(text)))


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
    X, kept = read_images(
        [ImageSource.file(f) for f in files], size=size, gray=gray, skip_broken=skip_broken
    )
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
    flat = [p for p in _visible(folder) if p.is_file() and p.suffix.lower() in SUFFIXES]
    groups: list[tuple[Path, str]] = []
    for sub in sorted((p for p in _visible(folder) if p.is_dir()), key=natural_order):
        found = [p for p in _walk(sub) if p.suffix.lower() in SUFFIXES]
        groups += [(p, sub.name) for p in sorted(found, key=natural_order)]
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
    for parent, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        yield from (Path(parent, f) for f in files if not f.startswith("."))


def read_images(
    sources: Sequence[ImageSource],
    *,
    size: tuple[int, int] | None = None,
    gray: bool = True,
    skip_broken: bool = False,
) -> tuple[np.ndarray, list[int]]:
    """Read images into one uint8 array; return it with the indices of those that were readable."""
    size = check_size(size)
    X: np.ndarray | None = None
    kept: list[int] = []
    with _bombs_are_errors():
        for i, source in enumerate(sources):
            try:
                image = _read(source, size, gray)
            except InputError:
                if not skip_broken:
                    raise
                continue
            if X is None:
                # one array from the start: stacking a list would hold the images twice
                X = np.empty((len(sources), *image.shape), np.uint8)
            elif image.shape != X.shape[1:]:
                raise _sizes_differ(sources[kept[0]].name, X[0], source.name, image)
            X[len(kept)] = image
            kept.append(i)
    if X is None:
        raise InputError(f"none of the {len(sources)} images can be read ({sources[0].name}, ...).")
    return (X if len(kept) == len(X) else X[: len(kept)].copy()), kept


def _sizes_differ(name: str, first: np.ndarray, other_name: str, other: np.ndarray) -> InputError:
    (h, w), (h2, w2) = first.shape[-2:], other.shape[-2:]
    return InputError(
        f"images differ in size: {name} is {h}x{w} and {other_name} is {h2}x{w2} (height x "
        f"width); bring them to one size with size=({h}, {w}), on the command line --size {h}x{w}."
    )


def _read(source: ImageSource, size: tuple[int, int] | None, gray: bool) -> np.ndarray:
    """One upright image, (h, w) or (3, h, w) uint8."""
    from PIL import Image, ImageOps

    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with source.open() as file, Image.open(file) as opened:
            sixteen = opened.mode.startswith("I;16") or (
                opened.mode == "I" and opened.format in ("PPM", "PNG")
            )
            image = _eight_bits(ImageOps.exif_transpose(opened), sixteen, gray)
            if size is not None and image.size != size[::-1]:
                image = image.resize(size[::-1], Image.Resampling.BICUBIC)
            pixels = np.asarray(image)
    except bombs:
        raise InputError(
            f"{source.name} has more than {Image.MAX_IMAGE_PIXELS} pixels, as a file made to "
            "exhaust memory would; reduce it first."
        ) from None
    except InputError:
        raise
    except Exception as error:  # decoders fail in many ways on damaged bytes
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, Image.UnidentifiedImageError):
            reason = "not an image, or cut off at the start"
        raise InputError(
            f"cannot read the image {source.name}: {reason}; repair or remove it, or leave broken "
            "images out with skip_broken=True (--skip-broken)."
        ) from None
    return pixels if gray else np.moveaxis(pixels, -1, 0)


def _eight_bits(image: PILImage, sixteen: bool, gray: bool) -> PILImage:
    """The image in mode L or RGB; 16-bit grey is scaled, where a plain convert would clip it."""
    from PIL import Image

    if sixteen:
        values = np.asarray(image).astype(np.float32)
        image = Image.fromarray(np.round(values / 257).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError(
            f"32-bit pixels (mode {image.mode}) have no known range; save 8 or 16 bits"
        )
    return image.convert("L" if gray else "RGB")


@contextmanager
def _bombs_are_errors() -> Iterator[None]:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def check_size(size: tuple[int, int] | None) -> tuple[int, int] | None:
    """``size`` as (height, width), two positive integers."""
    if size is None:
        return None
    if isinstance(size, str) or len(size) != 2 or not all(isinstance(s, Integral) for s in size):
        raise InputError(f"size is {size!r}; give (height, width) as two integers, as in (32, 32).")
    h, w = int(size[0]), int(size[1])
    if h < 1 or w < 1:
        raise InputError(f"size is {h}x{w}; height and width start at 1.")
    return h, w


def resize(X: np.ndarray, size: tuple[int, int] | None, name: str) -> np.ndarray:
    """Bicubic resize of (n, h, w) or (n, c, h, w) to ``size``; uint8 stays uint8."""
    size = check_size(size)
    if size is None or X.shape[-2:] == size:
        return X
    if X.ndim < 3:
        raise InputError(f"{name}: size={size} needs images, but the samples are {X.shape[1:]}.")
    from PIL import Image

    planes = X.reshape(-1, *X.shape[-2:])
    kind = np.uint8 if X.dtype == np.uint8 else np.float32
    out = np.empty((len(planes), *size), kind)
    for i, plane in enumerate(planes):
        picture = Image.fromarray(np.ascontiguousarray(plane, dtype=kind))
        out[i] = np.asarray(picture.resize(size[::-1], Image.Resampling.BICUBIC))
    return out.reshape(*X.shape[:-2], *size)
