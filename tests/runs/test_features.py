"""Runs on features: computed first, recorded, saved beside the model, applied to new samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_run
from typer.testing import CliRunner

from dcfsc import AutoencoderFeatures, ClosedFormSubspaceClustering, ScatteringFeatures
from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.io import Dataset, check_finite, streamed
from dcfsc.runs.folder import Run
from dcfsc.runs.prediction import predict_run

OPTIONS: dict[str, Any] = {"n_clusters": 2, "random_state": 0, "device": "cpu"}


@pytest.fixture
def run(bars: Dataset, tmp_path: Path) -> Run:
    return fit_run(bars, "closed-form", OPTIONS, tmp_path / "run", features="scattering")


def test_the_features_are_what_is_clustered(run: Run, bars: Dataset) -> None:
    Z = ScatteringFeatures(device="cpu").fit_transform(bars.X)
    expected = ClosedFormSubspaceClustering(**OPTIONS).fit(Z)
    assert np.array_equal(run.labels, expected.labels_)
    assert run.record["lam"] == pytest.approx(expected.lam_)
    assert run.record["scores"]["error"] == 0.0


def test_the_record_says_how_they_were_made(run: Run) -> None:
    record = json.loads((run.folder / "run.json").read_text())
    assert record["features"] == {
        "name": "scattering",
        "parameters": ScatteringFeatures(device="cpu", verbose=False).get_params(),
        "file": "features.safetensors",
    }
    assert record["data"]["shape"] == [16, 16]
    assert record["timings"]["features_seconds"] > 0
    assert record["timings"]["fit_seconds"] > 0


def test_predict_applies_the_saved_features(run: Run, bars: Dataset) -> None:
    assert np.array_equal(predict_run(run.folder, bars)[0], run.labels)
    some = Dataset("some", bars.X[5:9])
    assert np.array_equal(predict_run(run.folder, some)[0], run.labels[5:9])
    with pytest.raises(
        InputError, match=r"\(8, 8\), but ScatteringFeatures was fitted on \(16, 16\)"
    ):
        predict_run(run.folder, Dataset("small", bars.X[:, :8, :8]))


def test_lost_features_are_one_line(run: Run, bars: Dataset) -> None:
    (run.folder / "features.safetensors").unlink()
    with pytest.raises(InputError, match=r"has lost its features\.safetensors; fit again"):
        predict_run(run.folder, bars)


def test_a_later_run_without_features_leaves_none_behind(run: Run, bars: Dataset) -> None:
    again = fit_run(bars, "closed-form", OPTIONS, run.folder, overwrite=True)
    assert again.record["features"] is None
    assert not (run.folder / "features.safetensors").exists()
    assert np.array_equal(predict_run(run.folder, bars)[0], again.labels)


def test_options_go_to_the_method_or_else_to_the_features(bars: Dataset, tmp_path: Path) -> None:
    options = {**OPTIONS, "pretrain_epochs": 2, "learning_rate": 0.01, "lam": 0.5}
    run = fit_run(bars, "closed-form", options, tmp_path / "run", features="autoencoder")
    made = run.record["features"]["parameters"]
    assert (made["pretrain_epochs"], made["learning_rate"]) == (2, 0.01)
    assert (made["random_state"], made["device"]) == (0, "cpu")
    assert run.record["parameters"]["lam"] == 0.5
    saved = AutoencoderFeatures.load(run.folder / "features.safetensors")
    assert saved.transform(bars.X).shape[0] == 80
    assert np.array_equal(predict_run(run.folder, bars)[0], run.labels)


@pytest.mark.parametrize(
    ("method", "features", "options", "said"),
    [
        ("closed-form", "scatering", {}, "unknown features 'scatering'. Did you mean 'scattering'"),
        ("closed-form", "scattering", {"steps": 3}, "no option 'steps'"),
        (
            "closed-form",
            "autoencoder",
            {"learning_rate": -1.0},
            "learning_rate=-1.0 is not",
        ),
    ],
)
def test_wrong_choices_leave_nothing_behind(bars, tmp_path, method, features, options, said):
    with pytest.raises(InputError, match=said):
        fit_run(bars, method, {**OPTIONS, **options}, tmp_path / "run", features=features)
    assert not (tmp_path / "run").exists()


def test_features_of_what_is_no_image_leave_nothing_behind(tmp_path: Path) -> None:
    flat = Dataset("flat", np.random.default_rng(0).normal(size=(20, 30)))
    with pytest.raises(InputError, match="made from images"):
        fit_run(flat, "closed-form", OPTIONS, tmp_path / "run", features="scattering")
    assert not (tmp_path / "run").exists()


def test_samples_on_disk(bars: Dataset, run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", bars.X)
    on_disk = Dataset("x", streamed.stream_npy(tmp_path / "x.npy"), bars.y)
    again = fit_run(on_disk, "closed-form", OPTIONS, tmp_path / "again", features="scattering")
    assert np.array_equal(again.labels, run.labels)
    assert np.array_equal(predict_run(run.folder, on_disk)[0], run.labels)
    plain = fit_run(on_disk, "closed-form", OPTIONS, tmp_path / "plain")
    expected = fit_run(bars, "closed-form", OPTIONS, tmp_path / "expected")
    assert np.array_equal(plain.labels, expected.labels)


def test_nan_in_samples_on_disk_is_found(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 4))
    X[17, 2] = np.nan
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match="a value that is NaN or infinity, the first in row 17"):
        check_finite(streamed.stream_npy(tmp_path / "x.npy"))


def test_command_line(bars: Dataset, tmp_path: Path) -> None:
    np.savez(tmp_path / "bars.npz", images=bars.X, labels=bars.y)
    source, folder = str(tmp_path / "bars.npz"), str(tmp_path / "run")
    fitted = CliRunner().invoke(
        app,
        [*("fit", source, "-k", "2", "--features", "scattering"), "--out", folder, "--no-report"],
    )
    assert fitted.exit_code == 0, fitted.output
    record = json.loads(Path(folder, "run.json").read_text())
    assert record["method"] == "closed-form"
    assert record["features"]["name"] == "scattering"
    predicted = CliRunner().invoke(app, ["predict", folder, source, "--json"])
    assert json.loads(predicted.output)["scores"]["error"] == 0.0
