"""Whether a run's clusters are to be trusted, judged by their stability.

The choice of a representation clusters random parts of the samples, and its stability says how well
these partitions agree. Clusters that depend on which samples are there say little about the data.
How much that means was counted on draws of the benchmark problems: `CALIBRATION` has the
number of draws at each level, and how many of them had an error above 20% against their labels
(``results/benchmarks/variants.json``; the levels were set with these counts in view).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

HIGH_ERROR = 20.0  # percent


class Level(NamedTuple):
    """From this stability on: the verdict, the draws seen there, and those of high error."""

    least: float
    words: str
    draws: int
    high: int


CALIBRATION = (
    Level(0.95, "these clusters are stable", 77, 10),
    Level(0.9, "these clusters are fairly stable; look at the doubtful samples", 23, 8),
    Level(0.8, "these clusters are doubtful", 27, 22),
    Level(-1.0, "do not trust these clusters", 43, 40),
)


def verdict(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What ``run.json`` says of a result, or None where no stability was measured."""
    stability = (record.get("stability") or {}).get(record.get("representation"))
    if stability is None:
        return None
    level = next(level for level in CALIBRATION if stability >= level.least)
    return {
        "stability": stability,
        "trusted": level is CALIBRATION[0],
        "words": (
            f"{level.words}: the partitions of random parts of the samples agree to "
            f"{stability:.2f}. Of {level.draws} test runs like this, {level.high} had more than "
            f"{HIGH_ERROR:g}% error."
        ),
    }
