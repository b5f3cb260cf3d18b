"""Texts on the command line, as a person with answers to a survey uses it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_texts import write_text_model
from typer.testing import CliRunner

from dcfsc import ClosedFormSubspaceClustering, TextEncoderFeatures
from dcfsc.cli import app
from dcfsc.estimators import encoder_features
from dcfsc.features import encoder_backends
from dcfsc.metrics import clustering_error
from dcfsc.report import cluster_words
from dcfsc.runs.folder import read_run

KINDS = (["bus", "late"], ["soup", "cold"])


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small model; the cache is there, too."""
    write_text_model(tmp_path / "model", [("Pooling", {}), ("Normalize", {})])
    monkeypatch.setattr(encoder_features, "default_place", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dcfsc(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def answers(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of two kinds in turn, and their kinds."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 2
    return [" ".join(rng.choice(KINDS[k], rng.integers(3, 8))) for k in kind], kind


def in_python(texts: list[str]) -> ClosedFormSubspaceClustering:
    """The same fit without the command line."""
    Z = TextEncoderFeatures("model", device="cpu").fit_transform(texts)
    options: dict[str, Any] = {"random_state": 0, "device": "cpu", "representation": "given"}
    return ClosedFormSubspaceClustering(2, **options).fit(Z)


FIT = ("-k", "2", "--features", "encoder:model", "--device", "cpu", "--representation", "given")


def test_a_text_a_line(place: Path) -> None:
    texts, kind = answers(40)
    lines = [*texts[:10], "", *texts[10:], "", ""]
    (place / "answers.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "kinds.csv").write_text("\n".join(["label", *map(str, kind)]))
    said = dcfsc("fit", "answers.txt", *FIT, "--labels", "kinds.csv", "--out", "run")
    assert "answers: 40 texts, 2 classes" in said
    assert "3 of 43 lines are blank and were left out" in said
    run = read_run(Path("run"))
    assert run.record["scores"]["error"] == clustering_error(kind, run.labels)
    expected = in_python(texts)
    assert run.labels.tolist() == expected.labels_.tolist()
    assert run.record["data"]["dtype"] == "text"
    assert run.record["features"]["name"] == "encoder:model"
    page = Path("run", "report.html").read_text(encoding="utf-8")
    for words in cluster_words(texts, run.labels).values():
        assert f'<p class="words" dir="auto">{", ".join(words)}</p>' in page
    (place / "new.txt").write_text("cold cold soup\n\nbus late\n")
    found = json.loads(dcfsc("predict", "run", "new.txt", "--json", "--device", "cpu"))
    new = TextEncoderFeatures("model", device="cpu").fit_transform(["cold cold soup", "bus late"])
    assert found["labels"] == expected.predict(new).tolist()
    dcfsc("report", "run", "--quiet")
    assert Path("run", "report.html").read_text(encoding="utf-8") == page


def test_the_same_texts_are_the_same_run(place: Path) -> None:
    texts, _ = answers(20)
    (place / "a.txt").write_text("\n".join(texts))
    dcfsc("fit", "a.txt", *FIT, "--out", "run", "--no-report")
    dcfsc("fit", "a.txt", *FIT, "--out", "run", "--no-report", "--resume")  # finished already
    (place / "a.txt").write_text("\n".join([*texts[:-1], "soup"]))
    line = refused("fit", "a.txt", *FIT, "--out", "run", "--no-report", "--resume")
    assert "differs in data's fingerprint" in line


def test_suggest_k(place: Path) -> None:
    (place / "a.txt").write_text("\n".join(answers(60)[0]))
    common = ("suggest-k", "a.txt", "--features", "encoder:model", "--max-k", "5")
    assert json.loads(dcfsc(*common, "--device", "cpu", "--json"))["n_samples"] == 60


def test_samples_of_another_kind_are_refused(place: Path) -> None:
    (place / "a.txt").write_text("\n".join(answers(20)[0]))
    np.save(place / "numbers.npy", np.random.default_rng(0).normal(size=(20, 3)))
    dcfsc("fit", "a.txt", *FIT, "--out", "texts", "--no-report")
    dcfsc("fit", "numbers.npy", "-k", "2", "--device", "cpu", "--out", "numbers", "--no-report")
    line = refused("predict", "texts", "numbers.npy")
    assert "the run texts is of texts; numbers holds none" in line
    line = refused("predict", "numbers", "a.txt")
    assert "the run numbers is of numbers or images; a holds texts" in line
    line = refused("fit", "a.txt", "-k", "2", "--features", "scattering")
    assert "unknown features of texts 'scattering'" in line
    line = refused("fit", "a.txt", "-k", "2", "--labels", "kind")
    assert "labels='kind' is not a file" in line


def test_without_the_extra_one_line_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_backends, "installed", lambda *packages: False)
    (place / "a.txt").write_text("\n".join(answers(20)[0]))
    for command in (("fit", "a.txt", "-k", "2"), ("suggest-k", "a.txt")):
        line = refused(*command)
        assert "pip install 'dcfsc[texts]'" in line
    assert not Path("runs").exists()
