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
CHANGED = 0.1  # the share of the samples in other clusters from which on a rival counts


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
    agree = f"the partitions of random subsamples agree to {stability:.2f}."
    words = (
        f"{level.words}: {agree} Of {level.draws} such runs on labeled data, {level.high} differed "
        f"from the labels in more than {HIGH_ERROR:g}% of the samples."
    )
    rival = record.get("rival") or {"changed": 0.0}
    if apart := rival["changed"] >= CHANGED:
        stable = level in CALIBRATION[:2]
        words = f"there are two answers: {agree}" if stable else words
        words = f"{words} {rival_in_words(rival)}"
    return {
        "stability": stability,
        "trusted": level is CALIBRATION[0] and not apart,
        "words": words,
    }


def rival_in_words(rival: Mapping[str, Any]) -> str:
    """What a partition that was nearly as stable would change."""
    words = (
        f"Those of the representation {rival['representation']} agree nearly as well, and put "
        f"{rival['changed']:.0%} of the samples into other clusters"
    )
    joined = " and ".join("+".join(map(str, clusters)) for clusters in rival["joins"])
    split = ", ".join(map(str, rival["splits"]))
    changes = [f"{verb} {names}" for verb, names in (("join", joined), ("split", split)) if names]
    return f"{words}: they {' and '.join(changes)}." if changes else f"{words}."
