"""The measured training steps: the paper's listing as a peer, and a process for each cell."""

import copy
import subprocess

import numpy as np
import pytest
import torch

from dcfsc import networks
from dcfsc.self_expression import solve
from dcfsc.training import Absolute, History, train
from research.experiments.cells import Cell, CellStore, Problem
from research.experiments.pipeline import Session
from research.experiments.step_memory import (
    compute_b,
    compute_p,
    measure_here,
    measure_step,
    steps_after,
    train_by_inverse,
)

pytestmark = pytest.mark.slow

TINY = Problem("digits", 3, per_class=10)


@pytest.mark.parametrize("form", ["samples", "features"])
def test_the_listing_is_the_closed_form(form):
    Z = torch.from_numpy(np.random.default_rng(0).standard_normal((12, 7)))
    B = compute_b(compute_p(Z, 0.3))
    torch.testing.assert_close(B, solve(Z, 0.3, form=form).dense(), rtol=1e-9, atol=1e-12)


def test_the_listing_trains_the_same_network():
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(30, 1, 8, 8, generator=generator)
    network = networks.build(networks.architecture_for((8, 8)))
    peer = copy.deepcopy(network)
    ours, theirs = History(), History()
    train(network, X, steps=4, lam=Absolute(1.0), learning_rate=1e-3, history=ours)
    train_by_inverse(peer, X, steps=4, lam=1.0, learning_rate=1e-3, history=theirs)
    np.testing.assert_allclose(ours.column("loss"), theirs.column("loss"), rtol=1e-4)


@pytest.mark.parametrize("method", ["dsc", "dcfsc-inverse", "dcfsc", "dcfsc-low-memory"])
def test_a_measurement(method):
    record = measure_here(method, TINY, torch.device("cpu"))
    assert record["n"] == 30
    assert 1 <= record["steps"] <= 5
    assert record["seconds_a_step"] > 0
    assert record["memory"]["peak_bytes"] >= record["memory"]["before_bytes"] > 0


def test_a_cell_is_measured_in_a_process_of_its_own(tmp_path):
    session = Session(CellStore(tmp_path, "memory"), "cpu")
    record = measure_step(Cell("memory", "dcfsc", TINY), session)
    assert record["n"] == 30
    assert record["steps"] >= 1


def test_a_process_that_fails_says_why(tmp_path, monkeypatch):
    def dying(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "Traceback\nInputError: too little\n\n")

    monkeypatch.setattr(subprocess, "run", dying)
    session = Session(CellStore(tmp_path, "memory"), "cpu")
    with pytest.raises(RuntimeError, match="process ended: InputError: too little"):
        measure_step(Cell("memory", "dcfsc", TINY), session)


@pytest.mark.parametrize(
    ("first", "device", "steps"),
    [(0.1, "cpu", 5), (20.0, "cpu", 3), (500.0, "cpu", 1), (500.0, "cuda", 5)],
)
def test_steps_of_a_minute_but_on_a_gpu_always_five(first, device, steps):
    """The first step on a GPU may have waited for a compiler."""
    assert steps_after(first, torch.device(device)) == steps
