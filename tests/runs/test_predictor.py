"""A run as a function: the same clusters as the command's, for data of every kind."""

from __future__ import annotations

import csv
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from running import fit_run

import dcfsc
from dcfsc.errors import InputError
from dcfsc.io import load
from dcfsc.runs.editing import edit_run
from dcfsc.runs.prediction import predict_run
from dcfsc.runs.predictor import Predictor

OPTIONS = {"n_clusters": 3, "random_state": 0, "device": "cpu", "representation": "given"}


def samples(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    X = (5 * np.eye(3)[kind] + rng.normal(size=(n, 3)) * 0.3).astype(np.float32)
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    return pa.table({"key": [f"{seed}-{i}" for i in range(n)], **columns})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    pq.write_table(samples(90, 0), tmp_path / "train.parquet")
    fit_run(load(tmp_path / "train.parquet", id="key"), "closed-form", OPTIONS, tmp_path / "run")
    return tmp_path / "run"


def test_every_kind_of_table_gets_the_clusters_of_the_command(run: Path, tmp_path: Path) -> None:
    table = samples(40, 1)
    pq.write_table(table, tmp_path / "new.parquet")
    expected, file = predict_run(run, load(tmp_path / "new.parquet", id="key"))
    before = {path: path.read_bytes() for path in run.iterdir()}
    predictor = dcfsc.Predictor(run)
    mixed = table.select(["c", "key", "a", "b"])
    found = predictor(mixed)
    assert found.column_names == ["id", "cluster", "name", "confidence", "next_best"]
    assert found.column("cluster").to_pylist() == expected.tolist()
    assert found.column("id").to_pylist() == [f"1-{i}" for i in range(40)]
    assert found.column("name").to_pylist() == [str(k) for k in expected]
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    told = [f"{value:.4f}" for value in found.column("confidence").to_pylist()]
    assert told == [row["confidence"] for row in rows]
    assert found.column("next_best").to_pylist() == [int(row["next_best"]) for row in rows]
    assert predictor(mixed.to_batches()[0]).equals(found)
    frame = mixed.to_pandas().set_index(pd.Index(range(100, 140), name="place"))
    assert predictor(frame).index.tolist() == list(range(100, 140))
    assert predictor(frame).reset_index(drop=True).equals(found.to_pandas())
    result = predictor(np.column_stack([table.column(name) for name in "abc"]))
    assert result.cluster.tolist() == expected.tolist()
    assert result.id is None
    assert len(result) == 40
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_a_pickle_holds_the_path_alone_and_finds_later_edits(run: Path) -> None:
    table, predictor = samples(20, 2), Predictor(run)
    content = pickle.dumps(predictor)
    assert len(content) < 300
    assert pickle.loads(content)(table).equals(predictor(table))
    clusters = predictor(table).column("cluster").to_pylist()
    edit_run(run, {"0": "zebras"}, merges=[["1", "2"]])
    edited = pickle.loads(content)(table)
    assert edited.column("cluster").to_pylist() == [min(k, 1) for k in clusters]
    names = [{0: "zebras"}.get(k, "1") for k in clusters]
    assert edited.column("name").to_pylist() == names
    assert set(edited.column("next_best").to_pylist()) == {0, 1}


def test_labels_do_not_depend_on_the_blocks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = samples(50, 3)
    whole = Predictor(run)(table)
    monkeypatch.setattr("dcfsc.runs.predictor.BLOCK_ROWS", 7)
    parts = Predictor(run)(table)
    assert parts.drop_columns(["confidence"]).equals(whole.drop_columns(["confidence"]))
    assert np.allclose(parts.column("confidence"), whole.column("confidence"), atol=1e-6)


def test_gaps_are_treated_as_in_the_fit(tmp_path: Path) -> None:
    table = samples(90, 0)
    gap = table.set_column(
        2, "b", pa.array([None, *table.column("b").to_pylist()[1:]], pa.float32())
    )
    pq.write_table(gap, tmp_path / "gap.parquet")
    data = load(tmp_path / "gap.parquet", id="key", missing="drop-rows")
    fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    predictor = Predictor(tmp_path / "run")
    found = predictor(gap.slice(0, 5))
    assert found.column("id").to_pylist() == ["0-1", "0-2", "0-3", "0-4"]
    assert predictor(gap.slice(0, 5).to_pandas()).index.tolist() == [1, 2, 3, 4]


def test_image_files_are_read_as_in_the_fit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(40):
        pixels = rng.integers(0, 30, (8, 8)).astype(np.uint8)
        pixels[3:5] += 200 * np.uint8(i % 2)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    data = load(tmp_path)
    run = fit_run(data, "closed-form", {**OPTIONS, "n_clusters": 2}, tmp_path / "out" / "run")
    paths = [tmp_path / "7.png", tmp_path / "12.png"]
    result = Predictor(run.folder)(paths)
    assert result.id == [str(path) for path in paths]
    known = dict(zip(map(Path, data.paths or ()), run.labels.tolist(), strict=True))
    assert result.cluster.tolist() == [known[path] for path in paths]
    with pytest.raises(InputError, match="not one path"):
        Predictor(run.folder)("7.png")


def test_values_far_outside_are_warned_of_once_with_their_columns(run: Path) -> None:
    table = samples(60, 4)
    inches = np.asarray(table.column("b")) * 2.54
    predictor = Predictor(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor(table)
    other = table.set_column(2, "b", pa.array(inches))
    with pytest.warns(UserWarning, match=r"column 'b' of 3 have values far outside"):
        predictor(other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor(other)
    shifted = np.column_stack([table.column(name) for name in "abc"])
    shifted += np.array([4.0, 0.0, -9.0], np.float32)
    with pytest.warns(UserWarning, match=r"columns 'a', 'c' of 3"):
        Predictor(run)(shifted)


def test_a_table_without_a_column_is_one_line(run: Path) -> None:
    with pytest.raises(InputError, match="the table lacks column 'b' of the run"):
        Predictor(run)(samples(5, 5).drop_columns(["b"]))
    with pytest.raises(InputError, match="is not of image files"):
        Predictor(run)(["a.png"])
