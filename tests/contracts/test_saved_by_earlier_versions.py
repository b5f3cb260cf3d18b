"""What earlier versions saved is read: their models, and their runs by every command.

``tests/data/saved/make.py`` tells where the files come from.
"""

from __future__ import annotations

import csv
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import dcfsc
from dcfsc.cli import app

SAVED = Path(__file__).resolve().parents[1] / "data" / "saved"
INPUTS = SAVED / "inputs"
EXPECTED = {
    file.parent.name: json.loads(file.read_text(encoding="utf-8"))
    for file in sorted(SAVED.glob("*/expected.json"))
}


def over_all(kind: str) -> Any:
    names = [(version, name) for version, told in EXPECTED.items() for name in told[kind]]
    return pytest.mark.parametrize(("version", "name"), names)


def read_input(name: str) -> np.ndarray:
    if (INPUTS / name).is_dir():
        files = sorted((INPUTS / name).iterdir())
        return np.stack([np.asarray(Image.open(file)) for file in files])
    return np.loadtxt(INPUTS / f"{name}.csv", delimiter=",")


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def invoke(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.fixture
def run(version: str, name: str, tmp_path: Path) -> Path:
    """A copy of a saved run."""
    return Path(shutil.copytree(SAVED / version / "runs" / name, tmp_path / name))


def clusters_of(run: Path) -> np.ndarray:
    """The labels of a run's samples, as edited."""
    labels = np.array([int(row["label"]) for row in rows(run / "labels.csv")])
    if (run / "edits.json").exists():  # clusters 1 and 2 are merged
        labels[labels == 2] = 1
    return labels


def test_there_are_files_of_every_minor_version_before_this_one() -> None:
    major, minor = map(int, dcfsc.__version__.split(".")[:2])
    released = [(1, 0), (1, 1)]
    if major > 1:
        released += [(major, earlier) for earlier in range(minor)]
    needed = {f"{one}.{other}" for one, other in released if (one, other) < (major, minor)}
    assert needed <= EXPECTED.keys()
    assert all(told["models"] and told["runs"] for told in EXPECTED.values())


@over_all("models")
def test_a_model_says_what_it_said(version: str, name: str) -> None:
    told = EXPECTED[version]["models"][name]
    model: Any = dcfsc.load(SAVED / version / "models" / f"{name}.safetensors", device="cpu")
    new = read_input(told["new"])
    if "predict" in told:
        np.testing.assert_array_equal(model.labels_, told["labels"])
        np.testing.assert_array_equal(model.predict(new), told["predict"])
        np.testing.assert_allclose(model.predict_proba(new), told["predict_proba"], atol=2e-4)
    if "transform" in told:
        np.testing.assert_allclose(model.transform(new), told["transform"], atol=1e-4)


@over_all("models")
def test_a_model_is_saved_again_as_it_was(version: str, name: str, tmp_path: Path) -> None:
    told = EXPECTED[version]["models"][name]
    model: Any = dcfsc.load(SAVED / version / "models" / f"{name}.safetensors", device="cpu")
    model.save(tmp_path / "again.safetensors")
    again: Any = dcfsc.load(tmp_path / "again.safetensors", device="cpu")
    ask = "predict_proba" if "predict" in told else "transform"
    new = read_input(told["new"])
    np.testing.assert_array_equal(getattr(again, ask)(new), getattr(model, ask)(new))


@over_all("runs")
def test_predict_by_a_run(version: str, name: str, run: Path) -> None:
    told = EXPECTED[version]["runs"][name]
    invoke("predict", run, INPUTS / told["new"], "--device", "cpu")
    predicted = [int(row["label"]) for row in rows(run / "predictions.csv")]
    assert predicted == told["predict"]


@over_all("runs")
def test_edits_of_a_run(version: str, name: str, run: Path) -> None:
    sizes = {k: int(n) for k, n in enumerate(np.bincount(clusters_of(run))) if n}

    def listed(*edits: str) -> tuple[dict[int, int], dict[int, str]]:
        clusters = json.loads(invoke("name", run, *edits, "--json"))["clusters"]
        return (
            {c["cluster"]: c["size"] for c in clusters},
            {c["cluster"]: c["name"] for c in clusters if c["name"]},
        )

    before = {0: "zeros"} if name == "images" else {}
    assert listed() == (sizes, before)
    invoke("report", run)  # the page is then drawn again at each edit
    assert listed("1=second") == (sizes, {**before, 1: "second"})
    assert "second" in (run / "report.html").read_text(encoding="utf-8")
    merged, names = listed("--merge", "0,1")
    assert merged == {0: sizes[0] + sizes[1], **{k: n for k, n in sizes.items() if k > 1}}
    assert names.keys() == {0}
    assert listed("--undo") == (sizes, {**before, 1: "second"})
    split, _ = listed("--split", "0")
    assert len(split) == len(sizes) + 1
    assert sum(split.values()) == sum(sizes.values())


@over_all("runs")
def test_the_report_of_a_run(version: str, name: str, run: Path) -> None:
    invoke("report", run, "--out", run.parent / "page.html")
    page = (run.parent / "page.html").read_text(encoding="utf-8")
    assert ("zeros" in page) == (name == "images")
    for size in np.bincount(clusters_of(run)):
        assert str(size) in page


@over_all("runs")
def test_the_export_of_a_run(version: str, name: str, run: Path) -> None:
    invoke("export", run, "--to", "csv")
    exported = rows(run / "export.csv")
    assert [int(row["cluster"]) for row in exported] == clusters_of(run).tolist()
    if name == "images":
        assert {row["name"] for row in exported if row["cluster"] == "0"} == {"zeros"}


@pytest.mark.parametrize("version", EXPECTED)
def test_the_images_of_a_run_are_copied_to_folders(version: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(SAVED / version / "runs" / "images", tmp_path / "images"))
    first = rows(run / "labels.csv")[0]["path"]  # starts from the data folder, or from above it
    data = INPUTS if (INPUTS / first).exists() else INPUTS / "images"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        invoke(
            "export", run, "--to", "folders", "--copy", "--data", data, "--out", tmp_path / "out"
        )
    copied = sorted((tmp_path / "out").glob("*/*.png"))
    assert len(copied) == len(rows(run / "labels.csv"))
    labels = clusters_of(run)
    for path in copied:
        index = int(path.stem[-2:])
        assert path.read_bytes() == (INPUTS / "images" / f"{index:02}.png").read_bytes()
        assert ("zeros" in path.parent.name) == (labels[index] == 0)
