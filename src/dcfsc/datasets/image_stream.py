"""Folders of images that do not fit in memory: sizes from the headers, pixels when asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dcfsc.datasets import images
from dcfsc.datasets.images import ImageSource
from dcfsc.datasets.streamed import Streamed
from dcfsc.errors import InputError

WORKERS = min(8, os.cpu_count() or 1)
TOGETHER = 4096  # images handed to the threads at a time
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)


class StreamedImages(Streamed):
    """Images (n, h, w) or (n, 3, h, w) of one size, uint8, decoded by a few threads on demand."""

    def __init__(
        self,
        name: str,
        sources: Sequence[ImageSource],
        shape: tuple[int, int],
        size: tuple[int, int] | None,
        gray: bool,
    ):
        super().__init__(name, (len(sources), *(() if gray else (3,)), *shape), np.uint8)
        self._sources, self._size, self._gray = list(sources), size, gray

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._rows(np.arange(start, stop))

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        out = np.empty((len(indices), *self.shape[1:]), np.uint8)

        def decode(place: int) -> None:
            source = self._sources[indices[place]]
            image = images.read_image(source, self._size, self._gray)
            if image.shape != out.shape[1:]:
                raise images.sizes_differ(
                    self._sources[0].name, self.shape, source.name, image.shape
                )
            out[place] = image

        with images.bombs_are_errors(), ThreadPoolExecutor(WORKERS) as pool:
            for start in range(0, len(indices), TOGETHER):
                stop = min(start + TOGETHER, len(indices))
                for _ in pool.map(decode, range(start, stop)):
                    pass
        return out


def stream_images(
    name: str,
    sources: Sequence[ImageSource],
    *,
    size: tuple[int, int] | None,
    gray: bool,
    skip_broken: bool,
) -> tuple[StreamedImages, list[int]]:
    """Images as a streamed array, with the indices of those that are readable.

    Only the headers are read, unless broken images are to be left out: what cannot be decoded is
    known only once it has been tried.
    """

    def look(source: ImageSource) -> tuple[int, int] | None:
        try:
            if skip_broken:
                h, w = images.read_image(source, size, gray).shape[-2:]
                return h, w
            return size or header_size(source)
        except InputError:
            if not skip_broken:
                raise
            return None

    shape: tuple[int, int] | None = None
    kept: list[int] = []
    with images.bombs_are_errors(), ThreadPoolExecutor(WORKERS) as pool:
        for start in range(0, len(sources), TOGETHER):
            found = pool.map(look, sources[start : start + TOGETHER])
            for i, one in enumerate(found, start):
                if one is None:
                    continue
                if shape is not None and one != shape:
                    raise images.sizes_differ(sources[kept[0]].name, shape, sources[i].name, one)
                shape = one
                kept.append(i)
    if shape is None:
        raise InputError(f"none of the {len(sources)} images can be read ({sources[0].name}, ...).")
    return StreamedImages(name, [sources[i] for i in kept], shape, size, gray), kept


def header_size(source: ImageSource) -> tuple[int, int]:
    """(height, width) of the upright image, from its header alone."""
    with images.decoding(source) as opened:
        w, h = opened.size
        # for a PNG without the tag in its header Pillow would decode all of it to look for one
        tagged = opened.format != "PNG" or "exif" in opened.info
        turned = tagged and opened.getexif().get(ORIENTATION) in TURNED
    return (w, h) if turned else (h, w)


def bytes_of(
    sources: Sequence[ImageSource], size: tuple[int, int] | None, gray: bool, skip_broken: bool
) -> int:
    """What all images take as one array, going by the first whose header can be read."""
    for source in sources:
        try:
            h, w = size or header_size(source)
        except InputError:
            if not skip_broken:
                raise
            continue
        return len(sources) * h * w * (1 if gray else 3)
    return 0
