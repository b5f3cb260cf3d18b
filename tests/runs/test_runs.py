"""Runs on disk: whole or not there, and read back as they were written."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.estimators import ClosedFormSubspaceClustering
from dcfsc.estimators.registry import METHODS
from dcfsc.files import LOCK
from dcfsc.io import Dataset, streamed, synthetic
from dcfsc.io.digest import digest_of_labels
from dcfsc.runs import life
from dcfsc.runs import record as run_record
from dcfsc.runs.editing import edit_run
from dcfsc.runs.folder import Run, read_run
from dcfsc.runs.prediction import predict_run

OPTIONS: dict[str, Any] = {"n_clusters": 3, "random_state": 0, "device": "cpu"}


@pytest.fixture
def data() -> Dataset:
    return synthetic(90, 3, 4, 20, random_state=0)


@pytest.fixture
def run(data: Dataset, tmp_path: Path) -> Run:
    return fit_run(data, "closed-form", OPTIONS, tmp_path / "run", command="dcfsc fit ...")


FILES = {".dcfsc.json", "clusters.csv", "labels.csv", "model.safetensors", "run.json"}
MORE = {"details.npz", "differences.csv", "predictions.csv", "report.html"}


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_record_holds_everything_needed_to_repeat_the_run(run: Run, data: Dataset) -> None:
    record = json.loads((run.folder / "run.json").read_text())
    assert record == run.record
    defaults = ClosedFormSubspaceClustering().get_params()
    assert record["parameters"] == {**defaults, **OPTIONS}
    assert record["seed"] == 0
    assert record["n_clusters"] == 3
    assert record["method"] == "closed-form"
    assert record["command"] == "dcfsc fit ..."
    assert np.shape(record["data"].pop("ranges")) == (2, 20)
    assert record["data"] == {
        "name": "synthetic",
        "n": 90,
        "shape": [20],
        "dtype": "float32",
        "fingerprint": run_record.fingerprint(data.X),
        "classes": 3,
        "labels": digest_of_labels(data.y),
        "notes": data.notes,
        "broken": [],
        "directory": None,  # where paths start from; these samples have none
        "reading": None,
        "photographs": False,
    }
    packages = {"torch", "numpy", "scipy", "scikit-learn"}
    assert set(record["versions"]) == {"python", "dcfsc", *packages}
    assert record["machine"]["device"] == "cpu"
    assert record["machine"]["threads"] >= 1
    assert record["timings"]["fit_seconds"] >= 0
    same = ClosedFormSubspaceClustering(**OPTIONS).fit(data.X)
    assert record["lam"] == pytest.approx(same.lam_, rel=1e-9)
    assert record["effective_dof"] == pytest.approx(same.effective_dof_, rel=1e-9)
    assert record["scores"]["error"] == 0.0
    assert record["cluster_sizes"] == [30, 30, 30]
    assert record["model"] == "model.safetensors"


def test_read_run_is_the_inverse_of_fit_run(run: Run) -> None:
    again = read_run(run.folder)
    assert again.record == run.record
    assert np.array_equal(again.labels, run.labels)


def test_labels_file_has_paths_and_the_labels_as_they_were_spelt(
    data: Dataset, tmp_path: Path
) -> None:
    named = Dataset(
        "named",
        data.X,
        data.y,
        paths=[f"images/{i}, the.png" for i in range(90)],
        label_names=["cat", "dog", "ähre"],
    )
    run = fit_run(named, "closed-form", OPTIONS, tmp_path / "run")
    with open(run.folder / "labels.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["index", "path", "label", "confidence", "next_best", "true_label"]
    assert data.y is not None
    assert rows[5][:2] == ["5", "images/5, the.png"]
    assert [row[5] for row in rows] == [["cat", "dog", "ähre"][k] for k in data.y]
    assert [int(row[2]) for row in rows] == run.labels.tolist()


def test_without_labels_there_are_no_scores(data: Dataset, tmp_path: Path) -> None:
    run = fit_run(Dataset("bare", data.X), "closed-form", OPTIONS, tmp_path / "run")
    assert run.record["scores"] is None
    assert run.record["data"]["classes"] is None


def test_without_a_seed_one_is_drawn_and_repeats_the_run(data: Dataset, tmp_path: Path) -> None:
    options: dict[str, Any] = {**OPTIONS, "n_clusters": 6, "random_state": None}
    first = fit_run(data, "closed-form", options, tmp_path / "a")
    assert first.record["seed"] >= 0
    options["random_state"] = first.record["seed"]
    second = fit_run(data, "closed-form", options, tmp_path / "b")
    assert np.array_equal(first.labels, second.labels)


def test_read_only_map_of_a_file_is_fitted_without_a_warning(
    data: Dataset, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    np.save(tmp_path / "x.npy", data.X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    run = fit_run(Dataset("mapped", mapped), "closed-form", OPTIONS, tmp_path / "run")
    labels, _ = predict_run(run.folder, Dataset("mapped", mapped))
    assert np.array_equal(labels, run.labels)
    assert [str(w.message) for w in recwarn] == []


def test_started_is_called_after_the_checks_and_before_the_work(
    data: Dataset, tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []
    with pytest.raises(InputError):
        fit_run(
            data, "closed-form", {**OPTIONS, "n_clusters": 91}, tmp_path / "a", started=seen.append
        )
    assert seen == []

    def look(record: dict[str, Any]) -> None:
        seen.append(dict(record))
        assert os.listdir(tmp_path / "b") == [LOCK]

    fit_run(data, "closed-form", OPTIONS, tmp_path / "b", started=look)
    assert seen[0]["data"]["n"] == 90
    assert "scores" not in seen[0]


# replacing, and never replacing


def test_earlier_run_is_replaced_and_what_was_made_from_it_stays(
    data: Dataset, tmp_path: Path
) -> None:
    run = fit_run(data, "closed-form", OPTIONS, tmp_path / "run", report=True)
    predict_run(run.folder, data)
    predictions = (run.folder / "predictions.csv").read_bytes()
    edit_run(run.folder, {"0": "seals"})
    edits = (run.folder / "edits.json").read_bytes()
    (run.folder / "notes.txt").write_text("mine")
    assert set(os.listdir(run.folder)) == {*FILES, *MORE, "edits.json", "notes.txt"}
    with pytest.warns(UserWarning, match=r"edits of the earlier run are kept as .*edits\.1\.json"):
        fit_run(data, "closed-form", {**OPTIONS, "n_clusters": 4}, run.folder, overwrite=True)
    assert read_run(run.folder).record["n_clusters"] == 4
    kept = {"predictions.csv": predictions, "edits.1.json": edits, "notes.txt": b"mine"}
    assert set(os.listdir(run.folder)) == {*FILES, *kept}
    assert {name: (run.folder / name).read_bytes() for name in kept} == kept


def test_a_second_prediction_takes_the_next_name(run: Run, data: Dataset) -> None:
    first = predict_run(run.folder, data)[1]
    before = first.read_bytes()
    second = predict_run(run.folder, Dataset("some", data.X[:7]))[1]
    assert [first.name, second.name] == ["predictions.csv", "predictions-2.csv"]
    assert first.read_bytes() == before
    assert len(second.read_text().splitlines()) == 8
    with pytest.raises(InputError, match=r"exists; .* or add --overwrite to replace it"):
        predict_run(run.folder, data, first)
    predict_run(run.folder, Dataset("some", data.X[:3]), first, overwrite=True)
    assert len(first.read_text().splitlines()) == 4
    assert not (run.folder / "predictions.csv.bak").exists()


def test_what_somebody_put_in_the_place_of_a_file_is_kept_beside_it(
    run: Run, data: Dataset
) -> None:
    (run.folder / "labels.csv").write_text("sorted by hand\n")
    (run.folder / "details.npz").write_text("mine")  # this run never had any
    with pytest.warns(UserWarning, match=r"was not dcfsc's; it is now labels\.csv\.bak"):
        fit_run(data, "closed-form", OPTIONS, run.folder, overwrite=True)
    assert set(os.listdir(run.folder)) == {*FILES, "labels.csv.bak", "details.npz"}
    assert (run.folder / "labels.csv.bak").read_text() == "sorted by hand\n"
    assert (run.folder / "details.npz").read_text() == "mine"
    assert len(read_run(run.folder).labels) == 90


def test_failure_leaves_an_earlier_run_as_it_was(
    run: Run, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(self: Any, path: Path) -> None:
        path.write_bytes(b"a part")
        raise OSError(28, "No space left on device")

    before = files(run.folder)
    monkeypatch.setattr(ClosedFormSubspaceClustering, "write_model", full_disk)
    with pytest.raises(InputError, match=r"cannot write to .*run: No space left on device"):
        fit_run(data, "closed-form", {**OPTIONS, "n_clusters": 4}, run.folder, overwrite=True)
    assert files(run.folder) == before


def test_failure_takes_new_folders_away(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, X: Any, y: Any = None) -> None:
        raise RuntimeError

    monkeypatch.setattr(ClosedFormSubspaceClustering, "fit", fails)
    with pytest.raises(RuntimeError):
        fit_run(data, "closed-form", OPTIONS, tmp_path / "a" / "b" / "c")
    assert os.listdir(tmp_path) == []


def test_default_folder_is_the_first_free_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert life.default_folder("orl-dcfsc") == Path("runs/orl-dcfsc")
    for taken in ("orl-dcfsc", "orl-dcfsc-2"):
        Path("runs", taken).mkdir(parents=True)
    assert life.default_folder("orl-dcfsc") == Path("runs/orl-dcfsc-3")
    assert life.default_folder("../my data/x-ssc") == Path("runs/my-data-x-ssc")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_folder_without_permission(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(InputError, match=r"cannot write to .*closed: Permission denied"):
        fit_run(data, "closed-form", OPTIONS, tmp_path / "closed")
    assert os.listdir(tmp_path / "closed") == []


def test_folder_with_other_files_is_left_alone(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("precious\n")
    with pytest.raises(InputError, match=r"labels\.csv.* is not an earlier run"):
        fit_run(data, "closed-form", OPTIONS, tmp_path)
    assert files(tmp_path) == {"labels.csv": b"precious\n"}


@pytest.mark.parametrize("content", ["{}", "[1]", "not json", '{"run": 3}'])
def test_record_of_another_program_is_left_alone(
    data: Dataset, tmp_path: Path, content: str
) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"is not an earlier run"):
        fit_run(data, "closed-form", OPTIONS, tmp_path)
    assert files(tmp_path) == {"run.json": content.encode()}


# input that is wrong


def test_values_that_are_not_finite_are_counted_over_blocks(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 5 * data.X[0].nbytes)
    data.X[7, :3] = np.nan
    data.X[88, 0] = -np.inf
    with pytest.raises(InputError, match=r"4 values .* row 7 \(counted from 0\)"):
        fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("X", [np.full((9, 2), "a"), np.ones((9, 2), complex)])
def test_values_that_are_no_numbers(X: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not real numbers"):
        fit_run(Dataset("odd", X), "closed-form", OPTIONS, tmp_path / "run")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("n_clusters", [None, 2.0, "3", True, 1, -2, 91])
def test_numbers_of_clusters_that_cannot_be(data: Dataset, tmp_path: Path, n_clusters: Any) -> None:
    with pytest.raises(InputError, match="clusters"):
        fit_run(data, "closed-form", {**OPTIONS, "n_clusters": n_clusters}, tmp_path / "run")
    assert os.listdir(tmp_path) == []


# reading and predicting


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.json", None, "has lost its run.json; fit again, with --overwrite"),
        ("run.json", "{", "damaged"),
        ("run.json", '{"dcfsc_run": 2}', "damaged"),
        ("run.json", '{"dcfsc_run": 2, "data": {"n": 90}}', "damaged"),
        ("run.json", '{"dcfsc_run": 1, "data": {}}', "no longer read; fit again"),
        ("run.json", '{"dcfsc_run": 4, "data": {}}', "Upgrade dcfsc"),
        ("labels.csv", None, "cannot read"),
        ("labels.csv", "index,label\n0,1\n", "has 1 labels where the run has 90, from 0 to"),
        ("labels.csv", "index,label\n0,\n", "damaged"),
        ("labels.csv", "index\n0\n", "damaged"),
        ("model.safetensors", None, "lost its model"),
    ],
)
def test_run_that_is_not_whole(run: Run, name: str, content: str | None, said: str) -> None:
    if content is None:
        (run.folder / name).unlink()
    else:
        (run.folder / name).write_text(content)
    with pytest.raises(InputError, match=said) as error:
        read_run(run.folder)
    assert "\n" not in str(error.value)


def test_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no run\.json"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="there is no run"):
        read_run(tmp_path / "nowhere")


def test_predict_labels_unseen_samples_of_the_same_subspaces(tmp_path: Path) -> None:
    data = synthetic(160, 3, 4, 20, random_state=0)
    assert data.y is not None
    seen, unseen = Dataset("seen", data.X[:100], data.y[:100]), data.X[100:]
    run = fit_run(seen, "closed-form", OPTIONS, tmp_path / "run")
    labels, file = predict_run(run.folder, Dataset("unseen", unseen))
    assert file == run.folder / "predictions.csv"
    name = {int(run.labels[i]): int(data.y[i]) for i in range(100)}
    assert [name[k] for k in labels.tolist()] == data.y[100:].tolist()


def test_predict_into_a_new_folder_that_fails_leaves_none(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="features"):
        predict_run(run.folder, Dataset("odd", np.ones((4, 5))), tmp_path / "new" / "p.csv")
    assert not (tmp_path / "new").exists()


def test_method_that_cannot_be_saved_has_a_run_without_a_model(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Transductive(ClosedFormSubspaceClustering):
        save = property()  # type: ignore[assignment]

    monkeypatch.setitem(METHODS, "transductive", Transductive)
    run = fit_run(data, "transductive", OPTIONS, tmp_path / "run")
    assert sorted(os.listdir(run.folder)) == sorted(FILES - {"model.safetensors"})
    assert read_run(run.folder).record["model"] is None
    with pytest.raises(InputError, match=r"'transductive' .* labels only the samples"):
        predict_run(run.folder, data)
