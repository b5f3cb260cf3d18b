"""The paper's figures, drawn from the saved cells alone, as PNG and SVG.

Figures are made through matplotlib's objects, never through pyplot, so nobody's global state (back
end, current figure) is touched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import paper
from .methods import METHODS
from .tables import STEP_TITLES, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[[Any, list[Row]], None]
OURS, PAPER, REFERENCE, RED = "#2f6f9f", "#1a1a1a", "#b9b9b9", "#c62828"


def write(title: str, draw: Draw, rows: list[Row], folder: Path) -> None:
    from matplotlib import rc_context

    figure = new_figure(8.0, 4.8)
    axes = figure.add_subplot()
    draw(axes, rows)
    axes.set_title(title)
    # Without a date and with names that are not random, the same cells give the same picture.
    with rc_context({"svg.hashsalt": "dcfsc"}):
        for kind, nothing in (("png", "Software"), ("svg", "Date")):
            to = folder / f"figure.{kind}"
            figure.savefig(to, format=kind, dpi=150, metadata={nothing: None})


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_bars(axes: Axes, rows: list[Row]) -> None:
    """One bar a method, in descending order of error; the paper's number as a line where it is."""
    rows = sorted(rows, key=lambda r: -r["error_mean"])
    places = range(len(rows))
    axes.bar(
        places,
        [r["error_mean"] for r in rows],
        yerr=[r["error_std"] or 0.0 for r in rows],
        color=[REFERENCE if _is_reference(r) else OURS for r in rows],
        capsize=3,
    )
    printed = [(x, r["paper_mean"]) for x, r in zip(places, rows, strict=True) if r["paper_mean"]]
    for number, (x, value) in enumerate(printed):
        label = "paper" if number == 0 else ""
        axes.hlines(value, x - 0.45, x + 0.45, color=PAPER, linestyle="--", label=label)
    height = max(r["error_mean"] for r in rows)
    for x, row in zip(places, rows, strict=True):
        top = row["error_mean"] + (row["error_std"] or 0.0)
        line = row["paper_mean"] or 0.0
        if top < line < top + 0.1 * height:  # the figure would be struck through
            top = line
        text = f"{row['error_mean']:.1f}"
        axes.annotate(text, (x, top), (0, 3), textcoords="offset points", ha="center")
    labels = [textwrap.fill(r["title"], 14) for r in rows]
    axes.set_xticks(list(places), labels, rotation=0 if len(rows) < 7 else 90)
    axes.set_ylabel("clustering error (%)")
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    if printed:
        axes.legend(frameon=False)


def draw_error_by_clusters(axes: Axes, rows: list[Row]) -> None:
    """Mean error over the windows against the number of people; the paper's deep ones dashed."""
    present = {r["method"] for r in rows}
    for number, method in enumerate(m for m in METHODS if m in present):
        line = sorted((r for r in rows if r["method"] == method), key=lambda r: r["K"])
        reference = _is_reference(line[0])
        # The references come last and share a color; their line style tells them apart.
        color = REFERENCE if reference else f"C{number % 10}"
        _line(
            axes,
            line,
            "K",
            color=color,
            marker={"raw": "s", "start": "^"}.get(method, "o"),
            linestyle=":" if reference else "-",
            markersize=4,
            capsize=2,
            label=line[0]["title"],
        )
        if method in ("dsc", "dcfsc"):
            known = sorted(paper.EYALEB[method].items())
            axes.plot(
                [K for K, _ in known],
                [p.mean for _, p in known],
                color=color,
                linestyle="--",
                label=f"{line[0]['title']}, paper",
            )
    axes.set_xticks(sorted({r["K"] for r in rows}))
    axes.set_xlabel("number of people K")
    axes.set_ylabel("clustering error (%), mean over windows")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_lambda_curve(axes: Axes, rows: list[Row]) -> None:
    """Error of DCFSC against lam; DSC as a red line, as in the paper."""
    curve = sorted((r for r in rows if r["lam"] is not None), key=lambda r: r["lam"])
    if curve:
        _line(axes, curve, "lam", color=OURS, marker="o", capsize=3, label="DCFSC")
        axes.set_xscale("log")
    for row in rows:
        if row["method"] == "dsc":
            axes.axhline(row["error_mean"], color=RED, label="DSC")
        elif _is_reference(row):
            axes.axhline(row["error_mean"], color=REFERENCE, linestyle=":", label=row["title"])
    axes.set_xlabel("λ")
    axes.set_ylabel("clustering error (%)")
    axes.legend(frameon=False)


def draw_memory(axes: Axes, rows: list[Row]) -> None:
    datasets = list(dict.fromkeys(r["dataset"] for r in rows))
    methods = [m for m in STEP_TITLES if any(r["method"] == m for r in rows)]
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
        bars = [r for r in rows if r["method"] == method]
        places = [datasets.index(r["dataset"]) + (number + 0.5) * width - 0.4 for r in bars]
        axes.bar(places, [r["step_mib"] for r in bars], width, label=STEP_TITLES[method])
        for x, row in zip(places, bars, strict=True):
            text = f"{row['seconds_a_step']:.2g} s"
            axes.annotate(
                text, (x, row["step_mib"]), (0, 3), textcoords="offset points", ha="center"
            )
    axes.set_yscale("log")
    axes.set_xticks(range(len(datasets)), datasets)
    axes.set_ylabel("peak memory of training steps (MiB)")
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize="small")


def _line(axes: Axes, rows: list[Row], x: str, **style: Any) -> None:
    spread = [r["error_std"] or 0.0 for r in rows]
    axes.errorbar([r[x] for r in rows], [r["error_mean"] for r in rows], yerr=spread, **style)


def _is_reference(row: Row) -> bool:
    return METHODS[row["method"]].reference
