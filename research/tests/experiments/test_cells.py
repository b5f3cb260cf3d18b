"""Cells on disk: names, results, failures, what another experiment computed."""

import dataclasses
import json

import pytest

from dcfsc.errors import InputError
from dcfsc.files import atomic_path, part_name
from research.experiments.cells import Cell, CellStore, Problem, one_line

WINDOW = Cell("eyaleb", "dcfsc", Problem("eyaleb", 10, 3))
TRIAL = Cell("orl", "ssc", Problem("orl", 40), seed=4, trial=4)


def test_keys_name_window_trial_and_lam():
    assert WINDOW.key == "k10-w03-seed0"
    assert TRIAL.key == "trial-04"
    cell = Cell("lambda", "dcfsc", Problem("coil100", 100), 2, 2, lam=1e6)
    assert cell.key == "lam-1e+06-trial-02"
    assert cell.reference("raw").key == "trial-02"
    assert Cell("memory", "dsc", Problem("orl", 40)).key == "orl"


def test_identity_says_window_or_trial():
    assert WINDOW.identity() == {
        "experiment": "eyaleb",
        "method": "dcfsc",
        "key": "k10-w03-seed0",
        "dataset": "eyaleb",
        "K": 10,
        "window": 3,
        "seed": 0,
    }
    assert TRIAL.identity()["trial"] == 4
    assert "window" not in TRIAL.identity()


def test_a_saved_cell_is_found_and_its_failure_forgotten(tmp_path):
    store = CellStore(tmp_path, "orl")
    assert store.load(TRIAL) is None
    store.fail(TRIAL, "out of memory", 1.5)
    assert store.load(TRIAL) is None
    assert [r["failed"] for r in store.failures()] == ["out of memory"]
    store.save(TRIAL, {**TRIAL.identity(), "protocol": {"error": 1.0}})
    assert store.load(TRIAL)["protocol"] == {"error": 1.0}
    assert store.failures() == []
    assert [r["key"] for r in store.records()] == ["trial-04"]
    assert [p.name for p in (tmp_path / "orl/cells").iterdir()] == ["ssc.jsonl"]


@pytest.mark.parametrize("content", ["", '{"experiment": "or', "[1, 2]", "\x00\x00"])
def test_a_damaged_file_counts_as_missing(tmp_path, content):
    store = CellStore(tmp_path, "orl")
    path = store.path(TRIAL)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert store.load(TRIAL) is None
    assert store.records() == []


def test_records_come_by_method_and_key(tmp_path):
    store = CellStore(tmp_path, "orl")
    for method in ("dsc", "dcfsc-fast", "dcfsc"):
        for seed in (1, 0):
            cell = dataclasses.replace(TRIAL, method=method, seed=seed, trial=seed)
            store.save(cell, cell.identity())
    names = [f"{r['method']}/{r['key']}" for r in store.records()]
    methods = ("dcfsc", "dcfsc-fast", "dsc")
    assert names == [f"{m}/trial-0{seed}" for m in methods for seed in (0, 1)]


def test_a_failure_is_of_no_account_once_the_cell_is_finished(tmp_path):
    """A process killed between the result and the removal of the failure leaves both."""
    store = CellStore(tmp_path, "orl")
    store.save(TRIAL, TRIAL.identity())
    store.fail(TRIAL, "out of memory", 1.5)
    assert store.failures() == []


def test_what_another_process_adds_is_seen(tmp_path):
    store, other = CellStore(tmp_path, "orl"), CellStore(tmp_path, "orl")
    assert store.load(TRIAL) is None
    other.save(TRIAL, {"seconds": 1.0})
    assert store.load(TRIAL)["seconds"] == 1.0
    other.save(TRIAL, {"seconds": 2.0})
    assert store.load(TRIAL)["seconds"] == 2.0
    other.tidy()
    assert store.load(TRIAL)["seconds"] == 2.0
    assert len(store.path(TRIAL).read_text().splitlines()) == 1


def test_only_abandoned_parts_are_removed(tmp_path):
    store = CellStore(tmp_path, "orl")
    store.save(TRIAL, {})
    folder = store.path(TRIAL).parent
    abandoned, somebodys = folder / part_name(), folder / ".a.jsonl.abcdefgh.part"
    abandoned.mkdir()
    (abandoned / "a.jsonl").write_text("{")
    somebodys.write_text("{")
    with atomic_path(folder / "b.jsonl") as in_use:
        store.remove_abandoned_parts()
        in_use.write_text("{")
    assert sorted(p.name for p in folder.iterdir()) == [somebodys.name, "b.jsonl", "ssc.jsonl"]


def test_reasons_are_one_line_without_folders():
    assert one_line(InputError("no weights at /home/me/data/w.safetensors; put them there.")) == (
        "no weights at w.safetensors; put them there."
    )
    assert one_line(RuntimeError("out\nof  memory")) == "RuntimeError: out of memory"
    assert one_line(ValueError()) == "ValueError: no message"
    assert one_line(InputError("shape 3 x 4, 1/2 of it")) == "shape 3 x 4, 1/2 of it"
    assert "me" not in json.dumps(one_line(OSError(2, "missing", "/home/me/x.npz")))


def test_a_record_of_something_else_is_no_cell(tmp_path):
    store = CellStore(tmp_path, "orl")
    cell = Cell("orl", "ssc", Problem("orl", 40))
    store.save(cell, {"error": 20.0})
    file = store.path(cell)
    file.write_text('{"key": "mine", "error": "none"}\n' + file.read_text())
    with pytest.warns(UserWarning, match="has lines that are no results, 1 in number"):
        (found,) = store.records()
    assert found == {**cell.identity(), "error": 20.0}
    store.tidy()
    assert '"mine"' in file.read_text()
