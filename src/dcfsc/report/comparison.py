"""Two runs side by side, drawn with the parts of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dcfsc.report.details import Details
from dcfsc.report.page import draw_page, sprites
from dcfsc.report.sections import confusion

MOST_FLOWS = 60


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name and facts, and what is known of its quality.

    ``error`` (in percent, against the labels) and ``stability`` are None where they are unknown.
    """

    name: str
    facts: Mapping[str, str]
    error: float | None
    stability: float | None
    confidence: float


@dataclass(frozen=True)
class Flow:
    """Samples, a ``share`` of their cluster, that went from one cluster to another."""

    source: str
    target: str
    count: int
    share: float
    samples: Sequence[int]  # the most confident


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs on n samples; ``counts`` (rows, columns) has its columns matched to the rows.

    ``better`` is 0 or 1, or None where neither run is clearly better.
    """

    sides: tuple[Side, Side]
    n: int
    ari: float
    nmi: float
    matched: float
    better: int | None
    verdict: str
    rows: Sequence[str]
    columns: Sequence[str]
    counts: np.ndarray
    flows: Sequence[Flow]
    moved: int


def render_comparison(
    comparison: Comparison, details: Details | None, links: Sequence[str] | None = None
) -> str:
    """The comparison as a page; images are of the first run's ``details``, linked to ``links``."""
    names = [side.name for side in comparison.sides]
    sheet = None if details is None else sprites(details)
    place: dict[int, int] = {}
    if details is not None and sheet is not None:
        place = {sample: at for at, sample in enumerate(details.shown.tolist())}
    return draw_page(
        "comparison.html",
        comparison=comparison,
        names=names,
        details=details,
        links=links,
        sheet=sheet,
        matrix=confusion(
            comparison.counts,
            comparison.rows,
            comparison.columns,
            f"Samples of each cluster of {names[0]} (rows) in the clusters of {names[1]}",
        ),
        flows=[
            (flow, [place[sample] for sample in flow.samples if sample in place])
            for flow in comparison.flows[:MOST_FLOWS]
        ],
    )
