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
from dcfsc.representations.base import Setting, learning_bytes, learning_flops, scan_flops
from dcfsc.representations.estimate import (
    LINK_BYTES,
    LONG,
    WORKSPACE,
    announce_long_work,
    cut_flops,
    estimate,
    rate,
    spoken,
)
from dcfsc.representations.neighbour_metric import metric_flops

SECONDS = Path(__file__).parents[2] / "results" / "benchmarks" / "seconds.json"
RATE = 1e11  # operations per second of the two cores that seconds.json was measured on
CPU = torch.device("cpu")
VECTORS = Setting((3,), 2)


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


METRIC_10_3 = 576.0 + 2 * (10_600.0 + 2 * 2 * 10 * 9 + 4 * 27)  # two rounds


def test_operations_by_hand():
    """A product of float64 counts twice; spectra and factors count by the cube of the size."""
    for n, d in ((10, 3), (3, 10)):
        assert learning_flops(n, d) == 2 * 2 * 10 * 3 * 3 + (4 + 4) * 27
        assert learning_bytes(n, d) == 8 * (2 * 30 + 3 * 9)
    assert scan_flops(10, 3) == 100 * (2 * 3 + 100)
    assert metric_flops(10, 3, 2) == METRIC_10_3
    assert cut_flops(10, 3) == 10 * 3 * (1e5 + 800 * 3)


def test_operations_of_representations_by_hand():
    vectors = {r.name: r for name in ("given", "metric-twice") for r in create(name, VECTORS)}
    assert vectors["given"].flops(10, 20) == learning_flops(20, 3)
    assert vectors["given"].bytes(10) == 0.0
    assert vectors["metric-twice"].flops(10, 20) == METRIC_10_3 + 2 * 20 * 9
    assert vectors["metric-twice"].bytes(10) == learning_bytes(10, 3)
    assert {r.scans for r in vectors.values()} == {1}


@pytest.mark.parametrize(("shape", "channels"), [((6, 8), 1), ((3, 6, 8), 3)])
def test_operations_of_scattering_by_hand(shape, channels):
    """Images three times as large, 81 paths over every four pixels, a border of 2 x 4."""
    (scattering,) = create("scattering", Setting(shape, 2))
    D, pixels = channels * 81 * 5 * 6, channels * (18 + 8) * (24 + 8)
    assert scattering.row_width == min(500, D)
    image = 27e3 * pixels + 2 * D * 10
    learnt = 2 * 2 * 10 * D * 10 + 18 * 1000 + metric_flops(10, 10, 1)
    assert scattering.flops(10, 100) == pytest.approx(2 * 110 * image + learnt + 4 * 100 * 100)
    assert scattering.flops(10, 10) == pytest.approx(2 * 10 * image + learnt + 4 * 10 * 100)
    # more samples than the 500 directions that are kept
    image, learnt = 27e3 * pixels + 2 * D * 500, 2 * 2 * 600 * D * 600 + 18 * 600**3
    learnt += metric_flops(600, 500, 1) + 4 * 600 * 500**2
    assert scattering.flops(600, 600) == pytest.approx(2 * 600 * image + learnt)
    assert scattering.bytes(10) == learning_bytes(10, D)
    assert scattering.scans == 3


@pytest.mark.parametrize("name", ["given", "scattering"])
def test_an_estimate_by_hand(name):
    (one,) = create(name, Setting((16, 16), 4))
    got, n = estimate(100_000, 4, [one]), 3000
    work = one.flops(n, 100_000) + cut_flops(100_000, 4)
    assert got.flops == pytest.approx(work + one.scans * scan_flops(100_000, one.row_width))
    copies = 2 if name == "scattering" else 1
    kept = 8 * one.row_width * copies + LINK_BYTES * one.scans + 48 * 4
    assert got.bytes == pytest.approx(WORKSPACE + 100_000 * kept + one.bytes(n))


def test_the_candidates_that_are_compared_add_three_parts_each():
    given, metric = (c for name in ("given", "metric") for c in create(name, Setting((20,), 4)))
    alone, both = estimate(5000, 4, [given]), estimate(5000, 4, [given, metric])
    part = 800  # four fifths of the thousand that are judged
    parts = sum(
        c.flops(part, part) + scan_flops(part, 20) + cut_flops(part, 4) for c in (given, metric)
    )
    assert both.flops - alone.flops == pytest.approx(3 * parts)
    assert both.bytes - alone.bytes == pytest.approx(metric.bytes(3000))


def test_the_rate_is_that_of_the_quickest_of_three_products(monkeypatch):
    assert 1e8 < rate(CPU) < 1e16
    clock = iter([0.0, 0.5, 1.0, 1.25, 2.0, 3.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    assert rate(CPU) == 2 * 768**3 / 0.25


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
