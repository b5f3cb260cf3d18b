"""Small pictures of samples, and the PNG images that carry them into the page."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.images import GRAY_MODES, ImageSource, Reading, decoding, read_image, resize

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

LARGEST_SIDE, SMALL_SIDE, SMALLEST_SIDE = 96, 32, 8
SIDE_STEP = 8  # whole blocks of JPEG
# Bytes of all thumbnails together, before they are compressed: the page stays below 10 MB.
BUDGET = 16_000_000
SMOOTH_FROM = 20  # stored pixels from which a picture is smoothed rather than shown in squares
QUALITY, LONGEST_JPEG = 80, 65_500
SHEET_COLUMNS = 64
CHUNK_BYTES = 1 << 26
PROBED = 8  # files looked at to know whether there is color
SQUARE = (3, LARGEST_SIDE, LARGEST_SIDE)
HEAT = (43, 118, 170)


def images_of(X: np.ndarray) -> bool:
    """Whether the samples X (n, h, w) or (n, c, h, w) can be looked at."""
    return X.ndim == 3 or (X.ndim == 4 and X.shape[1] in (1, 3, 4))


def affordable(X: np.ndarray, files: Sequence[str] = ()) -> int:
    """How many thumbnails the budget allows that are large enough to tell what they show."""
    shape = SQUARE if in_color_on_disk(X, files) else X.shape[1:]
    return BUDGET // (math.prod(_reduced(shape, SMALL_SIDE)) * _channels(shape))


def thumbnail_shape(shape: tuple[int, ...], count: int) -> tuple[int, int]:
    """Height and width at which ``count`` samples of the shape (h, w) or (c, h, w) fit."""
    for side in range(LARGEST_SIDE, SMALLEST_SIDE - 1, -SIDE_STEP):
        reduced = _reduced(shape, side)
        if count * math.prod(reduced) * _channels(shape) <= BUDGET:
            break
    return reduced


def _reduced(shape: tuple[int, ...], side: int) -> tuple[int, int]:
    height, width = shape[-2:]
    ratio = min(1.0, side / max(height, width))
    return max(1, round(height * ratio)), max(1, round(width * ratio))


def thumbnails(X: np.ndarray, samples: np.ndarray, files: Sequence[str] = ()) -> np.ndarray:
    """X[samples] as uint8, (T, h, w) in gray or (T, h, w, 3) in color; (0, 0, 0) for features.

    They are made from the samples' ``files`` where these are in color and X is not. Sides are at
    most ``LARGEST_SIDE`` and so small that all T fit the budget. Values that do not use the range
    of a byte are stretched from the smallest to the largest of the samples taken.
    """
    if in_color_on_disk(X, files):
        return file_thumbnails(files)
    if not images_of(X) or not len(samples):
        return np.zeros((0, 0, 0), np.uint8)
    shape = thumbnail_shape(X.shape[1:], len(samples))
    # Read a few at a time: the samples may be large, and on disk.
    rows = max(1, CHUNK_BYTES // max(1, math.prod(X.shape[1:]) * X.dtype.itemsize))
    chunks = (samples[start : start + rows] for start in range(0, len(samples), rows))
    pictures = _bytes(np.concatenate([_small(np.asarray(X[chunk]), shape) for chunk in chunks]))
    return pictures[:, 0] if pictures.shape[1] == 1 else pictures.transpose(0, 2, 3, 1)


def in_color_on_disk(X: np.ndarray, files: Sequence[str]) -> bool:
    """Whether the samples' files are in color, and the samples X (N, ...) are not."""
    return _channels(X.shape[1:]) == 1 and any(map(_in_color, files[:PROBED]))


def file_thumbnails(files: Sequence[str]) -> np.ndarray:
    """Squares from the middle of image files, (T, side, side, 3) bytes; gray where unreadable."""
    side, _ = thumbnail_shape(SQUARE, len(files))
    with ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(lambda file: _square(file, side), files)))


def _square(file: str, side: int) -> np.ndarray:
    square = Reading((side, side), gray=False, keep_aspect=True)
    try:
        return np.moveaxis(read_image(ImageSource.file(Path(file)), square), 0, -1)
    except InputError:
        return np.full((side, side, 3), 128, np.uint8)


def _in_color(file: str) -> bool:
    try:
        with decoding(ImageSource.file(Path(file))) as image:
            return image.mode[:1] != "I" and image.mode not in GRAY_MODES
    except InputError:
        return False


def _small(pictures: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Pictures (n, h, w) or (n, c, h, w) as (n, 1 or 3, *shape), bytes if they were bytes."""
    planes = pictures[:, None] if pictures.ndim == 3 else pictures
    planes = planes[:, :1] if planes.shape[1] == 1 else planes[:, :3]
    from PIL import Image

    return resize(planes, shape, "pictures", Image.Resampling.LANCZOS)


def _channels(shape: tuple[int, ...]) -> int:
    return 3 if len(shape) == 3 and shape[0] > 1 else 1


def _bytes(pictures: np.ndarray) -> np.ndarray:
    if pictures.dtype == np.uint8 and pictures.max() > 127:
        return pictures
    values = pictures.astype(np.float32)
    low, high = float(values.min()), float(values.max())
    return np.round((values - low) * (255.0 / max(high - low, 1e-30))).astype(np.uint8)


def sprite_sheet(pictures: np.ndarray) -> tuple[str, int, int]:
    """Pictures (T, h, w[, 3]) side by side in one image: (data URI, columns, rows).

    Pictures of few pixels are kept as they are, in a PNG; others in a JPEG if that is smaller.
    """
    from PIL import Image

    count, height, width, *color = pictures.shape
    columns = min(SHEET_COLUMNS, count)
    rows = math.ceil(count / columns)
    cells = np.zeros((rows * columns, height, width, *color), np.uint8)
    cells[:count] = pictures
    grid = cells.reshape(rows, columns, height, width, *color).swapaxes(1, 2)
    pixels = np.ascontiguousarray(grid.reshape(rows * height, columns * width, *color))
    sheet = Image.fromarray(pixels)
    uris = [_encoded(sheet, "PNG", compress_level=6)]
    if min(height, width) >= SMOOTH_FROM and max(sheet.size) <= LONGEST_JPEG:
        uris.append(_encoded(sheet, "JPEG", quality=QUALITY, subsampling=0))
    return min(uris, key=len), columns, rows


def heat_map(values: np.ndarray, rgb: tuple[int, int, int] = HEAT) -> str:
    """Values (b, b) in 0..1 as a PNG of one color whose opacity is their root, for any ground."""
    from PIL import Image

    levels = np.round(255.0 * np.sqrt(np.clip(values, 0.0, 1.0))).astype(np.uint8)
    indexed = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    indexed.putpalette(list(rgb) * 256)
    return _encoded(indexed, "PNG", transparency=bytes(range(256)))


def _encoded(picture: PILImage, kind: str, **options: Any) -> str:
    """A picture as a data URI."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return f"data:image/{kind.lower()};base64," + base64.b64encode(file.getvalue()).decode("ascii")
