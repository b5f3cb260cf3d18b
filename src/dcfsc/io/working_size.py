"""The size at which images are compared by their pixels, chosen without labels.

Images of at most ``MOST_VALUES`` values are taken as they are. Larger ones are reduced to at most
``WORKING_PIXELS`` pixels, which is 32 x 32 for a square, in color as in gray. That is the size of
the images on which the defaults were chosen. It bounds what a sample costs: 3,072 values, or
12 KiB in a model, whatever camera it came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dcfsc.errors import InputError

MOST_VALUES = 4096
WORKING_PIXELS = 1024
MOST_CHANNELS = 4  # more are no colors
FULL = (0, 65535)  # levels of 16-bit gray
ALIKE = 1.05  # aspect ratios that differ by less are one


def working_shape(sample_shape: Sequence[int], size: Any = "auto") -> tuple[int, ...]:
    """The shape at which images (h, w) or (c, h, w) are compared; that of other samples is kept.

    ``size`` is (height, width), None for images as they are, or "auto" for the rule above. Whoever
    reads, compares or reserves room for images asks this function.
    """
    shape = tuple(int(s) for s in sample_shape)
    if size is None:
        return shape
    if not isinstance(size, str):
        if len(shape) == 1:
            raise InputError(
                f"working_size={size!r} has no effect: the samples are vectors, not images."
            )
        return (*shape[:-2], *map(int, size))
    *channels, h, w = shape if len(shape) > 1 else (0, *shape)
    if len(shape) not in (2, 3) or math.prod(channels) > MOST_CHANNELS:
        return shape
    if math.prod(shape) <= MOST_VALUES or h * w <= WORKING_PIXELS:
        return shape
    return (*channels, *_reduced(h / w))


def working_size(sizes: Sequence[tuple[int, int]], channels: int) -> tuple[int, int] | None:
    """(height, width) for images of these sizes; None where all have one that is small enough.

    The aspect ratio is theirs if they have one in common, else that of a square.
    """
    if len(set(sizes)) == 1:
        h, w = sizes[0]
        reduced = working_shape((min(channels, MOST_CHANNELS), h, w))[1:]
        return None if reduced == (h, w) else (reduced[0], reduced[1])
    ratios = [h / w for h, w in sizes]
    alike = max(ratios) <= ALIKE * min(ratios)
    return _reduced(math.sqrt(max(ratios) * min(ratios)) if alike else 1.0)


def _reduced(ratio: float) -> tuple[int, int]:
    """Height and width of ``WORKING_PIXELS`` pixels or a few less, height / width being ratio."""
    height = math.sqrt(WORKING_PIXELS * ratio) + 1e-9
    return max(1, int(height)), max(1, int(WORKING_PIXELS / height + 1e-9))


@dataclass(frozen=True)
class Reading:
    """How image files become samples of one shape.

    ``size`` is (height, width). An image of another aspect ratio is stretched, or with
    ``keep_aspect`` loses its margins. ``crop`` is the share of the rest that is taken, from the
    center, or more of it so that at least ``size`` pixels are. ``levels`` are the values of 16-bit
    gray that become 0 and 255, for all or for each of the channels. ``page`` is the page of a file
    that has several. ``channels`` are taken of it, in place of gray or color; with page 0 those of
    all pages, one after the other. Pages and channels are counted from 1.
    """

    size: tuple[int, int]
    gray: bool = True
    crop: float = 1.0
    keep_aspect: bool = False
    levels: tuple[int, ...] = FULL
    page: int = 1
    channels: tuple[int, ...] | None = None

    def box(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of what is taken of an image."""
        crop = min(1.0, max(self.crop, self.size[0] / height, self.size[1] / width))
        w, h = crop * width, crop * height
        if self.keep_aspect:
            scale = crop * min(height / self.size[0], width / self.size[1])
            w, h = scale * self.size[1], scale * self.size[0]
        left, top = (width - w) / 2, (height - h) / 2
        return left, top, left + w, top + h

    def ranges(self) -> list[tuple[int, int]]:
        """The lowest and the highest level of each channel."""
        pairs = list(zip(self.levels[::2], self.levels[1::2], strict=True))
        return pairs * len(self.channels) if self.channels and len(pairs) == 1 else pairs

    def sample_shape(self) -> tuple[int, ...]:
        if self.channels is not None:
            return (len(self.channels), *self.size)
        return self.size if self.gray else (3, *self.size)
