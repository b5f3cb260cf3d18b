"""How long a fit takes, said before it begins."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.representations import create
from dcfsc.representations import estimate as module
from dcfsc.representations.base import Setting
from dcfsc.representations.estimate import LONG, announce_long_work, estimate, rate, spoken

SECONDS = Path(__file__).parents[2] / "results" / "benchmarks" / "seconds.json"
RATE = 1e11  # operations per second of the two cores that seconds.json was measured on
CPU = torch.device("cpu")


def of(N, shape, K=10, name="auto"):
    return estimate(N, K, create(name, Setting(shape, K)))


def test_time_grows_with_pairs_and_memory_with_samples():
    one, two = of(200_000, (64,)), of(400_000, (64,))
    assert 3.5 < two.flops / one.flops < 4.0
    assert 1.7 < two.bytes / one.bytes < 2.0


def test_width_clusters_candidates_and_scattering_cost():
    base = of(5000, (64,))
    assert of(5000, (640,)).flops > 2 * base.flops
    assert of(5000, (64,), K=100).flops > 2 * base.flops
    assert of(5000, (64,), name="given").flops < base.flops
    assert of(5000, (28, 28), name="scattering").flops > 10 * of(5000, (28, 28), name="given").flops
    assert of(5000, (28, 28)).flops > of(5000, (28, 28), name="scattering").flops
    assert of(5000, (3, 28, 28)).flops > of(5000, (28, 28)).flops


@pytest.mark.parametrize(
    ("name", "shape"), [("mnist-5000", (28, 28)), ("coil100", (32, 32)), ("unequal-100000", (64,))]
)
def test_it_is_within_a_factor_of_three_of_what_was_measured(name, shape):
    row = json.loads(SECONDS.read_text())["figures"][name]
    expected = of(row["N"], shape, row["K"]).flops / RATE
    assert 1 / 3 < expected / row["default"]["seconds"] < 3


def test_the_rate_is_one_of_a_computer():
    assert 1e8 < rate(CPU) < 1e16


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5.4, "5.4 s"), (41.7, "42 s"), (118, "120 s"), (130, "2.2 min"), (10_000, "2.8 h")],
)
def test_seconds_are_spoken_with_two_digits(seconds, words):
    assert spoken(seconds) == words


def test_long_work_is_announced_in_one_line(monkeypatch, caplog):
    shape, candidates = (100_000, 64), create("auto", Setting((64,), 20))
    flops = estimate(100_000, 20, candidates).flops
    with caplog.at_level(logging.INFO, "dcfsc.stage"):
        monkeypatch.setattr(module, "rate", lambda device: flops / (0.9 * LONG))
        announce_long_work(shape, 20, candidates, CPU)
        assert caplog.messages == []
        monkeypatch.setattr(module, "rate", lambda device: flops / 40.0)
        announce_long_work(shape, 20, candidates, CPU)
    (line,) = caplog.messages
    assert line.startswith("about 40 s on ")
    assert line.endswith(" (100,000 x 64), 0.4 GB")
    assert caplog.records[0].stays


def test_a_fit_that_nobody_watches_measures_nothing(monkeypatch, caplog):
    calls = []
    monkeypatch.setattr(module, "rate", lambda device: calls.append(device) or 1.0)
    X = np.random.default_rng(0).normal(size=(60, 8))
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu")
    model.fit(X)
    assert calls == []
    with caplog.at_level(logging.INFO, "dcfsc.stage"):
        model.fit(X)
    assert len(calls) == 1
    assert [text for text in caplog.messages if text.startswith("about ")] != []
