"""Charts as scales, points and names; ``charts.html`` draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .drawing import Blocks, Spectrum
from .thumbnails import heat_map

LABEL_HEIGHT, LONGEST_LABEL = 13.0, 14  # of names beside a picture, in pixels and letters
MOST_POINTS = 400  # of a line; more cannot be seen at this width
BINS = 36
FRAME = {"width": 460, "height": 280, "left": 58, "right": 446, "top": 24, "bottom": 232}
X, Y = (62, 442), (230, 28)  # where the axes begin and end in it
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
    def over(
        cls, values: ArrayLike, start: float, stop: float, label: str, *, log: bool = False
    ) -> Axis:
        """The axis that covers ``values`` with a small margin."""
        low, high = float(np.min(values)), float(np.max(values))
        if log:
            return cls(low / 1.1, high * 1.1, start, stop, label, True)
        margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
        return cls(low - margin, high + margin, start, stop, label)

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


@dataclass(frozen=True)
class Chart:
    """What stands in a frame of two axes, in data units: a line, bars, dots.

    ``mark`` is a point (x, y, text) to stand out, ``rule`` a line (x, text) from top to bottom, and
    ``band`` is shaded from one x to another. Bars are (left, right, height), dots (x, y, inside).
    """

    title: str
    x: Axis
    y: Axis
    line: Sequence[Sequence[float]] = ()
    bars: Sequence[tuple[float, float, int]] = ()
    dots: Sequence[tuple[int, float, bool]] = ()
    mark: tuple[float, float, str] | None = None
    rule: tuple[float, str] | None = None
    band: tuple[float, float] | None = None

    frame: ClassVar[dict[str, int]] = FRAME


@dataclass(frozen=True)
class Heat:
    """A square picture (a data URI) with names (place, text) beside its rows and columns.

    ``rules`` are places of lines across it; pointing at one of the ``bands`` (place, height, text)
    shows its text.
    """

    title: str
    picture: str
    margin: float
    rows: Sequence[tuple[float, str]]
    columns: Sequence[tuple[float, str]]
    rules: Sequence[float] = ()
    bands: Sequence[tuple[float, float, str]] = ()

    side: ClassVar[float] = SIDE


def line_chart(
    xs: ArrayLike,
    ys: ArrayLike,
    x_label: str,
    y_label: str,
    title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    marked: int | None = None,
) -> Chart | None:
    """A line through (xs, ys); the point at the position ``marked`` stands out."""
    points = np.column_stack([xs, ys]).astype(np.float64)
    mark = None
    if marked is not None and np.isfinite(points[marked, 1]):
        mark = (*points[marked].tolist(), f"{points[marked, 1]:.3g}")
    points = points[np.isfinite(points[:, 1]) & (points[:, 1] > 0 if log_y else True)]
    if not len(points):
        return None
    if len(points) > MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int)]
    x = Axis.over(points[:, 0], *X, x_label, log=log_x)
    y = Axis.over(points[:, 1], *Y, y_label, log=log_y)
    return Chart(title, x, y, line=points.tolist(), mark=mark)


def histogram(values: np.ndarray, x_label: str, title: str) -> Chart | None:
    """The number of samples with a finite value in each of equal bins."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    if high - low < 1e-9 * max(abs(high), 1e-300):
        # One value: a bin around it rather than the rounding of its last digits.
        half = max(abs(high), 1e-6) * 0.1
        low, high = low - half, high + half
    counts, edges = np.histogram(finite, bins=BINS, range=(low, high))
    y = Axis(0.0, counts.max() * 1.04, FRAME["bottom"], Y[1], "samples")
    bars = list(zip(edges[:-1], edges[1:], counts, strict=True))
    return Chart(title, Axis.over(edges, *X, x_label), y, bars=bars)


def spectrum_chart(spectrum: Spectrum, title: str) -> Chart:
    """Eigenvalues by rank, the gap after the suggested K shaded, the K asked for ruled."""
    values, asked, suggested = spectrum.values.tolist(), spectrum.asked or 0, spectrum.suggested
    return Chart(
        title,
        Axis(0.3, len(values) + 0.7, *X, "rank"),
        Axis.over([*values, 1.0], *Y, "eigenvalue"),
        dots=[(rank, value, rank <= asked) for rank, value in enumerate(values, 1)],
        rule=(asked + 0.5, f"K = {asked}") if asked <= len(values) else None,
        band=(suggested, suggested + 1) if suggested and suggested < len(values) else None,
    )


def affinity_chart(blocks: Blocks, title: str) -> Heat:
    """The ordered affinity, with rules between the clusters and their numbers."""
    margin = 26.0
    scale = SIDE / max(int(blocks.edges[-1]), 1)
    centers = margin + scale * (blocks.edges[:-1] + blocks.edges[1:]) / 2
    names = [(float(centers[k]), str(k)) for k in np.flatnonzero(blocks.sizes)]
    return Heat(
        title,
        heat_map(np.sqrt(np.clip(blocks.means / max(blocks.top, 1e-300), 0.0, 1.0))),
        margin,
        rows=spaced(names, LABEL_HEIGHT),
        columns=spaced(names, 8.0 + 8.0 * len(str(len(blocks.sizes)))),
        rules=(margin + scale * blocks.rules).tolist(),
    )


def confusion_chart(
    shares: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str
) -> Heat:
    """Shares (rows, columns) of a confusion matrix; as many names as can be read."""
    names, heads = ([_short(name) for name in group] for group in (rows, columns))
    margin = 12.0 + 7.0 * max(map(len, (*names, *heads)), default=1)
    high, wide = (SIDE / max(len(group), 1) for group in (rows, columns))
    down = [(margin + (i + 0.5) * high, name) for i, name in enumerate(names)]
    across = [(margin + (i + 0.5) * wide, name) for i, name in enumerate(heads)]
    return Heat(
        title,
        heat_map(np.sqrt(shares)),
        margin,
        rows=spaced(down, LABEL_HEIGHT),
        columns=spaced(across, LABEL_HEIGHT),
        bands=[(margin + i * high, high, name) for i, name in enumerate(rows)],
    )


def spaced(names: Sequence[tuple[float, str]], apart: float) -> list[tuple[float, str]]:
    """Those of the names, in ascending order of their places, that do not touch."""
    chosen: list[tuple[float, str]] = []
    for place, name in names:
        if not chosen or place - chosen[-1][0] >= apart:
            chosen.append((place, name))
    return chosen


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"
