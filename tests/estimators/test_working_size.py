"""Images of any size: compared at a working size, and a model of that size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.cli import app
from dcfsc.cli.output import ENCODER_GAIN
from dcfsc.errors import InputError
from dcfsc.io import load
from dcfsc.metrics import clustering_error

OPTIONS = {"n_clusters": 2, "random_state": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def photographs() -> np.ndarray:
    """Color images of 80 x 80, every other one with a bar that stands, else with one that lies."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (60, 3, 80, 80)).astype(np.uint8)
    for i in range(60):
        place = rng.integers(10, 60)
        bar = (slice(place, place + 10), slice(10, 70))
        X[i][(slice(None), *(bar if i % 2 else bar[::-1]))] += 180
    return X


@pytest.fixture(scope="module")
def model(photographs: np.ndarray) -> ClosedFormSubspaceClustering:
    return ClosedFormSubspaceClustering(**OPTIONS).fit(photographs)


def test_large_images_are_compared_at_a_working_size(photographs, model):
    assert model.sample_shape_ == (3, 80, 80)
    assert model.working_shape_ == (3, 32, 32)
    assert model.representation_ == "scattering"
    assert clustering_error(np.arange(60) % 2, model.labels_) == 0.0
    assert (model.predict(photographs) == model.labels_).all()


def test_a_saved_model_has_the_working_size(photographs, model, tmp_path):
    model.save(tmp_path / "model")
    again = ClosedFormSubspaceClustering.load(tmp_path / "model")
    assert again.working_shape_ == (3, 32, 32)
    assert (again.predict(photographs) == model.labels_).all()
    assert again._training_features.shape == model._training_features.shape


def test_the_user_may_choose_it(photographs):
    X = photographs[:20]
    given = {**OPTIONS, "representation": "given"}
    for wanted, shape in ((None, (3, 80, 80)), ((10, 12), (3, 10, 12)), ("auto", (3, 32, 32))):
        model = ClosedFormSubspaceClustering(**given, working_size=wanted).fit(X)
        assert model.working_shape_ == shape
        assert model._training_features.shape == (20, np.prod(shape))
    with pytest.raises(InputError, match="size is"):
        ClosedFormSubspaceClustering(**given, working_size=7).fit(X)


def test_samples_on_disk_are_reduced_a_block_at_a_time(photographs, tmp_path, monkeypatch):
    from dcfsc.io import streamed

    np.save(tmp_path / "x.npy", photographs)
    on_disk = streamed.stream_npy(tmp_path / "x.npy")
    given = {**OPTIONS, "representation": "given"}
    expected = ClosedFormSubspaceClustering(**given).fit(photographs)
    monkeypatch.setattr("dcfsc.io.streamed.BLOCK_BYTES", 7 * photographs[0].nbytes)
    found = ClosedFormSubspaceClustering(**given).fit(on_disk)
    np.testing.assert_allclose(found._training_features, expected._training_features, atol=1e-6)


def test_channels_last_is_the_same_clustering(photographs, model):
    last = np.moveaxis(photographs, 1, -1)
    other = ClosedFormSubspaceClustering(**OPTIONS).fit(last)
    assert other.sample_shape_ == (3, 80, 80)
    assert (other.labels_ == model.labels_).all()
    assert (other.predict(last) == model.labels_).all()


@pytest.fixture
def folder(photographs, tmp_path) -> Path:
    for i, pixels in enumerate(photographs):
        place = tmp_path / "bars" / "ab"[i % 2] / f"{i}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        tinted = (pixels * np.array([1.0, 0.6, 0.3])[:, None, None]).astype(np.uint8)
        Image.fromarray(tinted.transpose(1, 2, 0)).resize((80 + i, 90)).save(place)
    return tmp_path / "bars"


LABELS = ("--labels", "folders")


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_predict_reads_images_as_the_run_did(folder, tmp_path):
    out = str(tmp_path / "run")
    printed = invoke("fit", str(folder), *LABELS, "-k", "2", "--out", out, "--no-report")
    assert "read at 32 x 32 in color" in printed
    assert printed.count("--features encoder") == printed.count(ENCODER_GAIN) == 1
    record = json.loads(Path(out, "run.json").read_text())
    assert record["data"]["shape"] == [3, 32, 32]
    assert record["scores"]["error"] == 0.0
    one = tmp_path / "one"
    one.mkdir()
    with Image.open(load(folder).paths[5]) as image:
        image.convert("L").resize((400, 300)).save(one / "a.png")  # another size, and gray
    predicted = json.loads(invoke("predict", out, str(one), "--json"))
    assert predicted["data"]["shape"] == [3, 32, 32]
    everything = json.loads(invoke("predict", out, str(folder), *LABELS, "--json"))
    assert everything["scores"]["error"] == 0.0


def test_predict_brings_images_to_the_size_that_small_ones_had(photographs, tmp_path):
    for name, side in (("small", 20), ("large", 90)):
        (tmp_path / name).mkdir()
        for i, pixels in enumerate(photographs[:30]):
            image = Image.fromarray(pixels[0]).resize((side, side))
            image.save(tmp_path / name / f"{i:02d}.png")
    out = str(tmp_path / "run")
    invoke("fit", str(tmp_path / "small"), "-k", "2", "--out", out, "--no-report")
    found = [
        json.loads(invoke("predict", out, str(tmp_path / name), "--json"))
        for name in ("small", "large")
    ]
    assert found[0]["data"]["shape"] == found[1]["data"]["shape"] == [20, 20]
    assert found[0]["labels"] == found[1]["labels"]


def test_predict_resizes_arrays_as_the_run_did(photographs, tmp_path):
    np.save(tmp_path / "x.npy", photographs[:, 0])
    source, out = str(tmp_path / "x.npy"), str(tmp_path / "run")
    invoke("fit", source, "-k", "2", "--size", "20x20", "--out", out, "--no-report")
    np.save(tmp_path / "x.npy", photographs[:, 0].repeat(2, axis=1))
    predicted = json.loads(invoke("predict", out, source, "--json"))
    assert predicted["data"]["shape"] == [20, 20]


def test_a_large_size_is_compared_at_the_working_size_and_said_so(folder, tmp_path):
    out = str(tmp_path / "run")
    words = ("--size", "80x80", "--out", out, "--no-report", *LABELS)
    printed = invoke("fit", str(folder), "-k", "2", *words)
    assert "images compared at 32 x 32" in printed
    assert json.loads(Path(out, "run.json").read_text())["scores"]["error"] == 0.0
