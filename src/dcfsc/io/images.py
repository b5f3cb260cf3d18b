"""Images -> arrays: (n, h, w) in gray or (n, 3, h, w) in color, always uint8."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dcfsc.errors import InputError, reason
from dcfsc.io import planes, streamed
from dcfsc.io.planes import is_deep_gray
from dcfsc.io.working_size import MOST_CHANNELS, Reading
from dcfsc.progress import progress

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

MOST_PIXELS = 89_478_485  # Pillow's bound on an image that is read is ours on one that is made
# By content, whatever a file is called: Pillow would run an interpreter for a PostScript program.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")
SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")
)
AVIF_SUFFIXES = frozenset((".avif", ".avifs"))
HEIC_SUFFIXES = frozenset((".heic", ".heif", ".hif"))
WORKERS = min(8, os.cpu_count() or 1)
TOGETHER = 256  # images handed to the threads at a time
GAP = 2  # a JPEG is decoded at no less than so many times the size it is then reduced to
CHANNELS = (1, 3, 4)
OF_THE_SET: tuple[int, ...] = ()  # levels that the images of a folder are to tell
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)
COLORED = 16  # of 255, by which the channels of a pixel differ where it has a color
GRAY_MODES = ("1", "L", "LA", "La", "I", "F")


@dataclass(frozen=True)
class ImageSource:
    """One image to be read: the name that messages use, and how to open its bytes."""

    name: str
    open: Callable[[], IO[bytes]]

    @classmethod
    def file(cls, path: Path) -> ImageSource:
        return cls(str(path), lambda: open_regular(path))


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file's bytes; a pipe or a device, which might never answer, is an error."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    at_once = getattr(os, "O_NONBLOCK", 0)  # whatever has come in its place since
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))


class Header(NamedTuple):
    """What one look at a file tells; its pixels are decoded later.

    ``size`` is (height, width) of the upright image, ``levels`` are the smallest and the largest
    value of 16-bit gray, of each channel where they are read, and ``colored`` is whether the image
    has color, if that was looked for.
    """

    size: tuple[int, int]
    levels: tuple[int, ...] | None = None
    deep_color: bool = False
    transparent: bool = False
    colored: bool = False
    pages: int = 1
    channels: int = 1


def read_header(
    source: ImageSource,
    look_for_color: bool = False,
    page: int = 1,
    channels: tuple[int, ...] | None = None,
) -> Header:
    """Open a file once for all that is decided before its pixels are read."""
    with decoding(source) as opened:
        pages = planes.count_pages(opened)
        planes.turn_to(opened, page or 1)
        size, transparent = header_size(opened), opened.has_transparency_data
        count = planes.count_channels(opened) * (1 if page else pages)
        stored_deep = ";16" in str(getattr(opened, "tile", [])[:1])  # known until pixels are read
        if channels is None and (page == 0 or count > MOST_CHANNELS):
            channels = tuple(range(1, count + 1))
        if channels is not None:
            stack = [np.asarray(plane) for plane in planes.read(opened, page, channels)]
            deep = all(plane.dtype.itemsize > 1 for plane in stack)
            values = tuple(int(end) for plane in stack for end in (plane.min(), plane.max()))
            cut = stored_deep and not deep
            return Header(size, values if deep else None, cut, pages=pages, channels=count)
        if is_deep_gray(opened):
            gray = np.asarray(opened)
            return Header(size, (int(gray.min()), int(gray.max())), pages=pages)
        colored = False
        if look_for_color and opened.mode not in GRAY_MODES:
            with suppress(Exception):  # damage is reported when the pixels are read
                small = _pixels(opened, Reading((32, 32), gray=False))
                colored = bool(np.ptp(small, axis=0).max() > COLORED)
        return Header(size, None, stored_deep, transparent, colored, pages, count)


def natural_order(text: str | Path) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which img2 comes before img10."""
    pieces = re.split(r"([0-9]+)", str(text).casefold())
    # the text itself comes last, so that 'a01' and 'a1' keep one order on every machine
    keys = [(1, int(p), "") if i % 2 else (0, 0, p) for i, p in enumerate(pieces)]
    return (*keys, (2, 0, str(text)))


def each(
    function: Callable[[ImageSource], Any], sources: Sequence[ImageSource], strict: bool
) -> Iterator[Any]:
    """The function's value for each image in order, by a few threads; None for a broken one.

    With ``strict`` the first broken one is an error, and none is begun after it.
    """
    ended = threading.Event()

    def attempt(source: ImageSource) -> Any:
        if ended.is_set():
            return None
        try:
            return function(source)
        except InputError:
            if strict:
                ended.set()
                raise
            return None

    with bombs_are_errors(), ThreadPoolExecutor(WORKERS) as pool:
        for start in range(0, len(sources), TOGETHER):
            progress(start, len(sources))
            yield from pool.map(attempt, sources[start : start + TOGETHER])


def none_readable(sources: Sequence[ImageSource], reading: Reading) -> InputError:
    """What to say where all images are broken, with what is wrong with the first."""
    why = f"{sources[0].name}, ..."
    with suppress(OSError):
        try:
            read_image(sources[0], reading)
        except InputError as error:
            said = str(error).removeprefix("cannot read the image ")
            why = said.partition("; repair")[0].rstrip(".")
    return InputError(f"none of the {len(sources):,} images can be read ({why}).")


def read_image(source: ImageSource, reading: Reading) -> np.ndarray:
    """One upright image, (h, w) or (c, h, w) uint8.

    A JPEG is decoded at the smallest of the sizes that its format offers and that is ``GAP`` times
    as large as asked for.
    """
    with decoding(source) as opened:
        return _pixels(opened, reading)


def _pixels(opened: PILImage, reading: Reading) -> np.ndarray:
    from PIL import Image, ImageOps

    planes.turn_to(opened, reading.page or 1)
    height, width = header_size(opened)
    left, top, right, bottom = reading.box(width, height)
    ratio = min((bottom - top) / reading.size[0], (right - left) / reading.size[1])
    factor = min(1.0, GAP / ratio)
    w, h = (max(1, round(factor * side)) for side in opened.size)
    target = reading.size[::-1]

    def resized(image: PILImage) -> np.ndarray:
        across, down = image.width / width, image.height / height  # less than 1 after a draft
        box = (
            left * across,
            top * down,
            min(right * across, image.width),
            min(bottom * down, image.height),
        )
        if image.size != target or box != (0, 0, *image.size):
            image = image.resize(target, Image.Resampling.BICUBIC, box)
        return np.asarray(image)

    if reading.channels is not None:
        stack = planes.read(opened, reading.page, reading.channels)
        ranges = zip(stack, reading.ranges(), strict=True)
        return np.stack([resized(_eight_bits(plane, levels)) for plane, levels in ranges])
    opened.draft(None, (w, h))
    upright = ImageOps.exif_transpose(opened)
    levels = reading.ranges()[0] if is_deep_gray(opened) else None
    pixels = resized(_eight_bits(upright, levels, reading.gray))
    return pixels if reading.gray else np.moveaxis(pixels, -1, 0)


def header_size(opened: PILImage) -> tuple[int, int]:
    """(height, width) of the upright image, from its header alone."""
    w, h = opened.size
    # for a PNG without the tag in its header Pillow would decode all of it to look for one
    tagged = opened.format != "PNG" or "exif" in opened.info
    turned = tagged and opened.getexif().get(ORIENTATION) in TURNED
    return (w, h) if turned else (h, w)


@cache
def formats() -> tuple[str, ...]:
    """The formats that can be read here: AVIF as Pillow was built, HEIC with an extra."""
    from PIL import features

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a Pillow that does not know of AVIF says so
        avif = ("AVIF",) if features.check("avif") else ()
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return (*FORMATS, *avif)
    register_heif_opener()
    return (*FORMATS, *avif, "HEIF")


def suffixes() -> frozenset[str]:
    """The endings of the names of files that can be read here."""
    avif = AVIF_SUFFIXES if "AVIF" in formats() else frozenset()
    return SUFFIXES | avif | (HEIC_SUFFIXES if "HEIF" in formats() else frozenset())


@contextmanager
def decoding(source: ImageSource) -> Iterator[PILImage]:
    """The image, opened; what its decoder says within the block about damaged bytes is one line."""
    try:
        with source.open() as file:
            if not file.read(1):
                raise ValueError("the file is empty")  # Pillow would ask every decoder in turn
            file.seek(0)
            with planes.opened(file, formats()) as opened:
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
            f"{source.name} has more than {Image.MAX_IMAGE_PIXELS} pixels, like a file made to "
            "exhaust memory; reduce it first."
        )
    why = reason(error)
    if isinstance(error, Image.UnidentifiedImageError):
        why = "not an image, or cut off at the start"
    return InputError(
        f"cannot read the image {source.name}: {why}; repair or remove it, or have broken images "
        "skipped, without strict=True (--strict)."
    )


def _eight_bits(
    image: PILImage, levels: tuple[int, int] | None = None, gray: bool = True
) -> PILImage:
    """The image in mode L or RGB, over white; ``levels`` are those of 16 bits, which a plain
    convert would clip."""
    from PIL import Image

    if levels is not None and np.asarray(image).dtype.itemsize > 1:
        low, high = levels
        values = (np.asarray(image).astype(np.float32) - low) * np.float32(255 / (high - low))
        image = Image.fromarray(np.clip(np.round(values), 0, 255).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError(f"32-bit pixels (mode {image.mode}) {planes.NO_RANGE}")
    elif image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
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
    pair = isinstance(size, Sequence) and not isinstance(size, str) and len(size) == 2
    if not pair or not all(isinstance(s, Integral) for s in size):
        raise InputError(f"size is {size!r}; give (height, width) as two integers, as in (32, 32).")
    h, w = int(size[0]), int(size[1])
    if h < 1 or w < 1:
        raise InputError(f"size is {h}x{w}; height and width must be at least 1.")
    if h * w > MOST_PIXELS:
        raise InputError(f"size is {h}x{w}; an image has at most {MOST_PIXELS} pixels.")
    return h, w


def resize(X: Any, size: tuple[int, int] | None, name: str, resampling: Any = None) -> Any:
    """Resize (n, h, w) or (n, c, h, w) to ``size``, bicubic by default; uint8 stays uint8."""
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
        out[i] = np.asarray(picture.resize(size[::-1], resampling or Image.Resampling.BICUBIC))
    return out.reshape(*X.shape[:-2], *size)


def channels_first(X: Any, name: str) -> Any:
    """Images (n, h, w, 3) as (n, 3, h, w), and whatever else X is as it is.

    The last axis holds channels where it has 1, 3 or 4 entries and the second more than 4.
    """
    if X.ndim != 4 or X.shape[3] not in CHANNELS:
        return X
    _, first, middle, last = X.shape
    if first > max(CHANNELS) and middle > max(CHANNELS):
        if isinstance(X, streamed.Streamed):
            shape = (last, first, middle)
            return streamed.Derived(X, lambda rows: np.moveaxis(rows, -1, 1), shape, X.dtype)
        return X.transpose(0, 3, 1, 2) if isinstance(X, np.ndarray) else X.permute(0, 3, 1, 2)
    if first == last == 3 and middle > max(CHANNELS):
        raise InputError(
            f"{name} has samples of {first} x {middle} x {last}: it is not clear whether channels "
            "come first or last; give (n, channels, height, width) with width and height above 4."
        )
    return X
