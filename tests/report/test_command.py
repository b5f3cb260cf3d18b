"""`dcfsc fit` leaves a report, `dcfsc report` draws it again, and neither ever costs the run."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from running import fit_run
from typer.testing import CliRunner, Result

from dcfsc.cli import app
from dcfsc.io import Dataset, synthetic
from dcfsc.report import read_details
from dcfsc.runs import writing
from dcfsc.runs.folder import Run, read_run

FIT = ("-k", 3, "--method", "closed-form", "--device", "cpu", "--out", "run")
FIT_FILES = [".dcfsc.json", "clusters.csv", "labels.csv", "model.safetensors", "run.json"]
FILES = sorted([*FIT_FILES, "details.npz", "differences.csv", "report.html"])


def dcfsc(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture(autouse=True)
def npy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    path = tmp_path / "points.npy"
    np.save(path, synthetic(90, 3, 4, 20, random_state=0).X)
    return path


def test_fit_leaves_a_report_and_says_where(npy: Path) -> None:
    result = dcfsc("fit", npy, *FIT)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert sorted(os.listdir("run")) == FILES
    assert "run/report.html" in result.stdout
    assert len(read_details("run/details.npz").labels) == 90


def test_fit_without_a_report(npy: Path) -> None:
    result = dcfsc("fit", npy, *FIT, "--no-report")
    assert "report" not in result.stdout
    assert sorted(os.listdir("run")) == FIT_FILES
    again = dcfsc("report", "run")
    assert again.exit_code == 2
    (line,) = again.stderr.splitlines()
    assert "--no-report" in line


def test_fitting_anew_without_a_report_leaves_none_of_the_earlier_run(npy: Path) -> None:
    dcfsc("fit", npy, *FIT)
    dcfsc("fit", npy, *FIT, "--no-report", "--overwrite")
    assert sorted(os.listdir("run")) == FIT_FILES


def test_report_draws_the_same_page_again(npy: Path) -> None:
    dcfsc("fit", npy, *FIT)
    page = Path("run/report.html").read_bytes()
    Path("run/report.html").unlink()
    npy.unlink()
    assert "run/report.html" in dcfsc("report", "run").stdout
    assert Path("run/report.html").read_bytes() == page
    assert dcfsc("report", "run", "--out", "else/where.html", "--quiet").output == ""
    assert Path("else/where.html").read_bytes() == page


@pytest.mark.parametrize(
    ("name", "begins"), [("map.svg", b"<?xml"), ("map.PDF", b"%PDF"), ("map.png", b"\x89PNG")]
)
def test_the_map_is_a_picture_of_the_kind_of_its_ending(
    npy: Path, name: str, begins: bytes
) -> None:
    pytest.importorskip("matplotlib")
    dcfsc("fit", npy, *FIT)
    dcfsc("edit", "run", "0=_first $one")
    result = dcfsc("report", "run", "--map", name)
    assert result.exit_code == 0, result.output
    assert f"map             {name}" in result.stdout
    assert Path(name).read_bytes().startswith(begins)
    before = Path(name).read_bytes()
    refused = dcfsc("report", "run", "--map", name)
    assert refused.exit_code == 2
    assert f"{name} exists" in refused.stderr
    assert Path(name).read_bytes() == before
    assert dcfsc("report", "run", "--map", name, "--overwrite").exit_code == 0


def test_a_map_of_another_kind_is_refused(npy: Path) -> None:
    dcfsc("fit", npy, *FIT)
    result = dcfsc("report", "run", "--map", "map.jpg")
    assert result.exit_code == 2
    assert result.stderr == "error: --map takes a .svg, .pdf or .png file; got 'map.jpg'.\n"
    assert not Path("map.jpg").exists()


def test_report_with_the_images_of_the_features(npy: Path, tmp_path: Path) -> None:
    dcfsc("fit", npy, *FIT)
    images = np.random.default_rng(0).integers(0, 256, (90, 6, 6), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    before = Path("run/details.npz").read_bytes()
    assert dcfsc("report", "run", "--data", tmp_path / "images.npy").exit_code == 0
    assert 'class="px"' in Path("run/report.html").read_text()
    assert Path("run/details.npz").read_bytes() == before
    np.save(tmp_path / "few.npy", images[:7])
    for data, said in ((tmp_path / "few.npy", "7 samples"), (npy, "not images"), ("none", "none")):
        result = dcfsc("report", "run", "--data", data)
        assert result.exit_code == 2
        assert said in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("out", [".", "/proc/report/page.html"])
def test_page_that_cannot_be_written(npy: Path, out: str) -> None:
    dcfsc("fit", npy, *FIT)
    result = dcfsc("report", "run", "--out", out)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_run_that_is_none() -> None:
    result = dcfsc("report", "nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no run in" in result.stderr


@pytest.mark.parametrize("step", ["describe_details", "write_details", "write_report"])
def test_failing_report_is_one_warning_and_the_run_stays(
    npy: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*args: object, **options: object) -> None:
        raise ZeroDivisionError("by nothing\nat all")

    monkeypatch.setattr(writing, step, fails)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = dcfsc("fit", npy, *FIT)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: the run is saved in run, but its report could not be made")
    assert "ZeroDivisionError: by nothing" in line
    assert len(read_run("run").labels) == 90
    assert not Path("run/report.html").exists()
    assert not [name for name in os.listdir("run") if name.endswith(".part")]


@pytest.mark.parametrize("shape", [(30, 9), (30, 3, 3), (30, 3, 5, 4)])
@pytest.mark.parametrize("n_clusters", [2, 29])
def test_small_and_odd_data_have_reports(shape: tuple[int, ...], n_clusters: int) -> None:
    X = np.random.default_rng(0).normal(size=shape)
    options = {"n_clusters": n_clusters, "random_state": 0, "device": "cpu"}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the run is saved")
        run: Run = fit_run(
            Dataset("odd", X, np.arange(30) % 4), "closed-form", options, Path("run"), report=True
        )
    assert (run.folder / "report.html").stat().st_size > 20_000


def test_two_samples_have_a_report() -> None:
    X = np.array([[1.0, 0.1, 0.0], [0.1, 1.0, 0.0]])
    options = {"n_clusters": 2, "random_state": 0, "device": "cpu"}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the run is saved")
        fit_run(Dataset("two", X), "closed-form", options, Path("run"), report=True)
    assert "The number of clusters was given." in Path("run/report.html").read_text()
