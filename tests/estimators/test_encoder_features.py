"""Encoder features: from files and arrays, kept on disk, in runs and in predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from dcfsc import EncoderFeatures
from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.estimators import encoder_features
from dcfsc.features.encoders import InputImages, TorchEncoder
from dcfsc.io import load
from dcfsc.io.feature_cache import FeatureCache
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, Reading


class Tiny(TorchEncoder):
    """Means of the quarters of an image, in each channel: 12 features."""

    seen = 0

    def __init__(self, name: str | None, device: torch.device):
        images = InputImages((8, 8), crop=1.0, keep_aspect=False)
        if name == "cut":
            images = InputImages((8, 8), crop=0.5)
        super().__init__(f"Tiny {name}", nn.Flatten(), images, device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Tiny.seen += len(x)
        return self.module(nn.functional.avg_pool2d(x, 4))


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(encoder_features, "open_encoder", Tiny)
    monkeypatch.setattr(encoder_features, "default_place", lambda: tmp_path / "cache")
    Tiny.seen = 0


@pytest.fixture
def folder(tmp_path) -> Path:
    """Reddish and bluish photographs of different sizes."""
    rng = np.random.default_rng(0)
    for i in range(40):
        pixels = rng.integers(0, 60, (30 + i % 3, 40, 3)).astype(np.uint8)
        pixels[..., 2 * (i % 2)] += 150
        place = tmp_path / "photos" / ("red", "blue")[i % 2] / f"{i}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place, quality=95)
    return tmp_path / "photos"


def features(X: Any, name: str | None = None, **options: Any) -> np.ndarray:
    return EncoderFeatures(name, device="cpu", verbose=False, **options).fit_transform(X)


def test_files_are_read_as_the_encoder_wants_them(folder):
    data = load(folder)
    Z = features(data.paths)
    assert Z.shape == (40, 12)
    with Image.open(data.paths[3]) as image:
        pixels = np.asarray(image.resize((8, 8), Image.Resampling.BICUBIC), np.float32)
    expected = ((pixels - 127.5) / 127.5).reshape(2, 4, 2, 4, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(Z[3], expected.transpose(2, 0, 1).ravel(), atol=0.02)


def test_arrays_of_any_layout_have_the_same_features():
    X = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8)).astype(np.uint8)
    Z = features(X)
    for other in (np.moveaxis(X, 1, -1), X / 255, X.astype(np.float32)):
        np.testing.assert_allclose(features(other), Z, atol=1e-5)
    np.testing.assert_allclose(features(X[:, 0]), features(np.stack([X[:, 0]] * 3, 1)), atol=1e-6)
    with pytest.raises(InputError, match="7 channels"):
        features(np.zeros((5, 7, 8, 8)))
    with pytest.raises(InputError, match="not clear whether channels come first or last"):
        features(np.zeros((5, 3, 8, 3)))


def test_nothing_is_encoded_twice(folder, tmp_path):
    paths = load(folder).paths
    Z = features(paths)
    assert Tiny.seen == 41  # and one image to learn how many features there are
    np.testing.assert_array_equal(features(paths[::-1]), Z[::-1])
    assert Tiny.seen == 42
    copy = tmp_path / "copy.jpg"
    copy.write_bytes(Path(paths[7]).read_bytes())  # known by its content, not by its name
    np.testing.assert_array_equal(features([copy]), Z[7:8])
    assert Tiny.seen == 43
    features(paths, "cut")  # another encoder has features of its own
    assert Tiny.seen == 84
    features(paths, cache=None)
    assert Tiny.seen == 125


def test_features_of_another_precision_are_not_reused(folder, monkeypatch):
    paths = load(folder).paths
    exact = features(paths)
    monkeypatch.setattr(Tiny, "precision", "bfloat16")
    monkeypatch.setattr(Tiny, "encode", lambda self, x: self.forward(x.bfloat16()))
    rounded = features(paths)
    assert np.abs(rounded - exact).max() > 1e-4
    np.testing.assert_array_equal(rounded, features(paths, cache=None))


def test_files_in_gray_and_in_color_are_cached_apart(folder):
    sources = [ImageSource.file(path) for path in sorted(folder.rglob("*.jpg"))]
    color, gray = (StreamedImages("X", sources, Reading((8, 8), gray=g)) for g in (False, True))
    Z = features(gray, cache=None)
    assert np.abs(features(color) - Z).max() > 0.1
    np.testing.assert_array_equal(features(gray), Z)


def test_an_array_is_cached_with_its_scale():
    X = np.random.default_rng(0).random((4, 8, 8))
    features(X)
    brighter = np.concatenate([X, 200 * X])  # here 1 is nearly black
    np.testing.assert_array_equal(features(brighter), features(brighter, cache=None))


def test_an_interrupted_run_goes_on(folder, monkeypatch):
    paths = load(folder).paths
    expected = features(paths, cache=None)
    monkeypatch.setattr(encoder_features, "CHUNK", 16)
    plain = Tiny.forward

    def interrupted(self: Tiny, x: torch.Tensor) -> torch.Tensor:
        if Tiny.seen >= 20:
            raise KeyboardInterrupt
        return plain(self, x)

    Tiny.seen = 0
    monkeypatch.setattr(Tiny, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        features(paths)
    monkeypatch.setattr(Tiny, "forward", plain)
    Tiny.seen = 0
    np.testing.assert_array_equal(features(paths), expected)
    assert Tiny.seen == 1 + 24


def test_a_damaged_cache_is_passed_over(folder, tmp_path):
    paths = load(folder).paths
    Z = features(paths)
    (file,) = (tmp_path / "cache").rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(features(paths), Z)


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(folder, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert features(load(folder).paths).shape == (40, 12)


def test_the_cache_finds_what_was_added(tmp_path):
    names = [bytes([i]) * 32 for i in range(5)]
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    FeatureCache(tmp_path, "a/b").add(names[:3], values[:3])
    cache = FeatureCache(tmp_path, "a/b")
    cache.add(names[3:], values[3:])
    found = cache.get([names[4], b"?" * 32, names[1]])
    assert {place: row.tolist() for place, row in found.items()} == {0: [8.0, 9.0], 2: [2.0, 3.0]}
    assert FeatureCache(tmp_path, "other").get(names) == {}


def test_another_encoder_under_the_same_name_is_refused(folder, tmp_path, monkeypatch):
    paths = load(folder).paths
    model = EncoderFeatures(device="cpu", verbose=False).fit(paths)
    model.save(tmp_path / "model")
    again = EncoderFeatures.load(tmp_path / "model")
    assert again.encoder_ == "Tiny None"
    np.testing.assert_array_equal(again.transform(paths), model.transform(paths))
    monkeypatch.setattr(encoder_features, "open_encoder", lambda name, device: Tiny("cut", device))
    with pytest.raises(InputError, match="not the one that these features were made with"):
        EncoderFeatures.load(tmp_path / "model").transform(paths)


def test_a_saved_default_stays_what_it_was(folder, tmp_path, monkeypatch):
    class Packaged(Tiny):
        def __init__(self, name: str | None, device: torch.device):
            super().__init__(name, device)
            self.title = "EfficientNet-Lite2" if name is None else name

    monkeypatch.setattr(encoder_features, "open_encoder", Packaged)
    EncoderFeatures(device="cpu").fit(load(folder).paths).save(tmp_path / "model")
    again = EncoderFeatures.load(tmp_path / "model")
    assert again.name == "lite2"
    assert again.open().title == "lite2"


def invoke(*words: str) -> Any:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result


def test_a_run_remembers_its_encoder(folder, tmp_path):
    out = str(tmp_path / "run")
    labeled = (str(folder), "--labels", "folders")
    fitted = invoke("fit", *labeled, "-k", "2", "--features", "encoder:some/name", "--out", out)
    assert "Tiny some/name" in fitted.output
    assert "advice" not in fitted.output
    record = json.loads(Path(out, "run.json").read_text())
    assert record["features"]["name"] == "encoder:some/name"
    assert record["features"]["parameters"]["name"] == "some/name"
    assert record["data"]["reading"]["size"] == [8, 8]
    assert record["scores"]["error"] == 0.0
    assert Path(out, "report.html").exists()
    seen = Tiny.seen
    predicted = invoke("predict", out, *labeled, "--json")
    assert json.loads(predicted.stdout)["scores"]["error"] == 0.0
    assert Tiny.seen == seen  # all of it from the cache


def test_in_gray_if_asked(folder, tmp_path):
    out = str(tmp_path / "run")
    words = ("--features", "encoder", "--gray", "--out", out, "--no-report")
    invoke("fit", str(folder), "-k", "2", *words)
    record = json.loads(Path(out, "run.json").read_text())
    assert record["data"]["shape"] == [8, 8]
    assert record["data"]["reading"]["gray"]
    assert Tiny.seen == 41


def test_k_may_be_found_from_the_features(folder, tmp_path):
    out = str(tmp_path / "run")
    invoke("fit", str(folder), "-k", "auto", "--features", "encoder", "--out", out, "--no-report")
    assert json.loads(Path(out, "run.json").read_text())["n_clusters"] == 2
