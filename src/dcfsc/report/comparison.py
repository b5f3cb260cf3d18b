"""The page that compares two runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.report import charts
from dcfsc.report.details import Details
from dcfsc.report.page import HERE, environment, sprites
from dcfsc.report.sections import HEAT, TABLE_LIMIT
from dcfsc.report.thumbnails import heat_map

MOST_FLOWS, EXAMPLES = 60, 8


@dataclass(frozen=True)
class Side:
    """One of the two runs: its folder, facts, stability (None where unknown) and confidence."""

    name: str
    facts: Sequence[tuple[str, str]]
    stability: float | None
    confidence: float
    edited: bool


@dataclass(frozen=True)
class Flow:
    """``count`` samples, the ``share`` of their cluster, went from one cluster to another."""

    source: str
    target: str
    count: int
    share: float
    samples: Sequence[int]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs on n samples; ``counts`` (rows, columns) has its columns matched to the rows."""

    sides: tuple[Side, Side]
    n: int
    ari: float
    nmi: float
    matched: float
    stability: str
    rows: Sequence[str]
    columns: Sequence[str]
    counts: np.ndarray
    flows: Sequence[Flow]
    moved: int


def write_comparison(
    path: Path, comparison: Comparison, details: Details | None, links: Sequence[str] | None = None
) -> None:
    """Write the page; pictures are of the first run's ``details``, with ``links`` to its files."""
    page = render_comparison(comparison, details, links)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")


def render_comparison(
    comparison: Comparison, details: Details | None, links: Sequence[str] | None = None
) -> str:
    counts = comparison.counts
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    title = (
        f"Samples of each cluster of {comparison.sides[0].name} in the clusters of "
        f"{comparison.sides[1].name}"
    )
    picture = charts.confusion_chart(
        heat_map(np.sqrt(shares), HEAT), comparison.rows, comparison.columns, title
    )
    return (
        environment()
        .get_template("comparison.html")
        .render(
            comparison=comparison,
            shares=shares,
            style=(HERE / "page.css").read_text(encoding="utf-8"),
            sheet=None if details is None else sprites(details),
            picture=picture,
            table=max(counts.shape) <= TABLE_LIMIT,
            flows=[_shown(flow, details, links) for flow in comparison.flows[:MOST_FLOWS]],
            more=len(comparison.flows) - MOST_FLOWS,
        )
    )


def _shown(flow: Flow, details: Details | None, links: Sequence[str] | None) -> dict[str, Any]:
    """A flow with those of its samples that have a picture, as places in the sheet and links."""
    examples: list[dict[str, Any]] = []
    if details is not None and details.has_images:
        place = {int(sample): at for at, sample in enumerate(details.shown)}
        for sample in [s for s in flow.samples if s in place][:EXAMPLES]:
            at = place[sample]
            link = links[at] if links else None
            named = len(details.files) > 0
            name = os.path.basename(str(details.files[at])) if named else f"sample {sample}"
            examples.append({"at": at, "link": link, "name": name})
    return {"flow": flow, "examples": examples, "rows": flow.samples[:EXAMPLES]}
