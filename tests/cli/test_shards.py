"""Eight shards with ids, texts and vectors, K unknown: from suggest-k to a ninth shard."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.metrics import clustering_error

K, ROWS = 4, 150
ID = ("--id", "key")


def dcfsc(*args: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The class of every id; the first eight shards are in a folder."""
    monkeypatch.chdir(tmp_path)
    Path("shards").mkdir()
    rng, classes = np.random.default_rng(0), {}
    centers = rng.normal(size=(K, 24)) * 2
    for s in range(9):
        kind = rng.integers(0, K, ROWS)
        X = (centers[kind] + rng.normal(size=(ROWS, 24)) * 0.6).astype(np.float32)
        keys = [f"doc-{s}-{i}" for i in range(ROWS)]
        classes |= dict(zip(keys, kind.tolist(), strict=True))
        table = pa.table({"key": keys, "body": [f"text {k}" for k in keys], "emb": list(X)})
        file = f"shards/part-{s}.parquet" if s < 8 else "ninth.parquet"
        pq.write_table(table, file, row_group_size=50)
    return classes


def error(found: dict[str, int], truth: dict[str, int]) -> float:
    keys = list(found)
    return clustering_error(np.array([truth[k] for k in keys]), np.array([found[k] for k in keys]))


@pytest.mark.slow
def test_shards_from_suggest_k_to_a_later_shard(truth: dict[str, int]) -> None:
    suggested = json.loads(
        dcfsc("suggest-k", "shards", *ID, "--sample", "600", "--max-k", "8", "--json")
    )
    assert suggested["k"] == K
    fitted = dcfsc("fit", "shards", *ID, "-k", str(K), "--sample", "600", "--out", "run")
    assert "600 of 1,200 rows, drawn from 16 of 24 row groups, some of every shard" in fitted
    said = dcfsc("predict", "run", "shards", "--out", "labeled")
    assert "shards: 1,200 samples in 8 shards" in said
    assert "8 labeled" in said
    found = {}
    for s in range(8):
        table = pq.read_table(f"labeled/part-{s}.parquet")
        assert table.column("id").to_pylist() == [f"doc-{s}-{i}" for i in range(ROWS)]
        found |= dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))
    assert len(found) == 1200
    assert error(found, truth) < 1.0
    again = json.loads(dcfsc("predict", "run", "shards/*.parquet", "--out", "labeled", "--json"))
    assert (again["labeled"], again["earlier"], again["others"]) == (0, 8, 0)
    assert sum(again["cluster_sizes"]) == 1200
    dcfsc("predict", "run", "ninth.parquet", "--out", "ninth.csv")
    with open("ninth.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    later = {row["id"]: int(row["label"]) for row in rows}
    assert list(later) == [f"doc-8-{i}" for i in range(ROWS)]
    assert error(found | later, truth) < 1.0


def test_shards_need_a_folder_and_refuse_what_is_for_images(truth: dict[str, int]) -> None:
    dcfsc("fit", "ninth.parquet", *ID, "-k", "2", "--no-report", "--out", "run")
    for more, message in (
        ((), "give a folder for the predictions of the shards with --out DIR"),
        (("--out", "new", "--gray"), "are not for shards"),
    ):
        result = CliRunner().invoke(app, ["predict", "run", "shards", *more])
        assert result.exit_code == 2
        assert message in result.stderr
        assert not Path("new").exists()
