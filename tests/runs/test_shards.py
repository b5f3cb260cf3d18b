"""Shards are labeled a file for a file; what is done is left alone, what is not ours stays."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.files import is_part
from dcfsc.io import Dataset, load
from dcfsc.io.shards import shard_files
from dcfsc.runs.editing import edit_run
from dcfsc.runs.predictor import Predictor
from dcfsc.runs.shards import _claimed, predict_shards

OPTIONS = {"n_clusters": 3, "random_state": 0, "device": "cpu", "representation": "given"}


def vectors(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    return (5 * np.eye(3)[kind] + rng.normal(size=(n, 3)) * 0.3).astype(np.float32)


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    (tmp_path / "in").mkdir()
    for s in range(3):
        columns = {"key": [f"{s}/{i}" for i in range(50)], "emb": list(vectors(50, s))}
        pq.write_table(pa.table(columns), tmp_path / "in" / f"s{s}.parquet", row_group_size=20)
    return shard_files(tmp_path / "in")


@pytest.fixture
def run(shards: list[Path], tmp_path: Path) -> Path:
    data = load(tmp_path / "in", id="key")
    return fit_run(data, "closed-form", OPTIONS, tmp_path / "run").folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_shard_gets_the_predictions_of_its_rows(
    run: Path, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcfsc.runs.shards.BLOCK_ROWS", 15)
    told: list[tuple[int, int]] = []
    done = predict_shards(
        run, shards, tmp_path / "out", started=lambda n, need: told.append((n, need))
    )
    predictor, sizes = Predictor(run), np.zeros(3, int)
    assert set(content(tmp_path / "out")) == {".dcfsc.json", *(file.name for file in shards)}
    for file in shards:
        found = pq.read_table(tmp_path / "out" / file.name)
        expected = predictor(pq.read_table(file))
        assert found.drop_columns(["confidence"]).equals(expected.drop_columns(["confidence"]))
        sizes += np.bincount(found.column("cluster"), minlength=3)
    assert (done.labeled, done.earlier, done.others) == (3, 0, 0)
    assert done.sizes.tolist() == sizes.tolist()
    assert told[0][0] == 150
    assert told[0][1] > (run / "model.safetensors").stat().st_size


def test_what_is_done_is_left_alone_and_what_is_missing_is_done(
    run: Path, shards: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = predict_shards(run, shards, out)
    before = content(out)
    (out / shards[1].name).unlink()
    again = predict_shards(run, shards, out)
    assert (again.labeled, again.earlier) == (1, 2)
    assert again.sizes.tolist() == first.sizes.tolist()
    assert content(out) == before
    assert predict_shards(run, shards, out).earlier == 3


@pytest.mark.parametrize("change", ["edit", "input", "run"])
def test_predictions_of_something_else_are_replaced_only_if_asked(
    run: Path, shards: list[Path], tmp_path: Path, change: str
) -> None:
    out = tmp_path / "out"
    predict_shards(run, shards, out)
    before = content(out)
    if change == "edit":
        edit_run(run, {"0": "zebras"})
    elif change == "run":
        fit_run(load(tmp_path / "in"), "closed-form", {**OPTIONS, "n_clusters": 2}, tmp_path / "2")
        run = tmp_path / "2"
    else:
        pq.write_table(pq.read_table(shards[2]).slice(1), shards[2])
    with pytest.raises(InputError, match="of another run, of other edits, or of another input"):
        predict_shards(run, shards, out)
    assert content(out) == before
    done = predict_shards(run, shards, out, overwrite=True)
    assert done.labeled == (1 if change == "input" else 3)
    assert predict_shards(run, shards, out).labeled == 0


def test_what_somebody_put_there_stays(run: Path, shards: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict_shards(run, shards, out)
    (out / "s1.parquet").write_text("mine")
    with pytest.raises(InputError, match=r"s1\.parquet was changed or is not dcfsc's"):
        predict_shards(run, shards, out)
    with pytest.warns(UserWarning, match="was not dcfsc's"):
        predict_shards(run, shards, out, overwrite=True)
    assert (out / "s1.parquet.bak").read_text() == "mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear all")
    with pytest.raises(InputError, match="has files in it that are not predictions of shards"):
        predict_shards(run, shards, tmp_path / "other")
    for place in (tmp_path / "in", tmp_path, run, run / "new", tmp_path / "other" / "letter.txt"):
        before = content(tmp_path / "in")
        with pytest.raises(InputError):
            predict_shards(run, shards, place)
        assert content(tmp_path / "in") == before


def test_arrays_are_labeled_with_their_row_numbers(run: Path, tmp_path: Path) -> None:
    X = vectors(30, 7)
    fit_run(Dataset("x", X), "closed-form", OPTIONS, tmp_path / "plain")
    np.save(tmp_path / "x.npy", X)
    predict_shards(tmp_path / "plain", [tmp_path / "x.npy"], tmp_path / "out")
    found = pq.read_table(tmp_path / "out" / "x.parquet")
    assert found.column("index").to_pylist() == list(range(30))
    assert found.column("cluster").to_pylist() == Predictor(tmp_path / "plain")(X).cluster.tolist()
    table = pa.table({"id": [f"n{i}" for i in range(30)], "x": range(30), "emb": list(X)})
    again = Predictor(tmp_path / "plain")(table)  # a run of arrays knows no columns
    assert again.column("cluster").equals(found.column("cluster"))
    assert again.column("id").to_pylist() == table.column("id").to_pylist()


def test_shards_of_one_name_are_refused(run: Path, shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "s0.parquet").write_bytes(shards[0].read_bytes())
    with pytest.raises(InputError, match="two of the shards have the same name"):
        predict_shards(run, [*shards, tmp_path / "b" / "s0.parquet"], tmp_path / "out")


def _claim(target: Path, ready: object, end: object) -> None:
    with _claimed(target):
        ready.set()  # type: ignore[attr-defined]
        end.wait(60)  # type: ignore[attr-defined]


def test_a_shard_at_work_in_another_process_is_passed_over(
    run: Path, shards: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_shards(run, shards[:1], out)
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    other = context.Process(target=_claim, args=(out / shards[1].name, ready, end))
    other.start()
    assert ready.wait(60)
    done = predict_shards(run, shards, out)
    assert (done.labeled, done.earlier, done.others) == (1, 1, 1)
    other.kill()
    other.join()
    done = predict_shards(run, shards, out)
    assert (done.labeled, done.earlier, done.others) == (1, 2, 0)
    assert not any(is_part(name) for name in content(out))
