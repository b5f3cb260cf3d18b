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


RIVAL = {"representation": "cosine", "changed": 0.14, "joins": [[0, 2]], "splits": [1]}


def test_clusters_that_a_rival_would_change_by_a_tenth_are_not_stable():
    record = {"stability": {"ranks": 0.97}, "representation": "ranks", "rival": RIVAL}
    told = verdict(record)
    assert told["words"] == (
        "there are two answers: the partitions of random subsamples agree to 0.97. Those of the "
        "representation cosine agree nearly as well, and put 14% of the samples into other "
        "clusters: they join 0+2 and split 1."
    )
    assert not told["trusted"]
    near = verdict(record | {"rival": RIVAL | {"changed": 0.09}})
    assert near == verdict(record | {"rival": None})
    assert near["trusted"]
    low = verdict(record | {"stability": {"ranks": 0.85}, "rival": RIVAL | {"joins": []}})
    assert low["words"].startswith("these clusters are doubtful")
    assert low["words"].endswith("they split 1.")


@pytest.mark.parametrize(
    "record", [{}, {"stability": {}, "representation": "given"}, {"stability": None}]
)
def test_without_a_stability_there_is_no_verdict(record):
    assert verdict(record) is None
