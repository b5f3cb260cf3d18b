"""Tables as people have them: fit, and predict from a file with its columns in another order."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.metrics import clustering_error
from dcfsc.runs.compare import compare_runs
from dcfsc.runs.folder import read_run

pd = pytest.importorskip("pandas")
PLAIN = ("--device", "cpu", "--representation", "given", "--no-report")
N, K = 90, 3
TRUTH = np.arange(N) % K


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def frame() -> Any:
    """Points of three planes in six dimensions."""
    rng = np.random.default_rng(0)
    planes = rng.normal(size=(K, 2, 6))
    X = np.stack([rng.normal(size=2) @ planes[k] for k in TRUTH])
    return pd.DataFrame(X.round(6), columns=[f"x{j}" for j in range(6)])


def dcfsc(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def rows_of(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def clusters_by_id(path: str) -> dict[str, str]:
    return {row["id"]: row["label"] for row in rows_of(path)}


def test_ids_text_and_gaps(frame: Any) -> None:
    frame.insert(0, "name", [f"Person, {i}" for i in range(N)])
    frame["code"] = [f"s{i}" for i in range(N)]
    frame.loc[[3, 7], "x1"] = None
    frame.loc[7, "x2"] = None
    frame.to_csv("people.csv", index=False)
    line = refused("fit", "people.csv", "-k", "3", "--id", "code", "--out", "run", *PLAIN)
    said = "3 missing or infinite values, in 2 of 90 rows (the first is row 5): x1 (2), x2 (1)"
    assert f"people.csv: {said}; set aside, not numbers: name ('Person, 0')" in line
    command = line.split("To go on: ")[1]
    said = dcfsc(*shlex.split(command)[1:])
    assert "2 of 90 rows with missing values in x1 (2), x2 (1) were left out" in said
    found = clusters_by_id("run/labels.csv")
    kept = [i for i in range(N) if i not in (3, 7)]
    assert [*found] == [f"s{i}" for i in kept]
    assert clustering_error(TRUTH[kept], np.array([int(k) for k in found.values()])) == 0
    new = frame.iloc[::-1, ::-1].assign(extra="?")
    new.to_csv("new.csv", index=False)
    dcfsc("predict", "run", "new.csv", "--device", "cpu", "--out", "predicted.csv")
    assert clusters_by_id("predicted.csv") == found
    dcfsc("export", "run", "--to", "csv", "--out", "export.csv")
    assert [row["id"] for row in rows_of("export.csv")] == [*found]
    new.drop(columns=["x1", "x4"]).to_csv("new.csv", index=False)
    line = refused("predict", "run", "new.csv", "--device", "cpu")
    assert "new.csv lacks columns 'x1', 'x4' of the run" in line
    Path("images").mkdir()
    for i in range(3):
        Image.fromarray(np.full((4, 4), 50 * i, np.uint8)).save(f"images/{i}.png")
    line = refused("predict", "run", "images", "--device", "cpu")
    assert "the run run is of a table; images is not." in line


def test_medians_are_those_of_the_fit(frame: Any) -> None:
    frame.loc[[3, 7], "x1"] = None
    frame.to_csv("a.csv", index=False)
    dcfsc("fit", "a.csv", "-k", "3", "--missing", "median", "--out", "run", *PLAIN)
    median = frame["x1"].median()
    assert read_run("run").record["data"]["reading"]["medians"][1] == pytest.approx(median)
    frame.assign(x1=frame["x1"].fillna(median)).to_csv("full.csv", index=False)
    frame.iloc[:, ::-1].to_csv("gaps.csv", index=False)
    for name in ("full", "gaps"):
        dcfsc("predict", "run", f"{name}.csv", "--device", "cpu", "--out", f"{name}.out.csv")
    assert rows_of("full.out.csv") == rows_of("gaps.out.csv")
    labels = [row["label"] for row in rows_of("run/labels.csv")]
    assert [row["label"] for row in rows_of("gaps.out.csv")] == labels


def test_semicolons_and_decimal_commas(frame: Any) -> None:
    frame.insert(3, "id", [f"s{i}" for i in range(N)])
    frame.to_csv("a.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    dcfsc("fit", "a.csv", "-k", "3", "--out", "run", *PLAIN)
    found = clusters_by_id("run/labels.csv")
    assert clustering_error(TRUTH, np.array([int(k) for k in found.values()])) == 0
    frame.iloc[:, ::-1].to_csv("new.csv", index=False)
    dcfsc("predict", "run", "new.csv", "--device", "cpu", "--out", "predicted.csv")
    assert clusters_by_id("predicted.csv") == found


def test_a_workbook(frame: Any) -> None:
    pytest.importorskip("openpyxl")
    frame.insert(0, "id", [f"s{i}" for i in range(N)])
    frame["year"] = 2000 + TRUTH
    frame.to_excel("a.xlsx", index=False)
    said = dcfsc("fit", "a.xlsx", "-k", "3", "--ignore", "y*", "--out", "run", *PLAIN)
    assert "90 samples of 6 float64" in said
    found = clusters_by_id("run/labels.csv")
    assert clustering_error(TRUTH, np.array([int(k) for k in found.values()])) == 0
    frame.iloc[:, ::-1].to_excel("new.xlsx", index=False)
    dcfsc("predict", "run", "new.xlsx", "--device", "cpu", "--out", "predicted.csv")
    assert clusters_by_id("predicted.csv") == found


def test_genes_in_rows_with_counts() -> None:
    rng = np.random.default_rng(0)
    means = rng.gamma(0.3, 4.0, (K, 200))
    counts = pd.DataFrame(
        rng.poisson(means[TRUTH]).T,
        index=pd.Index([f"gene{j}" for j in range(200)], name="gene"),
        columns=[f"cell{i}" for i in range(N)],
    )
    counts.to_csv("counts.tsv", sep="\t")
    dcfsc("fit", "counts.tsv", "-k", "3", "--transpose", "--out", "run", *PLAIN)
    found = clusters_by_id("run/labels.csv")
    assert [*found] == [*counts.columns]
    assert clustering_error(TRUTH, np.array([int(k) for k in found.values()])) == 0
    order = rng.permutation(200)
    counts.iloc[order, ::-1].to_csv("new.csv")
    dcfsc("predict", "run", "new.csv", "--device", "cpu", "--out", "predicted.csv")
    assert clusters_by_id("predicted.csv") == found
    counts.iloc[3:].to_csv("new.csv")
    line = refused("predict", "run", "new.csv", "--device", "cpu")
    assert "new.csv lacks rows 'gene0', 'gene1', 'gene2' of the run" in line


def test_a_column_of_vectors_with_ids(frame: Any) -> None:
    table = pd.DataFrame({"id": [f"s{i}" for i in range(N)], "n": range(N)})
    table["embedding"] = frame.to_numpy().tolist()
    table.to_parquet("a.parquet")
    said = dcfsc("fit", "a.parquet", "-k", "3", "--out", "run", *PLAIN)
    assert "set aside, beside the vectors: n" in said
    found = clusters_by_id("run/labels.csv")
    table.iloc[::-1, ::-1].to_json("new.jsonl", orient="records", lines=True)
    dcfsc("predict", "run", "new.jsonl", "--device", "cpu", "--out", "predicted.csv")
    assert clusters_by_id("predicted.csv") == found


def test_runs_are_compared_by_id(frame: Any) -> None:
    frame.insert(0, "id", [f"s{i}" for i in range(N)])
    frame.to_csv("a.csv", index=False)
    frame.sample(frac=0.8, random_state=0).to_csv("b.csv", index=False)
    for name in "ab":
        dcfsc("fit", f"{name}.csv", "-k", "3", "--out", name, *PLAIN)
    result = compare_runs(Path("a"), Path("b"))
    assert (result.n, result.moved) == (72, 0)


def test_labels_by_name_and_by_id(frame: Any) -> None:
    frame["kind"] = [f"kind {k}" for k in TRUTH]
    frame.insert(0, "id", [f"s{i}" for i in range(N)])
    frame.to_csv("a.csv", index=False)
    said = dcfsc("fit", "a.csv", "-k", "3", "--labels", "kind", "--out", "run", *PLAIN)
    assert "90 samples of 6 float64, 3 classes" in said
    assert read_run("run").record["scores"]["error"] == 0
    frame[["kind", "id"]].sample(frac=1, random_state=0).to_csv("kinds.csv", index=False)
    frame.drop(columns="kind").to_csv("b.csv", index=False)
    dcfsc("fit", "b.csv", "-k", "3", "--labels", "kinds.csv", "--out", "other", *PLAIN)
    assert read_run("other").record["scores"]["error"] == 0


def test_suggest_k_takes_the_same_options(frame: Any) -> None:
    frame["year"] = 2000 + TRUTH
    frame.loc[4, "x1"] = None
    frame.to_csv("a.csv", index=False)
    line = refused("suggest-k", "a.csv", "--ignore", "year", "--device", "cpu")
    assert line.endswith(
        "To go on: dcfsc suggest-k a.csv --ignore year --device cpu --missing drop-rows"
    )
    command = shlex.split(line.split("To go on: ")[1])
    assert "of 89 samples" in dcfsc(*command[1:], "--max-k", "4")
