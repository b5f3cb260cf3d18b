"""The commands that choose K: 'suggest-k', and 'fit -k auto', which never choose silently."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import dcfsc.estimators.deep
import dcfsc.runs.executor
from dcfsc import ClosedFormSubspaceClustering, suggest_k
from dcfsc.cli import app
from dcfsc.cli.output import clarity
from dcfsc.io import Dataset, synthetic

pytestmark = pytest.mark.slow


def command(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def data() -> Dataset:
    return synthetic(60, 4, 3, 20, noise=0.1, random_state=0)


@pytest.fixture
def npz(tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "points.npz", X=data.X, y=data.y)
    return tmp_path / "points.npz"


def test_table_has_the_candidates_and_says_how_clear_they_are(npz: Path) -> None:
    result = command("suggest-k", npz, "--max-k", 9)
    assert result.exit_code == 0, result.output
    header, *rows, last = result.stdout.splitlines()
    assert header.split() == ["K", "slope", "separation", "evenness", "agreement", "gap"]
    assert len(rows) == 8
    assert rows[0].split()[0] == "4"
    assert last.startswith("suggested: K = 4 (clear")
    assert "60 of 60 samples" in last


def test_json_is_what_the_library_says(npz: Path, data: Dataset) -> None:
    result = command("suggest-k", npz, "--json", "--seed", 3, "--subspace-dim", 2)
    expected = suggest_k(data.X, subspace_dim=2, random_state=3)
    assert json.loads(result.stdout) == json.loads(json.dumps(expected.to_dict()))


def test_fit_auto_prints_and_records_its_candidates(npz: Path) -> None:
    result = command("fit", npz, "-k", "auto", "--method", "closed-form", "--no-report")
    assert result.exit_code == 0, result.output
    facts = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert "K = 4, clear" in facts["suggested"]
    record = json.loads(Path("runs/points-closed-form/run.json").read_text())
    assert record["n_clusters"] == 4
    scored = [c for c in record["suggestion"]["candidates"] if c["separation"] is not None]
    printed = [f"{c['k']} ({c['score']:.2f})" for c in scored]
    assert facts["K (score)"].strip() == ", ".join(printed)
    assert printed[0].startswith("4 (")
    assert record["parameters"]["n_clusters"] == 4
    assert record["suggestion"]["k"] == 4
    assert len(record["suggestion"]["candidates"]) == 10
    assert record["scores"]["error"] == 0.0


def test_fit_with_a_number_suggests_nothing(npz: Path) -> None:
    result = command("fit", npz, "-k", 3, "--method", "closed-form", "--no-report")
    assert "suggested" not in result.stdout
    record = json.loads(Path("runs/points-closed-form/run.json").read_text())
    assert record["suggestion"] is None


def test_labels_do_not_change_the_suggestion(npz: Path, data: Dataset, tmp_path: Path) -> None:
    np.save(tmp_path / "bare.npy", data.X)
    outputs = {command("suggest-k", file, "--json").stdout for file in (npz, tmp_path / "bare.npy")}
    assert len(outputs) == 1


def test_features_and_latents(npz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcfsc.estimators.deep, "PRETRAIN_EPOCHS", 2)
    short = ("--max-k", 5, "--json")
    of_features = command("suggest-k", npz, "--features", "autoencoder", *short)
    assert json.loads(of_features.stdout)["method"] == "closed-form"
    assert command("suggest-k", npz, "--method", "dcfsc", *short).exit_code == 0


def test_scattering_of_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    across = np.broadcast_to(rng.uniform(0, 1, (15, 16, 1)), (15, 16, 16))
    images = np.concatenate([across, across.transpose(0, 2, 1)]) + rng.normal(0, 0.05, (30, 16, 16))
    np.save(tmp_path / "images.npy", images)
    options = ("--features", "scattering", "--max-k", 6, "--json")
    found = json.loads(command("suggest-k", tmp_path / "images.npy", *options).stdout)
    assert len(found["candidates"]) == 5
    assert found["n_samples"] == 30


@pytest.mark.parametrize("name", ["auto", "given"])
def test_fit_auto_looks_at_the_representation_that_it_takes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    across = np.broadcast_to(rng.uniform(0, 1, (30, 16, 1)), (30, 16, 16))
    images = np.concatenate([across, across.transpose(0, 2, 1)]) + rng.normal(0, 0.05, (60, 16, 16))
    np.save("images.npy", np.abs(images))
    options = ("--representation", name, "--method", "closed-form", "--no-report")
    result = command("fit", "images.npy", "-k", "auto", *options)
    assert result.exit_code == 0, result.output
    record = json.loads(Path("runs/images-closed-form/run.json").read_text())
    assert record["suggestion"]["representation"] == record["representation"]
    assert record["representation"] == {"auto": "scattering", "given": "given"}[name]
    model = ClosedFormSubspaceClustering("auto", representation=name, random_state=0)
    assert model.fit(np.abs(images)).n_clusters_ == record["n_clusters"]


def test_of_many_samples_some_are_drawn(npz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcfsc.runs.executor, "MOST_SAMPLES", 40)
    result = command("suggest-k", npz)
    assert "40 of 60 samples" in result.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("suggest-k", "--max-k", 1), "max_k=1 is not allowed"),
        (("suggest-k", "--method", "ssc"), "'ssc'"),
        (("suggest-k", "--features", "nothing"), "'nothing'"),
        (("suggest-k", "--features", "scattering", "--method", "dcfsc"), "two networks"),
        (("fit", "-k", "some"), "integer or auto"),
        (("fit", "-k", "auto", "--method", "nothing"), "'nothing'"),
    ],
)
def test_bad_options_are_one_line(npz: Path, args: tuple[object, ...], said: str) -> None:
    result = command(args[0], npz, *args[1:])
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("runs").exists()


def test_samples_that_are_not_finite(npz: Path, data: Dataset, tmp_path: Path) -> None:
    data.X[7, 0] = np.nan
    np.save(tmp_path / "bad.npy", data.X)
    for args in (("fit", tmp_path / "bad.npy", "-k", "auto"), ("suggest-k", tmp_path / "bad.npy")):
        result = command(*args)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert "NaN" in result.stderr


def test_clear_means_twice_the_next_and_something_to_see() -> None:
    def said(*scores: float) -> str:
        return clarity([{"score": score} for score in scores]).split(":")[0]

    assert said(4.0, 2.0) == "clear"
    assert said(3.9, 2.0) == "not clear"
    assert said(2.0, 0.0) == "clear"
    assert said(1.9) == "not clear"
    assert said(-3.0, -4.0) == "not clear"
