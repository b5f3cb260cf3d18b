"""Scales, bins and the places of names; ``charts.html`` draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .thumbnails import heat_map as heat_map

LABEL_HEIGHT, LONGEST_LABEL = 13.0, 14  # of names beside a picture, in pixels and letters
MOST_POINTS = 400  # of a line; more cannot be seen at this width
BINS = 36
FRAME = {"width": 460, "height": 280, "left": 58, "right": 446, "top": 24, "bottom": 232}
INNER = {"x": (62, 442), "y": (230, 28)}  # where axes begin and end in it
SIDE = 400.0  # of a square picture


@dataclass(frozen=True)
class Axis:
    """A scale from data to pixels, with its ticks; ``log`` for values that are all positive."""

    low: float
    high: float
    start: float
    stop: float
    label: str
    log: bool = False

    @classmethod
    def over(cls, values: ArrayLike, direction: str, label: str, log: bool = False) -> Axis:
        """The axis in the direction x or y that covers ``values`` with a small margin."""
        low, high = float(np.min(values)), float(np.max(values))
        if log:
            return cls(low / 1.1, high * 1.1, *INNER[direction], label, True)
        margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
        return cls(low - margin, high + margin, *INNER[direction], label)

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            last = math.floor(math.log10(self.high) + 1e-9)
            if last - first >= 1:
                return [10.0**e for e in range(first, last + 1, -(-(last - first + 1) // 6))]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(f for f in (1, 2, 5, 10) if (self.high - self.low) / (step * f) <= 5.5)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def axis_text(value: float) -> tuple[str, int | None]:
    """A number for an axis, with the exponent of ten apart where it is very large or small."""
    if not value or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}", None
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    factor = value / 10.0**exponent
    return ("10" if math.isclose(factor, 1.0, rel_tol=1e-9) else f"{factor:.3g}·10"), exponent


def points(xs: ArrayLike, ys: ArrayLike, log_y: bool = False) -> np.ndarray:
    """The line (2, p) to draw: where there is a value, and of a long line every so many."""
    line = np.array([xs, ys], np.float64)
    line = line[:, np.isfinite(line[1]) & (line[1] > 0 if log_y else True)]
    if line.shape[1] <= MOST_POINTS:
        return line
    return line[:, np.linspace(0, line.shape[1] - 1, MOST_POINTS).round().astype(int)]


def bins(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of the finite values lie in each of equal bins, (b,), and their edges (b + 1,)."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return np.zeros(0, np.int64), np.zeros(0)
    low, high = float(finite.min()), float(finite.max())
    if high - low < 1e-9 * max(abs(high), 1e-300):
        # One value: a bin around it rather than the rounding of its last digits.
        half = max(abs(high), 1e-6) * 0.1
        low, high = low - half, high + half
    return np.histogram(finite, bins=BINS, range=(low, high))


def middles(margin: float, count: int) -> np.ndarray:
    """The middles (count,) of equal parts of a square picture's side."""
    return margin + SIDE * (np.arange(count) + 0.5) / max(count, 1)


def spaced(
    names: Sequence[str], places: Sequence[float], apart: float = LABEL_HEIGHT
) -> list[tuple[str, float]]:
    """Those of the names, shortened, and their ascending places that do not touch."""
    chosen: list[tuple[str, float]] = []
    for name, place in zip(names, places, strict=True):
        if not chosen or place - chosen[-1][1] >= apart:
            short = name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"
            chosen.append((short, float(place)))
    return chosen
