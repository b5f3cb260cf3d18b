"""What a run says about its own clusters, and the counts that this rests on."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from dcfsc.runs.verdict import CALIBRATION, HIGH_ERROR, verdict

VARIANTS = Path(__file__).parents[2] / "results" / "benchmarks" / "variants.json"


def test_the_counts_are_those_of_the_benchmark():
    figures = json.loads(VARIANTS.read_text())["figures"]
    counts = {level.words: [0, 0] for level in CALIBRATION}
    for draws in (draws for name, draws in figures.items() if name != "summary"):
        for draw in (draw for number, draw in draws.items() if number.isdigit()):
            told = verdict({"stability": draw["stability"], "representation": draw["chosen"]})
            measured = draw["stability"] != {"given": 1.0}  # few samples are not compared
            if told is not None and measured:
                words = next(w for w in counts if told["words"].startswith(w + ":"))
                counts[words][0] += 1
                counts[words][1] += mean(draw["errors"][draw["chosen"]]) > HIGH_ERROR
    assert counts == {level.words: [level.draws, level.high] for level in CALIBRATION}


@pytest.mark.parametrize(
    ("stability", "words"),
    [
        (1.0, "these clusters are stable"),
        (0.95, "these clusters are stable"),
        (0.9499, "these clusters are fairly stable"),
        (0.8, "these clusters are doubtful"),
        (0.79, "do not trust these clusters"),
        (-0.2, "do not trust these clusters"),
    ],
)
def test_the_verdict_follows_the_stability_of_what_was_chosen(stability, words):
    record = {"stability": {"given": stability, "metric-twice": 0.5}, "representation": "given"}
    told = verdict(record)
    assert told["words"].startswith(words)
    assert f"agree to {stability:.2f}" in told["words"]
    assert "differed from the labels in more than 20% of the samples" in told["words"]
    assert told["trusted"] == (stability >= 0.95)


@pytest.mark.parametrize(
    "record", [{}, {"stability": {}, "representation": "given"}, {"stability": None}]
)
def test_without_a_stability_there_is_no_verdict(record):
    assert verdict(record) is None
