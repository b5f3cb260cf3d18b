"""Image files as an array: pixels are decoded when they are asked for, and kept where they fit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from dcfsc.io import images, streamed
from dcfsc.io.images import ImageSource, Reading
from dcfsc.io.streamed import Streamed


class StreamedImages(Streamed):
    """Images (n, h, w) or (n, c, h, w) of one size, uint8, decoded by a few threads on demand.

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

    def readable(self) -> list[int]:
        """The indices of images that can be decoded, which is known only by trying."""
        tiny, indices = replace(self.reading, size=(1, 1)), []
        tried = self if self._pixels is not None else self.read_as(tiny)
        for i, image in enumerate(tried._decode(np.arange(len(self)), strict=False)):
            if image is not None:
                indices.append(i)
                if self._pixels is not None:
                    self._pixels[i], self._decoded[i] = image, True
        if not indices:
            raise images.none_readable(self.sources, self.reading)
        return indices

    def take(self, indices: Sequence[int] | np.ndarray) -> StreamedImages:
        part = StreamedImages(self.name, [self.sources[int(i)] for i in indices], self.reading)
        if self._pixels is not None:
            part._pixels, part._decoded = self._pixels[indices], self._decoded[indices]
        return part

    def in_memory(self) -> np.ndarray:
        if self._pixels is None:
            return self[:]
        return self._kept(self._pixels, np.arange(len(self)))

    def digests(self, start: int, stop: int) -> list[bytes]:
        def digest(source: ImageSource) -> bytes:
            with source.open() as file:
                return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]

        with ThreadPoolExecutor(images.WORKERS) as pool:
            return list(pool.map(digest, self.sources[start:stop]))

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        if self._pixels is None:
            out = np.empty((len(indices), *self.shape[1:]), np.uint8)
            for place, image in enumerate(self._decode(indices)):
                out[place] = image
            return out
        return self._kept(self._pixels, indices)[indices]

    def _kept(self, pixels: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The pixels that are kept, those of ``indices`` among them."""
        missing = np.unique(indices[~self._decoded[indices]])
        for i, image in zip(missing, self._decode(missing), strict=True):
            pixels[i] = image
        self._decoded[missing] = True
        return pixels

    def _decode(self, indices: np.ndarray, strict: bool = True) -> Iterator[np.ndarray]:
        sources = [self.sources[int(i)] for i in indices]
        return images.each(lambda s: images.read_image(s, self.reading), sources, strict)
