"""A run is of its data and labels: what goes on with it, or is compared with it, has the same."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.io import Dataset, load, synthetic
from dcfsc.io.digest import digest_of
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, Reading
from dcfsc.io.streamed import stream_npy
from dcfsc.runs.compare import compare_runs
from dcfsc.training import loop

OPTIONS: dict[str, Any] = {"n_clusters": 3, "random_state": 0, "device": "cpu"}
TRAINING = {**OPTIONS, "pretrain_epochs": 1, "steps": 4}


@pytest.fixture
def data() -> Dataset:
    """More samples than any handful of witnesses."""
    return synthetic(300, 3, 3, 12, random_state=0)


def changed(data: Dataset, row: int = 1) -> Dataset:
    X = data.X.copy()
    X[row, 5] += 1e-3
    return Dataset(data.name, X, data.y)


def relabeled(data: Dataset) -> Dataset:
    y = data.y.copy()
    y[7] = (y[7] + 1) % 3
    return Dataset(data.name, data.X, y)


@pytest.mark.parametrize("row", [1, 7, 298])
def test_an_interrupted_run_does_not_go_on_with_other_data(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    check = loop.check_finite

    def interrupt(loss: float, phase: str, now: int, learning_rate: float) -> None:
        check(loss, phase, now, learning_rate)
        if (phase, now) == ("training", 2):
            os.kill(os.getpid(), 2)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "check_finite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit_run(data, "dcfsc", TRAINING, tmp_path / "run")
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    for other in (changed(data, row), relabeled(data), Dataset(data.name, data.X)):
        with pytest.raises(InputError, match="belongs to a run with other data or parameters"):
            fit_run(other, "dcfsc", TRAINING, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before
    resumed = fit_run(data, "dcfsc", TRAINING, tmp_path / "run", resume=True)
    whole = fit_run(data, "dcfsc", TRAINING, tmp_path / "whole")
    np.testing.assert_array_equal(resumed.labels, whole.labels)


def test_a_finished_run_is_not_that_of_other_data(data: Dataset, tmp_path: Path) -> None:
    fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    for other, what in ((changed(data), "fingerprint"), (relabeled(data), "labels")):
        with pytest.raises(InputError, match=f"differs in data's {what};"):
            fit_run(other, "closed-form", OPTIONS, tmp_path / "run", resume=True)


def test_runs_of_different_data_are_not_compared_in_silence(data: Dataset, tmp_path: Path) -> None:
    for name, each in {"a": data, "b": changed(data), "c": relabeled(data)}.items():
        fit_run(each, "closed-form", OPTIONS, tmp_path / name)
    with pytest.warns(UserWarning, match="a and .*b are of different data; .* row by row") as told:
        compare_runs(tmp_path / "a", tmp_path / "b", tmp_path / "page.html")
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # labels only score
        compare_runs(tmp_path / "a", tmp_path / "c", tmp_path / "other.html")


def test_runs_of_files_are_compared_by_the_files_they_share(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()

    def write(i: int) -> None:
        pixels = rng.integers(200 * (i % 2), 200 * (i % 2) + 50, (8, 8))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")

    def fit(name: str, **reading: Any) -> None:
        fit_run(
            load(folder, **reading), "closed-form", {**OPTIONS, "n_clusters": 2}, tmp_path / name
        )

    for i in range(20):
        write(i)
    fit("a")
    fit("small", size=(6, 6))
    write(20)
    fit("more")
    write(3)
    fit("new")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_runs(tmp_path / "a", tmp_path / "small", tmp_path / "1.html")
        compare_runs(tmp_path / "a", tmp_path / "more", tmp_path / "2.html")
    with pytest.warns(UserWarning, match="names of their files, whose content has changed"):
        compare_runs(tmp_path / "more", tmp_path / "new", tmp_path / "3.html")


def test_a_digest_is_of_every_sample_and_its_place(data: Dataset, tmp_path: Path) -> None:
    X = data.X
    whole = digest_of(X)
    assert whole == (digest_of(X[:100]) + digest_of(X[100:], 100)) % (1 << 256)
    assert whole == digest_of(np.asfortranarray(X))
    np.save(tmp_path / "x.npy", X)
    assert whole == digest_of(stream_npy(tmp_path / "x.npy"))
    swapped = X.copy()
    swapped[[0, 1]] = X[[1, 0]]
    others = [changed(data, row).X for row in range(0, 300, 23)]
    found = {whole, *map(digest_of, (swapped, X[:-1], *others))}
    assert len(found) == 3 + len(others)


def test_files_that_are_not_decoded_are_known_by_their_content_and_reading(tmp_path: Path) -> None:
    for i in range(5):
        Image.fromarray(np.full((6, 6), 40 * i, np.uint8)).save(tmp_path / f"{i}.png")
    sources = [ImageSource.file(tmp_path / f"{i}.png") for i in range(5)]
    X = StreamedImages("x", sources, Reading((6, 6)))
    before = digest_of(X)
    assert digest_of(X.read_as(Reading((6, 6), keep_aspect=True))) != before
    assert not X._decoded.any()
    Image.fromarray(np.full((6, 6), 7, np.uint8)).save(tmp_path / "2.png")
    assert digest_of(X) != before
