"""The commands that use a run: name, export, compare; and fit with several numbers of clusters."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.io import synthetic
from dcfsc.runs.folder import read_run

CLOSED_FORM = ("--method", "closed-form", "--representation", "given", "--device", "cpu")


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data = synthetic(90, 3, 3, 20, random_state=0)
    np.savez("points.npz", X=data.X, y=data.y)
    return tmp_path


def rows(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_name_lists_edits_and_undoes(place: Path) -> None:
    done("fit", "points.npz", "-k", 3, *CLOSED_FORM, "--out", "run", "--quiet")
    before = Path("run/report.html").read_text()
    assert done("name", "run") == done("edit", "run")  # its name before version 2
    assert [line.split() for line in done("edit", "run").splitlines()] == [
        ["cluster", "name", "samples"],
        *([str(k), "30"] for k in range(3)),
    ]
    assert done("edit", "run", "1=gray seals", "--merge", "0,2", "--quiet") == ""
    listed = json.loads(done("edit", "run", "--json"))["clusters"]
    assert listed == [
        {"cluster": 0, "name": None, "size": 60},
        {"cluster": 1, "name": "gray seals", "size": 30},
    ]
    assert "gray seals" in Path("run/report.html").read_text()
    assert "nothing to change" in done("edit", "run", "1=gray seals")
    assert len(done("edit", "run", "--undo").splitlines()) == 4
    assert Path("run/report.html").read_text() == before
    assert "no edit to undo" in refused("edit", "run", "--undo")


def test_name_refuses_in_one_line(place: Path) -> None:
    done("fit", "points.npz", "-k", 3, *CLOSED_FORM, "--out", "run", "--quiet", "--no-report")
    assert "write CLUSTER=NAME" in refused("edit", "run", "seals")
    assert "named twice" in refused("edit", "run", "0=a", "0=b")
    assert "--merge takes two or more clusters" in refused("edit", "run", "--merge", "1")
    assert "--undo cannot be combined" in refused("edit", "run", "0=a", "--undo")
    assert "no details.npz" in refused("edit", "run", "--split", "1")
    assert "there is no run in" in refused("edit", "none")
    assert "points.npz is a file; give the folder of a run" in refused("edit", "points.npz")
    assert not Path("run/edits.json").exists()


def test_edits_reach_predictions_and_exports(place: Path) -> None:
    done("fit", "points.npz", "-k", 3, *CLOSED_FORM, "--out", "run", "--quiet")
    done("edit", "run", "0=zebras", "--merge", "1,2", "--quiet")
    labels = read_run(Path("run")).labels
    shown = json.loads(done("predict", "run", "points.npz", "--json"))
    assert shown["labels"] == np.where(labels == 2, 1, labels).tolist()
    assert shown["cluster_sizes"] == [30, 60]
    assert {row["name"] for row in rows("run/predictions.csv")} == {"zebras", "1"}
    assert "export.csv" in done("export", "run", "--to", "csv")
    assert [int(row["cluster"]) for row in rows("run/export.csv")] == shown["labels"]
    assert "kind of export 'xml'" in refused("export", "run", "--to", "xml")
    assert "did not come from files" in refused("export", "run", "--to", "folders")


def test_compare_prints_the_agreement(place: Path) -> None:
    done("fit", "points.npz", "-k", "3,2", *CLOSED_FORM, "--out", "run", "--quiet")
    printed = json.loads(done("compare", "run/k3", "run/k2", "--out", "c.html", "--json"))
    assert (printed["n"], printed["moved"]) == (90, 30)
    assert printed["matched"] == pytest.approx(2 / 3)
    assert sum(count for _, _, count in printed["flows"]) == 30
    assert 0 < printed["ari"] < printed["nmi"] < 1
    assert (printed["better"], printed["page"]) == (0, "c.html")
    assert printed["verdict"].startswith("run/k3 differs less from the given labels (0.00%")
    before = sorted(os.listdir())
    same = done("compare", "run/k3", "run/k3")
    assert sorted(os.listdir()) == before  # a page is written only with --out
    assert "0 of them moved" in same
    assert "Neither run is clearly better" in same
    facts = [line for line in same.splitlines() if line.startswith(("samples", "matching", "ARI"))]
    assert {len(re.split(r"(?<=  )(?! )", line)[0]) for line in facts} == {19}  # they line up
    table = [line.split() for line in done("compare", "run/k3", "run/k2").splitlines()]
    assert ["run/k3", "run/k2"] in table
    assert ["clusters", "3", "2"] in table
    assert ["from", "to", "samples", "moved"] in table
    page = Path("c.html").read_bytes()
    to = ("--out", "c.html")
    assert "c.html exists; choose another" in refused("compare", "run/k3", "run/k3", *to)
    assert Path("c.html").read_bytes() == page
    done("compare", "run/k3", "run/k3", *to, "--overwrite", "--quiet")
    assert Path("c.html.bak").read_bytes() == page != Path("c.html").read_bytes()
    np.save("less.npy", np.load("points.npz")["X"][:60])
    done("fit", "less.npy", "-k", 3, *CLOSED_FORM, "--out", "less", "--quiet")
    assert "90 and 60 samples without ids or paths" in refused(
        "compare", "run/k3", "less", "--out", "d.html"
    )


def test_several_numbers_of_clusters_are_several_runs(place: Path) -> None:
    table = done("fit", "points.npz", "-k", "2,6,3", *CLOSED_FORM, "--out", "all").splitlines()
    assert [line.split()[0] for line in table[-3:]] == ["2", "6", "3"]
    assert sorted(os.listdir("all")) == ["k2", "k3", "k6"]
    assert read_run(Path("all/k3")).record["scores"]["error"] == 0.0
    assert read_run(Path("all/k6")).record["n_clusters"] == 6
    for k in (2, 3, 6):
        done("predict", f"all/k{k}", "points.npz", "--quiet")
        predicted, fitted = (rows(f"all/k{k}/{n}.csv") for n in ("predictions", "labels"))
        agree = [a["label"] == b["label"] for a, b in zip(predicted, fitted, strict=True)]
        assert np.mean(agree) > 0.9
    printed = json.loads(done("fit", "points.npz", "-k", "2,3", *CLOSED_FORM, "--json"))
    assert [r["run"] for r in printed] == [
        "runs/points-closed-form-k2",
        "runs/points-closed-form-k3",
    ]


def test_several_numbers_that_cannot_be(place: Path) -> None:
    for text in ("2,2", "2,auto", "2,,3", "2,x"):
        assert "-k takes" in refused("fit", "points.npz", "-k", text, *CLOSED_FORM)
    assert "91" in refused("fit", "points.npz", "-k", "3,91", *CLOSED_FORM, "--out", "run")
    assert not Path("run").exists()
    done("fit", "points.npz", "-k", "3", *CLOSED_FORM, "--out", "run/k2", "--quiet")
    assert "finished run" in refused("fit", "points.npz", "-k", "3,2", *CLOSED_FORM, "--out", "run")
    assert sorted(os.listdir("run")) == ["k2"]
    resumed = ("fit", "points.npz", "-k", "3,2", *CLOSED_FORM, "--out", "run", "--resume")
    assert "--resume is for one number" in refused(*resumed)
