"""Images -> arrays: (n, h, w) in grey or (n, 3, h, w) in colour, always uint8."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dcfsc.datasets import streamed
from dcfsc.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

MOST_PIXELS = 89_478_485  # Pillow's bound on an image that is read is ours on one that is made
# By content, whatever a file is called: Pillow would run an interpreter for a PostScript program.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")


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
    with bombs_are_errors():
        for i, source in enumerate(sources):
            try:
                image = read_image(source, size, gray)
            except InputError:
                if not skip_broken:
                    raise
                continue
            if X is None:
                # one array from the start: stacking a list would hold the images twice
                X = np.empty((len(sources), *image.shape), np.uint8)
            elif image.shape != X.shape[1:]:
                raise sizes_differ(sources[kept[0]].name, X.shape, source.name, image.shape)
            X[len(kept)] = image
            kept.append(i)
    if X is None:
        raise InputError(f"none of the {len(sources)} images can be read ({sources[0].name}, ...).")
    return (X if len(kept) == len(X) else X[: len(kept)].copy()), kept


def sizes_differ(
    name: str, first: tuple[int, ...], other_name: str, other: tuple[int, ...]
) -> InputError:
    (h, w), (h2, w2) = first[-2:], other[-2:]
    return InputError(
        f"images differ in size: {name} is {h}x{w} and {other_name} is {h2}x{w2} (height x "
        f"width); bring them to one size with size=({h}, {w}), on the command line --size {h}x{w}."
    )


def read_image(source: ImageSource, size: tuple[int, int] | None, gray: bool) -> np.ndarray:
    """One upright image, (h, w) or (3, h, w) uint8."""
    from PIL import Image, ImageOps

    with decoding(source) as opened:
        sixteen = opened.mode.startswith("I;16") or (
            opened.mode == "I" and opened.format in ("PPM", "PNG")
        )
        image = _eight_bits(ImageOps.exif_transpose(opened), sixteen, gray)
        if size is not None and image.size != size[::-1]:
            image = image.resize(size[::-1], Image.Resampling.BICUBIC)
        pixels = np.asarray(image)
    return pixels if gray else np.moveaxis(pixels, -1, 0)


@contextmanager
def decoding(source: ImageSource) -> Iterator[PILImage]:
    """The image, opened; what its decoder says within the block about damaged bytes is one line."""
    from PIL import Image

    try:
        with source.open() as file:
            if not file.read(1):
                raise ValueError("the file is empty")  # Pillow would ask every decoder in turn
            file.seek(0)
            with Image.open(file, formats=FORMATS) as opened:
                yield opened
    except Exception as error:  # decoders fail in many ways on damaged bytes
        raise broken(source, error) from None


def broken(source: ImageSource, error: Exception) -> InputError:
    """What to say of an image whose decoder failed with ``error``."""
    from PIL import Image

    if isinstance(error, InputError):
        return error
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return InputError(
            f"{source.name} has more than {Image.MAX_IMAGE_PIXELS} pixels, as a file made to "
            "exhaust memory would; reduce it first."
        )
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, Image.UnidentifiedImageError):
        reason = "not an image, or cut off at the start"
    return InputError(
        f"cannot read the image {source.name}: {reason}; repair or remove it, or leave broken "
        "images out with skip_broken=True (--skip-broken)."
    )


def _eight_bits(image: PILImage, sixteen: bool, gray: bool) -> PILImage:
    """The image in mode L or RGB; 16-bit grey is scaled, where a plain convert would clip it."""
    from PIL import Image

    if sixteen:
        values = np.asarray(image).astype(np.float32)
        values /= 257
        image = Image.fromarray(np.round(values, out=values).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError(
            f"32-bit pixels (mode {image.mode}) have no known range; save 8 or 16 bits"
        )
    return image.convert("L" if gray else "RGB")


@contextmanager
def bombs_are_errors() -> Iterator[None]:
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
    if h * w > MOST_PIXELS:
        raise InputError(f"size is {h}x{w}; an image has at most {MOST_PIXELS} pixels.")
    return h, w


def resize(X: Any, size: tuple[int, int] | None, name: str) -> Any:
    """Bicubic resize of (n, h, w) or (n, c, h, w) to ``size``; uint8 stays uint8."""
    size = check_size(size)
    if size is None or X.shape[-2:] == size:
        return X
    if X.ndim < 3:
        raise InputError(f"{name}: size={size} needs images, but the samples are {X.shape[1:]}.")
    from PIL import Image

    kind = np.uint8 if X.dtype == np.uint8 else np.float32
    if isinstance(X, streamed.Streamed):
        shape = (*X.shape[1:-2], *size)
        return streamed.Derived(X, lambda rows: resize(rows, size, name), shape, kind)
    planes = X.reshape(-1, *X.shape[-2:])
    streamed.require_room(name, len(planes) * size[0] * size[1] * np.dtype(kind).itemsize)
    out = np.empty((len(planes), *size), kind)
    for i, plane in enumerate(planes):
        picture = Image.fromarray(np.ascontiguousarray(plane, dtype=kind))
        out[i] = np.asarray(picture.resize(size[::-1], Image.Resampling.BICUBIC))
    return out.reshape(*X.shape[:-2], *size)
