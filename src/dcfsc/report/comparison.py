"""Two runs side by side, drawn with the parts of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcfsc.report.details import Details
from dcfsc.report.page import draw_page, sprites

MOST_FLOWS, EXAMPLES = 60, 8


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name and facts, and what is known of its quality.

    ``error`` (in percent, against the labels) and ``stability`` are None where they are unknown.
    """

    name: str
    facts: dict[str, str]
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
    samples: Sequence[int]  # the most confident first; none of small flows


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs on n samples, and the :func:`~.sections.confusion` of their clusters.

    ``better`` is 0 or 1, or None where neither run is clearly better.
    """

    sides: tuple[Side, Side]
    n: int
    ari: float
    nmi: float
    matched: float
    better: int | None
    verdict: str
    matrix: Mapping[str, Any]
    flows: Sequence[Flow]
    moved: int


def render_comparison(
    comparison: Comparison, details: Details | None, links: Sequence[str] | None = None
) -> str:
    """The comparison as a page; images are of the first run's ``details``, linked to ``links``."""
    sheet = None if details is None else sprites(details)
    shown = [] if details is None or sheet is None else details.shown.tolist()
    stored = {sample: at for at, sample in enumerate(shown)}
    return draw_page(
        "comparison.html",
        comparison=comparison,
        names=[side.name for side in comparison.sides],
        details=details,
        links=links,
        sheet=sheet,
        flows=[
            (flow, [stored[sample] for sample in flow.samples if sample in stored][:EXAMPLES])
            for flow in comparison.flows[:MOST_FLOWS]
        ],
    )
