"""--method auto: when training is tried, which of two clusterings is kept, and what is written."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from running import fit_run
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.estimators import views
from dcfsc.io import Dataset
from dcfsc.runs import automatic
from dcfsc.runs.automatic import execute_auto, obstacle
from dcfsc.runs.executor import execute_each
from dcfsc.runs.folder import Run, read_run
from dcfsc.runs.prediction import predict_run
from dcfsc.runs.request import RunRequest

OPTIONS: dict[str, Any] = {"n_clusters": 2, "random_state": 0, "device": "cpu"}


def auto(bars: Dataset, out: Path, **options: Any) -> Run:
    request = RunRequest(bars, "auto", OPTIONS | options, out=out, report=False)
    run = execute_auto(request)
    assert run is not None
    return run


@pytest.mark.parametrize(
    ("shape", "options", "more", "reason"),
    [
        ((1000, 8, 8), {}, {}, None),
        ((999, 8, 8), {}, {}, "training is for 1,000 to 200,000 images"),
        ((200_001, 1, 1), {}, {}, "training is for 1,000 to 200,000 images"),
        ((1000, 64), {}, {}, "the samples are no images"),
        ((1000, 8, 8), {"representation": "given"}, {}, "--representation is not for training"),
        ((1000, 8, 8), {}, {"features": "scattering"}, "the features are computed already"),
        ((1000, 8, 8), {"device": "cpu"}, {}, "training takes a GPU"),
    ],
)
def test_training_is_for_thousands_of_images_and_a_gpu(
    monkeypatch: pytest.MonkeyPatch, shape: Any, options: Any, more: Any, reason: str | None
) -> None:
    monkeypatch.setattr(
        automatic, "resolve_device", lambda d: torch.device("cuda" if d == "auto" else d)
    )
    X = np.zeros(shape, np.uint8)
    request = RunRequest(Dataset("x", X, None), "auto", {"n_clusters": 2, **options}, **more)
    assert obstacle(request) == reason


def test_without_a_gpu_it_is_the_closed_form(bars: Dataset, tmp_path: Path) -> None:
    run = auto(bars, tmp_path / "auto")
    plain = fit_run(bars, "closed-form", OPTIONS, tmp_path / "plain")
    assert run.record["method"] == "closed-form"
    assert run.record["auto"] == "training is for 1,000 to 200,000 images"
    assert (run.labels == plain.labels).all()


@pytest.mark.parametrize(("cuts", "method"), [((0.1, 0.2), "views"), ((0.2, 0.1), "closed-form")])
def test_the_clusters_that_cut_less_are_kept(
    bars: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: Any, method: str
) -> None:
    monkeypatch.setattr(automatic, "obstacle", lambda request: None)
    found = itertools.cycle(cuts)
    monkeypatch.setattr(views, "_cut", lambda *_: next(found))
    short = {"effort": "quick", "steps": 3, "batch_size": 16, "augmentations": {"noise": 1.0}}
    run = auto(bars, tmp_path / "auto", **short)
    options = OPTIONS | (short if method == "views" else {})
    alone = fit_run(bars, method, options, tmp_path / "alone")
    assert (run.labels == alone.labels).all()
    record = read_run(run.folder).record
    assert record["method"] == method
    assert record["parameters"].keys() == alone.record["parameters"].keys()
    assert record["auto"] == (
        f"training cuts {cuts[0]:.2%} of the affinity, the closed form {cuts[1]:.2%}"
    )
    assert (predict_run(run.folder, bars)[0] == predict_run(alone.folder, bars)[0]).all()


def test_the_command_says_what_was_kept_and_refuses_several_numbers(
    bars: Dataset, tmp_path: Path
) -> None:
    np.save(tmp_path / "bars.npy", bars.X)
    where = [str(tmp_path / "bars.npy"), "--method", "auto", "--no-report"]
    out = ["--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, ["fit", *where, "-k", "2", "--seed", "0", *out])
    assert result.exit_code == 0
    assert "closed-form: training is for 1,000 to 200,000 images" in " ".join(result.output.split())
    request = RunRequest(bars, "auto", OPTIONS)
    with pytest.raises(InputError, match="--method auto is for one number of clusters"):
        execute_each(request, (2, 3))
