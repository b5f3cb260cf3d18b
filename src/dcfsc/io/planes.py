"""Pages and channels of image files; TIFF files of more channels than Pillow reads.

What an instrument saves may have a page for each channel or depth, or many channels a page. Both
are counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.working_size import MOST_CHANNELS

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

PAGED = ("TIFF", "GIF", "WEBP")  # other formats keep previews and the like beside an image
SAMPLES_PER_PIXEL = 277
TIFF_BEGINS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
NO_RANGE = "have no known range; save 8 or 16 bits"
MANY = "dcfsc pages"  # in the info of an image: the pages that Pillow does not read


@contextmanager
def opened(file: IO[bytes], formats: tuple[str, ...]) -> Iterator[PILImage]:
    """The image in a file; where Pillow would not read all channels, the first of them.

    The others are then read by :func:`read`.
    """
    from PIL import Image, UnidentifiedImageError

    is_tiff, image = file.read(4) in TIFF_BEGINS, None
    file.seek(0)
    try:
        image = Image.open(file, formats=formats)
    except UnidentifiedImageError:
        if not is_tiff:
            raise
    if (
        image is not None
        and getattr(image, "tag_v2", {}).get(SAMPLES_PER_PIXEL, 1) <= MOST_CHANNELS
    ):
        with image:
            yield image
        return
    try:
        from tifffile import TiffFile
    except ImportError:
        raise InputError(
            f"{getattr(file, 'name', 'a TIFF file')} is a TIFF file that Pillow does not read in "
            "full; install what does: pip install 'dcfsc[tiff]'."
        ) from None
    file.seek(0)
    with TiffFile(file) as tiff:
        first = Image.fromarray(_page(tiff.pages, 0)[0])
        first.info[MANY] = tiff.pages
        yield first


def _page(pages: Sequence[object], number: int) -> np.ndarray:
    """A page as (channels, h, w), of 8 or 16 bits."""
    from PIL import Image

    page = pages[number]
    if page.size > MOST_CHANNELS * (Image.MAX_IMAGE_PIXELS or page.size):  # type: ignore[attr-defined]
        raise Image.DecompressionBombError
    pixels = page.asarray()  # type: ignore[attr-defined]
    if pixels.dtype not in (np.uint8, np.uint16) or pixels.ndim not in (2, 3):
        raise ValueError(f"pixels of type {pixels.dtype} {NO_RANGE}")
    if pixels.ndim == 2:
        return pixels[None]
    return np.moveaxis(pixels, -1, 0) if page.axes.endswith("S") else pixels  # type: ignore[attr-defined]


def count_pages(image: PILImage) -> int:
    if MANY in image.info:
        return len(image.info[MANY])
    return getattr(image, "n_frames", 1) if image.format in PAGED else 1


def count_channels(image: PILImage) -> int:
    """The channels of a page; colors of a palette are three."""
    if MANY in image.info:
        return len(_page(image.info[MANY], 0))
    return 3 if image.mode in ("P", "PA") else len(image.getbands())


def turn_to(image: PILImage, page: int) -> None:
    if page != image.tell() + 1:
        if page > count_pages(image):
            raise ValueError(f"it has no page {page}")
        if MANY not in image.info:
            image.seek(page - 1)


def is_deep_gray(image: PILImage) -> bool:
    return image.mode[:4] == "I;16" or (image.mode == "I" and image.format in ("PPM", "PNG"))


def read(image: PILImage, page: int, channels: Sequence[int]) -> Iterator[PILImage]:
    """The channels of a page, or with page 0 those of all, upright, in mode L or with 16 bits."""
    from PIL import Image, ImageOps

    per_page = count_channels(image)
    for channel in channels:
        number, band = divmod(channel - 1, per_page) if page == 0 else (page - 1, channel - 1)
        if band >= per_page or number >= count_pages(image):
            raise ValueError(f"it has no channel {channel}")
        if MANY in image.info:
            yield Image.fromarray(_page(image.info[MANY], number)[band])
            continue
        turn_to(image, number + 1)
        if image.mode in ("I", "F") and not is_deep_gray(image):
            raise ValueError(f"32-bit pixels (mode {image.mode}) {NO_RANGE}")
        upright = ImageOps.exif_transpose(image)
        if upright.mode in ("P", "PA"):
            upright = upright.convert("RGB")
        plane = upright if len(upright.getbands()) == 1 else upright.getchannel(band)
        plane.info.pop("transparency", None)
        yield plane
