"""A clustering cell: its samples, scores and references, computed as they are described."""

import dataclasses
import json
import os
import socket

import numpy as np
import pytest
import torch

from dcfsc import affinity, io, spectral
from dcfsc.errors import InputError
from dcfsc.estimators import DCFSC, ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error
from research.experiments.cells import Cell, CellStore, Problem
from research.experiments.methods import METHODS
from research.experiments.pipeline import Session, measure, select, spectrum, to_json
from research.experiments.protocols import PROTOCOLS, Task, published_latents_at_pixel_energy
from research.machine import PeakMemory

pytestmark = pytest.mark.slow

PROBLEM = Problem("digits", 3, per_class=30)
needs_data = pytest.mark.skipif("DCFSC_DATA" not in os.environ, reason="needs $DCFSC_DATA")


def cell(method, seed=0):
    return Cell("smoke", method, PROBLEM, seed, trial=seed)


@pytest.fixture
def session(tmp_path):
    return Session(CellStore(tmp_path, "smoke"), "cpu")


def test_a_window_is_consecutive_classes_renumbered():
    data = io.load("digits")
    samples = select(data, Problem("digits", 4, window=5, per_class=20))
    assert samples.X.shape == (80, 8, 8)
    assert np.bincount(samples.y).tolist() == [20] * 4
    np.testing.assert_array_equal(samples.X[samples.y == 2], data.X[data.y == 7][:20])
    with pytest.raises(InputError, match="has 10 classes, not the 11"):
        select(data, Problem("digits", 4, window=7))


def test_the_record_of_dcfsc(session):
    record = measure(cell("dcfsc", seed=1), session)
    samples = session.samples(PROBLEM)
    model = DCFSC(
        3,
        lam=1.0,
        network="auto",
        pretrain_epochs=0,
        steps=3,
        affinity="symmetric",
        assign="discretize",
        device="cpu",
        random_state=1,
        verbose=False,
    ).fit(samples.X)
    assert record["protocol"]["error"] == clustering_error(samples.y, model.labels_)
    assert record["parameters"]["steps"] == 3
    assert record["parameters"]["estimator"] == "DCFSC"
    norm = float(np.square(model.latents_.astype(np.float64)).sum(1).mean())
    assert record["effective_lambda"] == pytest.approx(1.0 / norm, rel=1e-5)
    assert record["effective_dof"] == pytest.approx(model.effective_dof_)
    assert record["n"] == 90
    assert record["seed"] == record["trial"] == 1
    assert record["start"]["method"] == "start-untrained"
    for part in ("protocol", "plain", "raw", "start"):
        assert 0.0 <= record[part]["error"] <= 100.0
        assert {"nmi", "ari", "assign", "affinity"} <= set(record[part])


def test_references_are_the_closed_form_at_a_hundredth_of_the_scale(session):
    record = measure(cell("closed-form"), session)
    samples = session.samples(PROBLEM)
    Z = samples.X.reshape(90, -1).astype(np.float32)
    lam = 1e-2 * float(np.square(Z, dtype=np.float64).sum(1).mean())
    model = ClosedFormSubspaceClustering(
        3,
        lam=lam,
        normalize=False,
        affinity="symmetric",
        assign="discretize",
        device="cpu",
        random_state=0,
    ).fit(Z)
    assert record["raw"]["error"] == clustering_error(samples.y, model.labels_)
    assert record["raw"]["effective_lambda"] == pytest.approx(1e-2)
    assert record["start"] is None
    assert session.store.load(cell("raw"))["method"] == "raw"


def test_plain_is_the_same_coefficients_without_post_processing(session):
    record = measure(cell("closed-form"), session)
    samples = session.samples(PROBLEM)
    model = ClosedFormSubspaceClustering(3, device="cpu", random_state=0)
    model.fit(samples.X.reshape(90, -1).astype(np.float32))
    A = affinity.get("symmetric", 3)(model.coefficients_, 3)
    rng = np.random.RandomState(0)
    labels = spectral.assign(spectral.embed(A, 3, random_state=rng), 3, random_state=rng)
    assert record["plain"]["error"] == clustering_error(samples.y, labels)
    assert record["protocol"]["error"] == clustering_error(samples.y, model.labels_)
    assert record["plain"]["affinity"] == {"name": "Symmetric", "scale": True, "share": 1.0}
    assert record["protocol"]["affinity"]["name"] == "TopK"


def test_a_reused_fit_gives_what_a_fresh_one_gives(session, tmp_path):
    first = measure(cell("closed-form", 0), session)
    reused = measure(cell("closed-form", 3), session)
    fresh = measure(cell("closed-form", 3), Session(CellStore(tmp_path / "b", "smoke"), "cpu"))
    assert (first["fit_reused"], reused["fit_reused"], fresh["fit_reused"]) == (False, True, False)
    for part in ("protocol", "plain", "raw"):
        assert reused[part] == fresh[part]


def test_a_failing_reference_leaves_the_cell_standing(session, monkeypatch):
    def refuse(task, Z):
        raise InputError("refused")

    monkeypatch.setitem(METHODS, "raw", dataclasses.replace(METHODS["raw"], build=refuse))
    record = measure(cell("closed-form"), session)
    assert record["raw"] is None
    assert [r["failed"] for r in session.store.failures()] == ["refused"]


def test_a_record_is_json_without_host_names_or_paths(session, tmp_path):
    text = json.dumps(measure(cell("dcfsc"), session))
    assert str(tmp_path) not in text
    assert '"/' not in text
    assert f'"{socket.gethostname()}"' not in text


def test_spectrum_of_a_known_matrix():
    rng = np.random.default_rng(0)
    Z = torch.from_numpy(rng.standard_normal((50, 4)) @ rng.standard_normal((4, 20))).float()
    found = spectrum(Z)
    s = torch.linalg.svdvals(Z.double())
    assert found["rank"] == 4
    assert found["dim"] == 20
    assert found["stable_rank"] == pytest.approx(float(s.square().sum() / s[0] ** 2), rel=1e-5)
    assert found["mean_squared_norm"] == pytest.approx(float(Z.double().square().sum() / 50))
    assert spectrum(torch.zeros(3, 2))["rank"] == 0


def test_parameters_become_json():
    value = {"a": np.float32(0.5), "b": (1, affinity.TopK(k=3)), "c": torch.device("cpu"), "d": len}
    as_json = to_json(value)
    assert as_json["b"] == [1, {"name": "TopK", **dataclasses.asdict(affinity.TopK(k=3))}]
    assert json.loads(json.dumps(as_json)) == as_json
    assert as_json["c"] == "cpu"


def test_peak_memory_sees_a_block_of_its_own():
    with PeakMemory(torch.device("cpu")) as large:
        block = np.ones(64 * 2**20 // 8)
    del block
    assert large.peak - large.before >= 60 * 2**20
    assert large.record()["kind"] == "process_resident"


@pytest.mark.data
@needs_data
def test_published_latents_at_pixel_energy(session):
    problem = Problem("orl", 40)
    X = session.samples(problem).X
    Z, how = published_latents_at_pixel_energy(Task(problem, 0, torch.device("cpu")), X)
    wanted = np.square(X / X.max()).sum()
    assert np.square(Z, dtype=np.float64).sum() == pytest.approx(wanted, rel=1e-5)
    assert "dsc_orl" in how


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_runs_on_two_people(session, method, monkeypatch):
    """Twelve images each of two people, the deep methods with a single step."""
    one = dataclasses.replace(
        PROTOCOLS["eyaleb"],
        dcfsc=lambda K, full=PROTOCOLS["eyaleb"].dcfsc: {**full(K), "steps": 1},
        dsc=lambda K, full=PROTOCOLS["eyaleb"].dsc: {**full(K), "steps": 1},
    )
    monkeypatch.setitem(PROTOCOLS, "eyaleb", one)
    problem = Problem("eyaleb", 2, window=4, per_class=12)
    chosen = Cell("eyaleb", method, problem)
    record = measure(chosen, session)
    assert record["n"] == 24
    assert 0 <= record["protocol"]["error"] <= 50
    assert record["parameters"]["n_clusters"] == 2
