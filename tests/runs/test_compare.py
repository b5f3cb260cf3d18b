"""Comparisons of runs name the better run as the better, in whatever order they are given."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_run

from dcfsc import metrics
from dcfsc.io import Dataset, synthetic
from dcfsc.journal import digest
from dcfsc.runs.compare import Side, compare_runs, judged
from dcfsc.runs.editing import edit_run
from dcfsc.runs.folder import read_run

OPTIONS = {"n_clusters": 3, "random_state": 0, "device": "cpu", "representation": "given"}
SAMPLES = synthetic(90, 3, 3, 20, random_state=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that finds the classes."""
    folder = tmp_path_factory.mktemp("compare") / "whole"
    fit_run(SAMPLES, "closed-form", OPTIONS, folder)
    return folder


def rewritten(
    run: Path,
    folder: Path,
    labels: np.ndarray,
    confidence: np.ndarray,
    stability: float | None,
    labeled: bool,
) -> Path:
    """A run like another one, but with other labels, confidences and stability."""
    folder.mkdir(parents=True)
    with open(run / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in rows[0] if labeled or name != "true_label"]
    with open(folder / "labels.csv", "w", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        for row, label, certainty in zip(rows, labels, confidence, strict=True):
            table.writerow({**row, "label": label, "confidence": f"{certainty:.4f}"})
    record = json.loads((run / "run.json").read_text())
    record |= {"model": None, "files": {"labels.csv": digest(folder / "labels.csv")}}
    record["stability"] = {} if stability is None else {"given": stability}
    record["representation"] = "given"
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def pair(whole: Path, tmp_path: Path, **known: Any) -> tuple[Path, Path]:
    """A good run and a bad one: the second has a third of the samples in a wrong cluster."""
    good = read_run(whole).labels
    bad = np.where(np.arange(90) % 3 == 0, (good + 1) % 3, good)
    labeled = known.get("labeled", False)
    runs = []
    for name, labels in (("good", good), ("bad", bad)):
        confidence = np.full(90, known.get(f"{name}_confidence", 0.8))
        stability = known.get(f"{name}_stability")
        folder = tmp_path / name
        runs.append(rewritten(whole, folder, labels, confidence, stability, labeled))
    return runs[0], runs[1]


# What decides, with everything that comes after it in favor of the other run.
DECIDES = {
    "the error": {
        "labeled": True,
        "good_stability": 0.6,
        "bad_stability": 0.95,
        "good_confidence": 0.5,
        "bad_confidence": 0.9,
    },
    "the stability": {
        "good_stability": 0.95,
        "bad_stability": 0.6,
        "good_confidence": 0.5,
        "bad_confidence": 0.9,
    },
    "the confidence": {"good_stability": 0.95, "good_confidence": 0.9, "bad_confidence": 0.5},
}
WORDS = {
    "the error": "good differs less from the given labels (0.00% against 33.33%).",
    "the stability": "good is more stable: partitions of random subsamples agree more "
    "(0.950 against 0.600).",
    "the confidence": "good has the higher mean confidence (0.900 against 0.500).",
}


@pytest.mark.parametrize("decides", DECIDES)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_better_run_is_named(whole: Path, tmp_path: Path, decides: str, swapped: bool) -> None:
    runs = pair(whole, tmp_path, **DECIDES[decides])
    page = tmp_path / "page.html"
    comparison = compare_runs(*(runs[::-1] if swapped else runs), page)
    assert comparison.better == int(swapped)
    assert comparison.sides[comparison.better].name == "good"
    assert comparison.verdict == WORDS[decides]
    assert WORDS[decides] in page.read_text()


def test_runs_that_are_alike_have_no_better_one(whole: Path, tmp_path: Path) -> None:
    one, other = pair(whole, tmp_path, good_confidence=0.8, bad_confidence=0.795)
    comparison = compare_runs(one, other)
    assert comparison.better is None
    expected = "Neither run is clearly better: their confidence is 0.800 and 0.795."
    assert comparison.verdict == expected


@pytest.mark.parametrize("unknown", ["error", "stability"])
def test_what_is_known_of_one_run_alone_does_not_decide(unknown: str) -> None:
    bad = Side("bad", {}, error=0.5, stability=0.5, confidence=0.5)
    good = Side("good", {}, error=0.1, stability=0.9, confidence=0.9)
    for one, other in ((replace(bad, **{unknown: None}), good), (bad, replace(good, error=None))):
        better, verdict = judged(one, other)
        assert better == 1
        assert verdict.startswith("good ")


def test_the_numbers_are_those_of_the_two_partitions(whole: Path, tmp_path: Path) -> None:
    one, other = pair(whole, tmp_path, labeled=True)
    labels = [read_run(run).labels for run in (one, other)]
    result = compare_runs(one, other)
    assert (result.n, result.moved) == (90, 30)
    assert result.matched == pytest.approx(2 / 3)
    assert result.ari == metrics.ari(*labels)
    assert result.nmi == metrics.nmi(*labels)
    assert result.matrix["counts"].sum() == 90
    assert np.diag(result.matrix["counts"]).sum() == 60  # columns are matched to rows
    assert sum(flow.count for flow in result.flows) == 30
    for flow in result.flows:
        members = (labels[0] == int(flow.source)) & (labels[1] == int(flow.target))
        assert flow.count == members.sum()
        assert flow.share == members.sum() / (labels[0] == int(flow.source)).sum()
        assert members[list(flow.samples)].all()
        assert len(flow.samples) == flow.count


def test_the_error_is_that_of_the_clusters_as_edited(whole: Path, tmp_path: Path) -> None:
    fit_run(Dataset("same", SAMPLES.X, SAMPLES.y), "closed-form", OPTIONS, tmp_path / "edited")
    edit_run(tmp_path / "edited", {}, [["1", "2"]])
    result = compare_runs(whole, tmp_path / "edited")
    assert result.sides[1].error == pytest.approx(1 / 3)
    assert result.sides[1].facts["Edits"] == "named, merged or split"
    assert result.better == 0
