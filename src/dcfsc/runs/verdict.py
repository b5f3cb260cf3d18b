"""Whether to trust a run's clusters, judged by their stability.

The choice of a representation clusters random subsamples, and its stability says how well these
partitions agree. `CALIBRATION` counts draws of the benchmark problems at each level of stability,
and how many of them had an error above 20% against their labels
(``results/benchmarks/variants.json``; the levels were set with these counts in view).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

HIGH_ERROR = 20.0  # percent


class Level(NamedTuple):
    """The verdict from a stability on, and how many draws there had a high error."""

    lowest: float
    words: str
    draws: int
    high: int


CALIBRATION = (
    Level(0.95, "these clusters are stable", 77, 10),
    Level(0.9, "these clusters are fairly stable; look at the least confident samples", 23, 8),
    Level(0.8, "these clusters are doubtful", 27, 22),
    Level(-1.0, "do not trust these clusters", 43, 40),
)


def verdict(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry ``verdict`` of ``run.json``; None if no stability was measured."""
    stability = (record.get("stability") or {}).get(record.get("representation"))
    if stability is None:
        return None
    level = next(level for level in CALIBRATION if stability >= level.lowest)
    return {
        "stability": stability,
        "trusted": level is CALIBRATION[0],
        "words": (
            f"{level.words}: the partitions of random subsamples agree to {stability:.2f}. Of "
            f"{level.draws} such runs on labeled data, {level.high} differed from the labels in "
            f"more than {HIGH_ERROR:g}% of the samples."
        ),
    }
