"""The machinery on a tiny experiment: resume, force, dry run, shards, failures, being killed."""

import csv
import dataclasses
import json
import multiprocessing
import os
import time
from functools import partial

import pytest

from dcfsc.errors import InputError
from research.experiments import render, reproduce
from research.experiments.cells import CellStore
from research.experiments.methods import METHODS

pytestmark = pytest.mark.slow

FAST = ["closed-form"]


def run(out, **options):
    lines = []
    summary = reproduce("smoke", out=out, device="cpu", report=lines.append, **options)
    return summary, lines


def cell_files(out):
    return {p: p.read_bytes() for p in sorted(out.glob("smoke/cells/*.jsonl"))}


def cells(out, method=None):
    """The records of the tiny experiment by method and key."""
    records = CellStore(out, "smoke").records()
    return {(r["method"], r["key"]): r for r in records if method in (None, r["method"])}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The whole tiny experiment, run once; tests must not change it."""
    out = tmp_path_factory.mktemp("smoke")
    summary, lines = run(out)
    return out, summary, lines


def test_a_run_fills_the_grid(finished):
    out, summary, lines = finished
    assert (summary.cells, summary.computed, summary.missing) == (4, 4, 0)
    methods = ("closed-form", "dcfsc", "raw", "start-untrained")
    assert set(cells(out)) == {(m, f"trial-0{t}") for m in methods for t in (0, 1)}
    assert {p.name for p in cell_files(out)} == {f"{m}.jsonl" for m in methods}
    assert "dcfsc trial-01: error" in lines[3]
    assert str(summary) == lines[-1]


def test_a_second_run_computes_nothing(finished, tmp_path):
    out, _, _ = finished
    before = cell_files(out)
    summary, lines = run(out)
    assert (summary.done_before, summary.computed) == (4, 0)
    assert cell_files(out) == before
    assert len(lines) == 1


def test_a_dry_run_changes_nothing_and_says_how_long_cells_took(finished, tmp_path):
    out, _, _ = finished
    before = cell_files(out)
    summary, lines = run(out, dry_run=True, trials=5)
    assert cell_files(out) == before
    assert (summary.cells, summary.done_before, summary.missing) == (10, 4, 6)
    assert lines[0].startswith("closed-form, K=3: 3 of 5 cells to run, ")
    assert "a cell last time" in lines[1]
    assert lines[-1] == "6 of 10 cells to run."
    _, lines = run(tmp_path, dry_run=True)
    assert "never timed" in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_force_computes_again(tmp_path):
    run(tmp_path, methods=FAST, trials=1)
    path = tmp_path / "smoke/cells/closed-form.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "stale": True}))
    assert run(tmp_path, methods=FAST, trials=1)[0].computed == 0
    assert "stale" in json.loads(path.read_text())
    assert run(tmp_path, methods=FAST, trials=1, force=True)[0].computed == 1
    assert "stale" not in json.loads(path.read_text())


def test_a_failing_cell_is_recorded_and_tried_again(tmp_path, monkeypatch):
    working = METHODS["closed-form"]

    def refuse(task, Z):
        raise RuntimeError("out of memory at\n/somewhere/deep/file.py")

    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "closed-form", dataclasses.replace(working, build=refuse))
        summary, lines = run(tmp_path)
    assert summary.computed == 2  # the other method went on
    reason = "RuntimeError: out of memory at file.py"
    assert set(summary.failed.values()) == {reason}
    assert "FAILED, RuntimeError" in lines[0]
    failed = tmp_path / "smoke/cells/closed-form.failed.jsonl"
    assert [json.loads(line)["failed"] for line in failed.open()] == [reason, reason]
    assert reason in (tmp_path / "smoke/table.md").read_text()
    _, lines = run(tmp_path, dry_run=True)
    assert f"failed before: closed-form trial-00: {reason}" in lines
    assert run(tmp_path)[0].computed == 2
    assert not failed.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
def test_killed_at_any_moment_it_loses_at_most_one_cell(tmp_path):
    work = partial(run, tmp_path, methods=FAST, trials=200)
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    try:
        deadline = time.monotonic() + 600
        while len(cells(tmp_path, "closed-form")) < 3:
            assert process.is_alive(), "the run ended before it could be killed"
            assert time.monotonic() < deadline, "the run never got going"
            time.sleep(0.01)
    finally:
        process.kill()
        process.join()
    survived = cells(tmp_path)
    done = len(cells(tmp_path, "closed-form"))
    assert done >= 3
    trials = done + 2
    summary, _ = run(tmp_path, methods=FAST, trials=trials)
    assert (summary.done_before, summary.computed) == (done, 2)
    after = cells(tmp_path)
    assert all(after[name] == record for name, record in survived.items())


def test_missing_data_is_said_once_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setenv("DCFSC_DATA", str(tmp_path))
    with pytest.raises(InputError, match="orl is not in"):
        reproduce("orl", out=tmp_path, methods=["ssc-omp"], device="cpu", report=lambda line: None)
    assert not (tmp_path / "orl").exists()


def test_tables_from_the_cells_alone(finished):
    out, _, _ = finished
    with open(out / "smoke/table.csv", encoding="utf-8") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    errors = [record["protocol"]["error"] for record in cells(out, "dcfsc").values()]
    assert float(rows["dcfsc"]["error_mean"]) == pytest.approx(sum(errors) / 2, rel=1e-5)
    assert rows["dcfsc"]["cells"] == "2"
    assert float(rows["dcfsc"]["raw_mean"]) == pytest.approx(
        float(rows["raw"]["error_mean"]), rel=1e-5
    )
    text = (out / "smoke/table.md").read_text()
    assert "| closed form, library defaults |" in text
    assert "starting latents" in text
    assert "torch" in text


def test_rendering_again_gives_the_same_files(finished):
    out, summary, _ = finished
    assert {p.name for p in summary.files} == {"table.csv", "table.md", "figure.png", "figure.svg"}
    before = {p: p.read_bytes() for p in summary.files}
    render("smoke", out, report=lambda line: None)
    assert {p: p.read_bytes() for p in before} == before


def test_processes_give_the_same_cells(finished, tmp_path):
    out, _, _ = finished
    summary, lines = run(tmp_path, jobs=2)
    assert (summary.computed, summary.missing) == (4, 0)
    assert len([line for line in lines if line.startswith("[")]) == 4
    whole, shared = cells(out), cells(tmp_path)
    assert list(shared) == list(whole)
    assert all(shared[name]["protocol"] == whole[name]["protocol"] for name in whole)
    assert sum(len(p.read_text().splitlines()) for p in cell_files(tmp_path)) == len(shared)
    (record,) = (tmp_path / "smoke/runs").glob("*.json")
    told = json.loads(record.read_text())
    assert list(told) == ["benchmark", "command", "commit", "date", "machine", "figures"]
    figures = told["figures"]
    assert (figures["jobs"], figures["computed"], figures["failed"]) == (2, 4, 0)
    assert figures["cells"] == {"closed-form": 2, "dcfsc": 2}
    assert figures["seconds"] > 0


def test_no_processes_are_refused(tmp_path):
    with pytest.raises(InputError, match="jobs must be at least 1"):
        run(tmp_path, jobs=0)
    assert list(tmp_path.iterdir()) == []
