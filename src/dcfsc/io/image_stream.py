"""Image files as an array: pixels are decoded when they are asked for, and kept where they fit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dcfsc.io import images, streamed
from dcfsc.io.images import ImageSource, Reading
from dcfsc.io.streamed import Streamed

DIGESTED = 1 << 20  # bytes of a file that are held at a time


class StreamedImages(Streamed):
    """Images (n, h, w) or (n, 3, h, w) of one size, uint8, decoded by a few threads on demand.

    Where all of them take no more than ``STREAM_BYTES``, each is decoded once and kept.
    """

    def __init__(self, name: str, sources: Sequence[ImageSource], reading: Reading):
        super().__init__(name, (len(sources), *reading.sample_shape()), np.uint8)
        self.sources, self.reading = list(sources), reading
        self._decoded = np.zeros(len(self.sources), bool)
        self._pixels: np.ndarray | None = None
        if self.nbytes <= streamed.STREAM_BYTES:
            self._pixels = np.empty(self.shape, np.uint8)  # memory is taken as it is filled

    def read_as(self, reading: Reading) -> StreamedImages:
        """The same files, read in another way; itself where that is how they are read."""
        return self if reading == self.reading else StreamedImages(self.name, self.sources, reading)

    def take(self, rows: np.ndarray) -> StreamedImages:
        """Some of the images, unread."""
        chosen = [self.sources[int(i)] for i in rows]
        return StreamedImages(self.name, chosen, self.reading)

    def digests(self, start: int, stop: int) -> list[bytes]:
        """SHA-256 of the content of files start .. stop - 1."""

        def digest(source: ImageSource) -> bytes:
            result = hashlib.sha256()
            with source.open() as file:
                while block := file.read(DIGESTED):
                    result.update(block)
            return result.digest()

        with ThreadPoolExecutor(images.WORKERS) as pool:
            return list(pool.map(digest, self.sources[start:stop]))

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._rows(np.arange(start, stop))

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        if self._pixels is None:
            out = np.empty((len(indices), *self.shape[1:]), np.uint8)
            self._decode(indices, out, np.arange(len(indices)))
            return out
        missing = np.unique(indices[~self._decoded[indices]])
        self._decode(missing, self._pixels, missing)
        self._decoded[missing] = True
        return self._pixels[indices]

    def _decode(self, indices: np.ndarray, out: np.ndarray, places: np.ndarray) -> None:
        """Decode images into rows of ``out``."""
        sources = [self.sources[int(i)] for i in indices]
        decoded = images.each(lambda s: images.read_image(s, self.reading), sources, False)
        for place, image in zip(places, decoded, strict=True):
            out[place] = image


def stream_images(
    name: str, sources: Sequence[ImageSource], reading: Reading, skip_broken: bool
) -> tuple[StreamedImages, list[int]]:
    """Images as a streamed array, with the indices of those that are readable.

    Nothing is decoded, unless broken images are to be left out: what cannot be decoded is known
    only once it has been tried.
    """
    X = StreamedImages(name, sources, reading)
    kept = list(range(len(sources)))
    if skip_broken:
        readable = images.each(lambda s: images.read_image(s, reading).shape, sources, True)
        kept = [i for i, shape in enumerate(readable) if shape is not None]
        if not kept:
            raise images.none_readable(sources)
    return (X if len(kept) == len(sources) else X.take(np.array(kept))), kept
