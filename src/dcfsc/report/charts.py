"""Charts as SVG text: lines, points and histograms that take their colors from the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

WIDTH, HEIGHT = 460, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 24, 48
MOST_RULES = 24  # between clusters; more would hide the picture
LABEL_HEIGHT, LONGEST_LABEL = 13.0, 14  # of names beside a picture, in pixels and letters
MOST_POINTS = 400  # of a line; more cannot be seen at this width


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
        """The axis that covers ``values`` with a little air."""
        found = np.asarray(values, np.float64)
        low, high = float(found.min()), float(found.max())
        if log:
            return cls(low / 1.1, high * 1.1, start, stop, label, True)
        air = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
        return cls(low - air, high + air, start, stop, label)

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


def tick_text(value: float) -> str:
    """A number for an axis; powers of ten beyond the everyday with an exponent."""
    if value and not 1e-3 <= abs(value) < 1e5:
        exponent = math.floor(math.log10(abs(value)) + 1e-9)
        factor = value / 10.0**exponent
        front = "" if math.isclose(factor, 1.0, rel_tol=1e-9) else f"{factor:.3g}·"
        return f'{front}10<tspan dy="-5" font-size="10">{exponent}</tspan>'
    return f"{value:,.6g}"


def frame(x: Axis, y: Axis, body: str, title: str) -> str:
    """The chart around its body: grid, ticks, axis labels and a name for screen readers."""
    base, middle = HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2
    grid = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        + _text("tick", LEFT - 8, f"{y(v) + 4:.1f}", tick_text(v), "end")
        for v in y.ticks()
    )
    ticks = "".join(
        _text("tick", f"{x(v):.1f}", base + 18, tick_text(v), "middle") for v in x.ticks()
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{grid}{ticks}'
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
        + _text("label", middle, HEIGHT - 8, escape(x.label), "middle")
        + _text("label", LEFT - 50, 13, escape(y.label))
        + f"{body}</svg>"
    )


def _text(kind: str, x: Any, y: Any, content: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{content}</text>'


def line_chart(
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
    mark: tuple[float, float, str] | None = None,
) -> str:
    """A line through (xs, ys); ``mark`` is a point (x, y, text) to stand out."""
    x_values, y_values = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    usable = np.isfinite(y_values) & (y_values > 0 if log_y else True)
    x_values, y_values = x_values[usable], y_values[usable]
    if not len(x_values):
        return ""
    if len(x_values) > MOST_POINTS:
        kept = np.unique(np.linspace(0, len(x_values) - 1, MOST_POINTS).round().astype(int))
        x_values, y_values = x_values[kept], y_values[kept]
    x = Axis.over(x_values, LEFT + 4, WIDTH - RIGHT - 4, x_label, log=log_x)
    y = Axis.over(y_values, HEIGHT - BOTTOM - 2, TOP + 4, y_label, log=log_y)
    points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(x_values, y_values, strict=True))
    body = f'<polyline class="line" points="{points}"/>'
    if mark is not None and np.isfinite(mark[1]):
        body += _mark(x, y, *mark)
    return frame(x, y, body, title)


def _mark(x: Axis, y: Axis, at: float, height: float, text: str) -> str:
    px, py = x(at), y(height)
    right = px < (LEFT + WIDTH) / 2
    above = py > TOP + 34
    return (
        f'<line class="rule" x1="{px:.1f}" x2="{px:.1f}" y1="{py:.1f}" y2="{HEIGHT - BOTTOM}"/>'
        f'<circle class="mark" cx="{px:.1f}" cy="{py:.1f}" r="5"/>'
        + _text(
            "note",
            f"{px + (10 if right else -10):.1f}",
            f"{py + (-9 if above else 20):.1f}",
            escape(text),
            "start" if right else "end",
        )
    )


def histogram(values: np.ndarray, *, x_label: str, y_label: str, title: str, bins: int = 36) -> str:
    """Counts of the finite values in equal bins."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return ""
    low, high = float(finite.min()), float(finite.max())
    if high - low < 1e-9 * max(abs(high), 1e-300):
        # One value: a bin around it rather than the rounding of its last digits.
        half = max(abs(high), 1e-6) * 0.1
        low, high = low - half, high + half
    counts, edges = np.histogram(finite, bins=bins, range=(low, high))
    x = Axis.over(edges, LEFT + 4, WIDTH - RIGHT - 4, x_label)
    y = Axis(0.0, counts.max() * 1.04, HEIGHT - BOTTOM, TOP + 4, y_label)
    bars = []
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            text = f"{count:,} samples from {left:.4g} to {right:.4g}"
            bars.append(
                f'<rect class="bar" x="{x(left) + 0.5:.1f}" y="{y(count):.1f}" '
                f'width="{x(right) - x(left) - 1:.1f}" height="{HEIGHT - BOTTOM - y(count):.1f}">'
                f"<title>{text}</title></rect>"
            )
    return frame(x, y, "".join(bars), title)


def spectrum_chart(values: np.ndarray, asked: int, suggested: int | None, title: str) -> str:
    """Eigenvalues by rank, the gap after the suggested K shaded, the K asked for ruled."""
    x = Axis(0.3, len(values) + 0.7, LEFT + 4, WIDTH - RIGHT - 4, "rank")
    y = Axis.over([*values, 1.0], HEIGHT - BOTTOM - 2, TOP + 4, "eigenvalue")
    body = ""
    if suggested is not None:
        left, right = x(suggested), x(suggested + 1)
        body += f'<rect class="band" x="{left:.1f}" width="{right - left:.1f}" '
        body += f'y="{TOP}" height="{HEIGHT - BOTTOM - TOP}"/>'
    if asked <= len(values):
        at = x(asked + 0.5)
        end = at > 0.7 * WIDTH
        place, anchor = (at - 6, "end") if end else (at + 6, "start")
        body += f'<line class="rule" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" '
        body += f'y2="{HEIGHT - BOTTOM}"/>'
        body += _text("note", f"{place:.1f}", HEIGHT - BOTTOM - 8, f"K = {asked}", anchor)
    for rank, value in enumerate(values, 1):
        kind = "dot in" if rank <= asked else "dot"
        body += f'<circle class="{kind}" cx="{x(rank):.1f}" cy="{y(value):.1f}" r="3.6">'
        body += f"<title>{rank}: {value:.5f}</title></circle>"
    return frame(x, y, body, title)


def affinity_chart(picture: str, sizes: Sequence[int], title: str) -> str:
    """The picture (a data URI) of the ordered affinity, with rules between the clusters."""
    total, side, margin = sum(sizes), 400.0, 26.0
    edges = np.concatenate([[0], np.cumsum(sizes)]) * side / max(total, 1) + margin
    body = f'<image href="{picture}" x="{margin}" y="{margin}" width="{side}" height="{side}" '
    body += 'preserveAspectRatio="none" class="heat"/>'
    for edge in edges if len(sizes) <= MOST_RULES else edges[[0, -1]]:
        body += f'<path class="rule" d="M{margin} {edge:.1f}h{side}M{edge:.1f} {margin}v{side}"/>'
    there = [k for k, size in enumerate(sizes) if size]
    centers = [(edges[k] + edges[k + 1]) / 2 for k in there]
    for i in spaced(centers, LABEL_HEIGHT):
        body += _text("tick", margin - 6, f"{centers[i] + 4:.1f}", str(there[i]), "end")
    for i in spaced(centers, 8.0 + 8.0 * len(str(len(sizes)))):
        body += _text("tick", f"{centers[i]:.1f}", margin - 7, str(there[i]), "middle")
    extent = side + margin + 4
    return (
        f'<svg class="chart square" viewBox="0 0 {extent} {extent}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def spaced(places: Sequence[float], apart: float) -> list[int]:
    """Which of the places, in ascending order, to label so that no two labels touch."""
    found: list[int] = []
    for i, place in enumerate(places):
        if not found or place - places[found[-1]] >= apart:
            found.append(i)
    return found


def confusion_chart(picture: str, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """The picture (a data URI) of a confusion matrix, with the names of rows and columns.

    Names stand as close as they can be read; the others are told by pointing at their row.
    """
    longest = max((len(_short(name)) for name in (*rows, *columns)), default=1)
    side, margin = 400.0, 12.0 + 7.0 * longest
    high, wide = side / max(len(rows), 1), side / max(len(columns), 1)
    body = f'<image href="{picture}" x="{margin}" y="{margin}" width="{side}" height="{side}" '
    body += 'preserveAspectRatio="none" class="heat"/>'
    body += f'<rect class="frame" x="{margin}" y="{margin}" width="{side}" height="{side}"/>'
    down = [margin + (i + 0.5) * high for i in range(len(rows))]
    across = [margin + (i + 0.5) * wide for i in range(len(columns))]
    for i in spaced(down, LABEL_HEIGHT):
        body += _text("tick", margin - 6, f"{down[i] + 4:.1f}", escape(_short(rows[i])), "end")
    for i in spaced(across, LABEL_HEIGHT):
        turned = f'transform="rotate(-90 {across[i] + 4:.1f} {margin - 6})"'
        body += f'<text class="tick" x="{across[i] + 4:.1f}" y="{margin - 6}" {turned}>'
        body += f"{escape(_short(columns[i]))}</text>"
    for i, name in enumerate(rows):
        body += f'<rect class="row" x="{margin}" y="{margin + i * high:.1f}" width="{side}" '
        body += f'height="{high:.2f}"><title>{escape(name)}</title></rect>'
    extent = side + margin + 4
    return (
        f'<svg class="chart square" viewBox="0 0 {extent} {extent}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"
