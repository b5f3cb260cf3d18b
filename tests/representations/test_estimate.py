"""How long a fit takes, said before it begins."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.pipeline import Recipe
from dcfsc.representations import create
from dcfsc.representations.base import learning_bytes, learning_flops, scan_flops
from dcfsc.selection import estimate as module
from dcfsc.selection.estimate import (
    LONG,
    announce_long_work,
    cut_flops,
    estimate,
    rate,
    spoken,
)

RESULTS = Path(__file__).parents[2] / "results" / "benchmarks"
RATE = 1e11  # operations per second, about, of the two cores that both files were measured on
CPU = torch.device("cpu")


def of(N, shape, K=10, name="auto"):
    return estimate(N, K, create(name, Recipe(shape, K)))


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
    ("file", "name", "shape"),
    [
        ("seconds.json", "mnist-5000", (28, 28)),
        ("seconds_arm.json", "coil100", (32, 32)),
        ("seconds_arm.json", "unequal-100000", (64,)),
    ],
)
def test_it_is_within_a_factor_of_three_of_what_was_measured(file, name, shape):
    row = json.loads((RESULTS / file).read_text())["figures"][name]
    expected = of(row["N"], shape, row["K"]).flops / RATE
    assert 1 / 3 < expected / row["default"]["seconds"] < 3


def test_the_rate_is_one_of_a_computer():
    assert 1e8 < rate(CPU) < 1e14


def test_the_rate_is_that_of_the_best_of_three_products(monkeypatch):
    clock = iter([0.0, 4.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    assert rate(CPU) == 2 * 768**3 / 2.0


def test_learning_by_hand():
    """Float64 counts twice; eigenvalues and a factor take 4 n^3 each, a pair 2 d and 100 more."""
    assert learning_flops(10, 3) == 2 * 2 * 10 * 3 * 3 + 8 * 3**3
    assert learning_flops(3, 10) == 2 * 2 * 3 * 10 * 3 + 8 * 3**3
    assert learning_bytes(10, 3) == 8 * (2 * 30 + 3 * 9)
    assert learning_bytes(3, 10) == 8 * (2 * 30 + 3 * 9)
    assert scan_flops(5, 7) == 25 * (14 + 100)
    assert cut_flops(5, 3) == 5 * 3 * (1e5 + 800 * 3)


def test_representations_by_hand():
    """Those without a metric learn from all samples, others from n of N."""
    (given,) = create("given", Recipe((2, 3), 4))
    assert (given.row_width, given.row_shape, given.scans) == (6, (6,), 1)
    assert given.flops(50, 70) == learning_flops(70, 6)
    assert given.bytes(50) == 0.0
    (metric,) = create("metric-twice", Recipe((6,), 4))
    each = scan_flops(50, 6) + 4 * 50 * 36 + 4 * 6**3
    assert metric.flops(50, 70) == learning_flops(50, 6) + 2 * each + 2 * 70 * 36
    assert metric.bytes(50) == learning_bytes(50, 6)


@pytest.mark.parametrize(("shape", "pixels"), [((16, 16), 24 * 24), ((3, 6, 9), 3 * 26 * 35)])
@pytest.mark.parametrize(("n", "N"), [(30, 30), (30, 70), (600, 600), (5000, 5000)])
def test_scattering_by_hand(shape, pixels, n, N):
    """81 paths at every fourth pixel; images with a margin of four, as they are and mirrored."""
    (candidate,) = create("scattering", Recipe(shape, 4))
    D = 81 * 4 * 4 if shape == (16, 16) else 3 * 81 * 5 * 7
    assert (candidate.row_width, candidate.scans) == (500, 3)
    k, small, seen = min(n, 500), min(n, D), n if n == N else n + N
    images = 2 * seen * (27e3 * pixels + 2 * D * k)
    components = 4 * n * D * small + 18 * small**3
    metric = learning_flops(n, k) + scan_flops(n, k) + 4 * n * k**2 + 4 * k**3
    expected = images + components + metric + 4 * N * k**2
    assert candidate.flops(n, N) == pytest.approx(expected, rel=1e-12)
    assert candidate.bytes(n) == learning_bytes(n, D)


@pytest.mark.parametrize(("N", "n", "part"), [(500, 500, 400), (4000, 3000, 800)])
def test_a_fit_by_hand(N, n, part):
    """Three parts of four fifths of a thousand samples decide between candidates."""
    K = 4
    recipe = Recipe((64,), K)
    (given,), both = create("given", recipe), create("auto", recipe)
    joined = both[1]
    assert [c.name for c in both][:3] == ["counts", "joined", "given"]
    found = estimate(N, K, [given])
    assert found.flops == pytest.approx(given.flops(n, N) + cut_flops(N, K) + scan_flops(N, 64))
    assert found.bytes == pytest.approx(1e8 + N * (8 * 64 + 1024 + 48 * K))
    race = sum(c.flops(part, part) + scan_flops(part, 64) + cut_flops(part, K) for c in both)
    compared = estimate(N, K, both)
    fit = joined.flops(n, N) + cut_flops(N, K) + scan_flops(N, 64)
    assert compared.flops == pytest.approx(fit + 3 * race)
    assert compared.bytes == pytest.approx(found.bytes + learning_bytes(n, 64))
    (scattering,) = create("scattering", Recipe((8, 8), K))
    alone = estimate(N, K, [scattering])
    expected = scattering.flops(n, N) + cut_flops(N, K) + 3 * scan_flops(N, 500)
    assert alone.flops == pytest.approx(expected)
    kept = N * (2 * 8 * 500 + 3 * 1024 + 48 * K)
    assert alone.bytes == pytest.approx(1e8 + kept + scattering.bytes(n))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(119.9, "120 s"), (6000, "100 min"), (120, "2 min"), (7199, "120 min"), (7200, "2 h")],
)
def test_a_unit_is_taken_from_two_of_it(seconds, words):
    assert spoken(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5.4, "5.4 s"), (41.7, "42 s"), (118, "120 s"), (130, "2.2 min"), (10_000, "2.8 h")],
)
def test_seconds_are_spoken_with_two_digits(seconds, words):
    assert spoken(seconds) == words


def test_long_work_is_announced_in_one_line(monkeypatch, caplog):
    shape, candidates = (100_000, 64), create("auto", Recipe((64,), 20))
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


@pytest.mark.parametrize(("seconds", "said"), [(4.9, []), (5.1, ["about 5.1 s"])])
def test_nothing_is_said_of_five_seconds(monkeypatch, caplog, seconds, said):
    candidates = create("auto", Recipe((64,), 20))
    flops = estimate(1000, 20, candidates).flops
    monkeypatch.setattr(module, "rate", lambda device: flops / seconds)
    with caplog.at_level(logging.INFO, "dcfsc.stage"):
        announce_long_work((1000, 64), 20, candidates, CPU)
    assert [text.partition(" on ")[0] for text in caplog.messages] == said
