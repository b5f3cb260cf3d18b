"""Texts on the command line, as a person with answers to a survey uses it."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tiny_texts import write_text_model
from typer.testing import CliRunner

from dcfsc import ClosedFormSubspaceClustering, Predictor, TextEncoderFeatures
from dcfsc.cli import app
from dcfsc.estimators import encoder_features
from dcfsc.features import encoder_backends
from dcfsc.io import load
from dcfsc.io.table_reading import TableReading
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


def write_table(path: Path, columns: dict[str, list[Any]], delimiter: str = ",") -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def test_answers_to_a_survey(place: Path) -> None:
    """Columns id, answer and age, some without an answer; then ten new ones in another order."""
    texts, _ = answers(40)
    given = [text if i % 8 else " " * (i % 3) for i, text in enumerate(texts)]
    there = [i for i, text in enumerate(given) if text.strip()]
    ids = [f"person {i}" for i in range(40)]
    write_table(
        place / "answers.csv", {"id": ids, "answer": given, "age": [20 + i for i in range(40)]}
    )
    said = dcfsc("fit", "answers.csv", "--text", "answer", "--id", "id", *FIT, "--out", "run")
    assert "answers: 35 texts" in said
    assert "5 of 40 rows without a text were left out" in said
    expected = in_python([texts[i] for i in there])
    rows = rows_of(place / "run" / "labels.csv")
    assert [row["id"] for row in rows] == [ids[i] for i in there]
    assert [int(row["label"]) for row in rows] == expected.labels_.tolist()
    page = Path("run", "report.html").read_text(encoding="utf-8")
    shown = re.findall(r'<span class="quote" dir="auto">(.*?)</span>', page)
    assert set(shown) <= set(texts)
    assert len(shown) >= 2 * 8
    words = cluster_words([texts[i] for i in there], expected.labels_)
    for cluster in (0, 1):
        assert f'dcfsc edit RUN "{cluster}={", ".join(words[cluster][:3])}"' in page
    later, _ = answers(10, seed=1)
    new = {"age": [30] * 10, "answer": [f"{t}; {t}" for t in later], "city": ["x"] * 10}
    write_table(place / "new.csv", {**new, "id": list("abcdefghij")}, ";")
    dcfsc("predict", "run", "new.csv", "--out", "new_clusters.csv", "--device", "cpu")
    Z = TextEncoderFeatures("model", device="cpu").fit_transform(new["answer"])
    rows = rows_of(place / "new_clusters.csv")
    assert [row["id"] for row in rows] == list("abcdefghij")
    assert [int(row["label"]) for row in rows] == expected.predict(Z).tolist()
    predictor = Predictor("run", device="cpu")
    assert predictor(new["answer"]).cluster.tolist() == expected.predict(Z).tolist()
    table = pa.table({**new, "answer": ["", *new["answer"][1:]], "id": list("abcdefghij")})
    found = predictor(table)
    assert found.column("id").to_pylist() == list("bcdefghij")
    assert found.column("cluster").to_pylist() == expected.predict(Z)[1:].tolist()
    assert predictor(table.to_pandas()).index.tolist() == [*range(1, 10)]
    dcfsc("edit", "run", "0=buses")  # a person's name is never overwritten
    page = Path("run", "report.html").read_text(encoding="utf-8")
    assert 'dcfsc edit RUN "0=' not in page
    assert "buses" in page


def test_rows_without_a_text_and_without_ids_are_told_by_their_numbers(place: Path) -> None:
    texts, _ = answers(6)
    write_table(place / "a.csv", {"age": list(range(6)), "answer": [*texts[:2], "", *texts[3:]]})
    data = load("a.csv", text="answer")
    assert data.texts == [*texts[:2], *texts[3:]]
    assert data.sample_names == ["2", "3", "5", "6", "7"]  # as a spreadsheet counts, with a header
    assert load("a.csv", text="answer").reading == TableReading(text="answer")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--text", "comment"), "no column 'comment'; its columns: id, answer, age"),
        (("--text", "age"), "column 'age' holds no texts (numbers)."),
        ((), "to cluster the texts of 'answer', add --text answer. To go on"),
        (("--text", "empty"), "column 'empty' is empty"),
        (("--text", "answer", "--columns", "age"), "columns is for columns of numbers"),
        (("--text", "answer", "--missing", "median"), "missing is for columns of numbers"),
    ],
)
def test_columns_that_are_no_texts(place: Path, args: tuple[str, ...], said: str) -> None:
    texts, _ = answers(20)
    columns = {
        "id": list(range(20)),
        "answer": texts,
        "age": [7.5] * 19 + [""],
        "empty": [" "] * 20,
    }
    write_table(place / "a.csv", columns)
    assert said in refused("fit", "a.csv", *FIT, *args)


def test_a_new_table_without_the_column_is_one_line(place: Path) -> None:
    texts, _ = answers(20)
    write_table(place / "a.csv", {"answer": texts, "age": list(range(20))})
    dcfsc("fit", "a.csv", "--text", "answer", *FIT, "--out", "run", "--no-report")
    write_table(place / "new.csv", {"response": texts[:3], "age": [1, 2, 3]})
    assert "'answer'" in refused("predict", "run", "new.csv")
    (place / "new.txt").write_text("bus late\nsoup\n")
    assert len(rows_of(Path(dcfsc_file("predict", "run", "new.txt")))) == 2


def dcfsc_file(*args: str) -> str:
    return json.loads(dcfsc(*args, "--json", "--device", "cpu"))["file"]


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
    write_table(place / "a.csv", {"answer": answers(3)[0], "age": [1, 2, ""]})
    for other in ("numbers.npy", "a.csv"):
        line = refused("predict", "texts", other)
        assert "the run texts is of texts in a .txt file; give new ones in such a file" in line
    line = refused("predict", "numbers", "a.csv")
    assert "missing or infinite value" in line
    assert "To go on" not in line  # predict has no --missing
    assert "the run numbers was not made from a table" in line.lower()
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


SNIPPETS = Path(os.environ.get("DCFSC_DATA", "data"), "texts", "SearchSnippets.txt")
SUBJECTS = {2: "music", 5: "health", 7: "football"}  # of culture, health and sports


@pytest.mark.slow
@pytest.mark.skipif(not SNIPPETS.is_file(), reason="no SearchSnippets under $DCFSC_DATA")
def test_snippets_with_the_packaged_model(place: Path) -> None:
    """Found snippets of three subjects: nearly all are sorted right, and the words name these."""
    lines = SNIPPETS.read_text(encoding="utf-8").splitlines()
    y = np.load(SNIPPETS.with_name("SearchSnippets_minilm.npz"))["labels"]
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.choice(np.flatnonzero(y == k), 70, False) for k in SUBJECTS])
    (place / "snippets.txt").write_text("\n".join(lines[i] for i in rows), encoding="utf-8")
    np.save(place / "subjects.npy", y[rows])
    dcfsc("fit", "snippets.txt", "-k", "3", "--labels", "subjects.npy", "--out", "run")
    run = read_run(Path("run"))
    assert run.record["scores"]["error"] < 10.0
    assert run.record["features"]["encoder"] == "all-MiniLM-L6-v2"
    words = cluster_words([lines[i] for i in rows], run.labels)
    for place_, subject in enumerate(SUBJECTS.values()):
        cluster = np.bincount(run.labels[70 * place_ : 70 * place_ + 70]).argmax()
        assert subject in words[cluster]
