"""A run's life: the states of its folder, and what each command may do in each of them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from running import fit_run
from typer.testing import CliRunner, Result

from dcfsc import files
from dcfsc.cli import app
from dcfsc.datasets import Dataset, synthetic
from dcfsc.errors import InputError
from dcfsc.files import atomic_path
from dcfsc.runs import life
from dcfsc.runs.folder import read_run
from dcfsc.runs.life import CHECKPOINT, State, settle, staged, state_of
from dcfsc.training import loop

OPTIONS = {"n_clusters": 3, "random_state": 0, "device": "cpu", "representation": "given"}


@pytest.fixture
def data() -> Dataset:
    return synthetic(n_samples=60, n_clusters=3, subspace_dim=2, ambient_dim=10, random_state=0)


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", synthetic(60, 3, 3, 12, random_state=0).X)


def fit(*options: object) -> Result:
    words = ("fit", "points.npy", "-k", 3, "--device", "cpu", "--no-report", *options)
    return CliRunner().invoke(app, [str(word) for word in words])


def interrupted_training(folder: str, *options: object) -> None:
    """Leave the checkpoint of a training that was stopped after three steps."""
    with pytest.MonkeyPatch.context() as patch:
        check = loop.check_finite

        def stop(loss: float, phase: str, now: int, learning_rate: float) -> None:
            check(loss, phase, now, learning_rate)
            if phase == "training" and now == 3:
                os.kill(os.getpid(), 2)

        patch.setattr(loop, "check_finite", stop)
        assert fit("--out", folder, *TRAINING, *options).exit_code == 130
    assert Path(folder, CHECKPOINT).exists()


TRAINING = ("--method", "dcfsc", "--pretrain-epochs", 2, "--steps", 6, "--checkpoint-every", 0)


# states


def test_every_content_has_one_state(tmp_path: Path) -> None:
    record = json.dumps({"dcfsc_run": 1})
    contents: list[tuple[State, dict[str, str]]] = [
        (State.EMPTY, {}),
        (State.EMPTY, {".running.part": "", ".labels.csv.abcdefgh.part": ""}),
        (State.TRAINING, {CHECKPOINT: ""}),
        (State.FOREIGN, {CHECKPOINT: "", "notes.txt": ""}),
        (State.FOREIGN, {"run.json": "{}"}),
        (State.FOREIGN, {"labels.csv": ""}),
        (State.WHOLE, {"run.json": record, "notes.txt": ""}),
        (State.WHOLE, {"run.json": "{", "labels.csv": ""}),
        (State.WHOLE, {"model.safetensors": "", "labels.csv": ""}),
        (State.REPLACING, {"run.json": record, CHECKPOINT: ""}),
    ]
    for number, (state, given) in enumerate(contents):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in given.items():
            (folder / name).write_text(content)
        assert state_of(folder) is state, given
    assert state_of(tmp_path / "nowhere") is State.EMPTY
    assert state_of(tmp_path / "0" / "..") is State.FOREIGN
    (tmp_path / "file").touch()
    assert state_of(tmp_path / "file") is State.FOREIGN


def write_new(place: Path, model: bool = True) -> None:
    (place / "labels.csv").write_text("new")
    if model:
        (place / "model.safetensors").write_text("new")
    record = {"dcfsc_run": 2, "model": "../../escape" if model else None, "name": "new"}
    (place / "run.json").write_text(json.dumps(record))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_staged_run_becomes_the_run_and_takes_away_what_was_the_earlier_ones(
    tmp_path: Path,
) -> None:
    for name in life.OURS - {"run.json"}:
        (tmp_path / name).write_text("old")
    (tmp_path / "run.json").write_text(json.dumps({"dcfsc_run": 2, "name": "old"}))
    (tmp_path / "notes.txt").write_text("mine")
    with staged(tmp_path) as place:
        write_new(place, model=False)
        assert json.loads((tmp_path / "run.json").read_text())["name"] == "old"
    assert names(tmp_path) == ["labels.csv", "notes.txt", "run.json"]
    assert (tmp_path / "labels.csv").read_text() == "new"


def test_a_step_that_fails_before_the_rename_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("old")

    def interrupted() -> None:
        with staged(tmp_path) as place:
            write_new(place)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"labels.csv": "old"}


@pytest.mark.parametrize("moved", range(4))
def test_what_was_interrupted_after_the_rename_is_completed(tmp_path: Path, moved: int) -> None:
    place = tmp_path / life.WHOLE
    place.mkdir()
    write_new(place)
    (tmp_path / "labels.csv").write_text("old")
    for name in ("labels.csv", "model.safetensors", "run.json")[:moved]:
        os.replace(place / name, tmp_path / name)
    settle(tmp_path)
    assert names(tmp_path) == ["labels.csv", "model.safetensors", "run.json"]
    assert (tmp_path / "labels.csv").read_text() == "new"
    assert (tmp_path / "model.safetensors").read_text() == "new"


def test_a_record_that_was_tampered_with_moves_nothing_elsewhere(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / life.WHOLE).mkdir(parents=True)
    write_new(run / life.WHOLE)
    (run / life.WHOLE / "run.json").write_text("[")
    with pytest.raises(InputError, match=r"whole\.part/run\.json is damaged; delete"):
        settle(run)
    assert names(tmp_path) == ["run"]


def test_settling_leaves_alone_what_a_living_process_writes(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "predictions.csv") as part:
        dead = tmp_path / ".predictions.csv.abcdefgh.part"
        dead.touch()
        (tmp_path / ".mine.part").touch()
        settle(tmp_path)
        assert part.exists()
        assert not dead.exists()
    assert names(tmp_path) == [".mine.part", "predictions.csv"]


def test_without_locks_a_reader_leaves_alone_what_is_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    with staged(tmp_path) as place:  # another process, as far as a reader can tell
        write_new(place)
        settle(tmp_path)
        assert names(place) == ["labels.csv", "model.safetensors", "run.json"]
    assert (tmp_path / "labels.csv").read_text() == "new"
    (tmp_path / life.WHOLE).mkdir()
    (tmp_path / "labels.csv").write_text("old")
    write_new(tmp_path / life.WHOLE)
    settle(tmp_path)
    assert names(tmp_path) == ["labels.csv", "model.safetensors", "run.json"]
    assert (tmp_path / "labels.csv").read_text() == "new"


def test_a_reader_waits_for_the_last_step_of_another_process(tmp_path: Path, data: Dataset) -> None:
    fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    (tmp_path / "run" / life.WHOLE).mkdir()
    for name in ("labels.csv", "model.safetensors", "run.json"):
        os.replace(tmp_path / "run" / name, tmp_path / "run" / life.WHOLE / name)
    mover = (
        "import sys, time, pathlib; from dcfsc.runs import life\n"
        "folder = pathlib.Path(sys.argv[1]); lock = life.try_lock(folder / life.LOCK)\n"
        "print('held', flush=True); time.sleep(0.5); life._settle(folder); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", mover, tmp_path / "run"], stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert len(read_run(tmp_path / "run").labels) == 60
    finally:
        child.kill()
        child.communicate()


# what fit may do


def test_a_finished_run_is_replaced_only_when_asked(data: Dataset, tmp_path: Path) -> None:
    first = fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    other = {**OPTIONS, "random_state": 1}
    with pytest.raises(InputError, match="holds a finished run; add --overwrite to replace it"):
        fit_run(data, "closed-form", other, tmp_path / "run")
    assert read_run(tmp_path / "run").record == first.record
    fit_run(data, "closed-form", other, tmp_path / "run", overwrite=True)
    assert read_run(tmp_path / "run").record["seed"] == 1


def test_resuming_a_finished_run_returns_it_and_refuses_another(
    data: Dataset, tmp_path: Path
) -> None:
    first = fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    with pytest.warns(UserWarning, match="is already finished and was not changed"):
        again = fit_run(data, "closed-form", OPTIONS, tmp_path / "run", resume=True)
    assert again.record == first.record
    assert np.array_equal(again.labels, first.labels)
    moved = Dataset("synthetic", data.X + 1)
    for changed, given, said in (
        (data, {"random_state": 1}, "differs in random_state;"),
        (data, {"n_clusters": 4}, "differs in n_clusters;"),
        (moved, {}, "differs in data's fingerprint;"),
    ):
        with pytest.raises(InputError, match=said):
            fit_run(changed, "closed-form", {**OPTIONS, **given}, tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"differs in .*method"):
        fit_run(data, "ssc-omp", {"n_clusters": 3}, tmp_path / "run", resume=True)


@pytest.mark.usefixtures("points")
def test_a_checkpoint_is_gone_on_with_by_its_own_method_only() -> None:
    interrupted_training("run")
    before = Path("run", CHECKPOINT).read_bytes()
    refused = fit("--out", "run", "--method", "closed-form", "--resume")
    assert refused.exit_code == 2
    assert "checkpoint of a run by dcfsc, which closed-form cannot resume" in refused.stderr
    assert Path("run", CHECKPOINT).read_bytes() == before
    assert "was interrupted while it trained" in CliRunner().invoke(app, ["report", "run"]).stderr
    # without a method it is the checkpoint's
    assert fit("--out", "run", *TRAINING[2:], "--resume").exit_code == 0
    assert fit("--out", "undisturbed", *TRAINING).exit_code == 0
    assert Path("run/labels.csv").read_text() == Path("undisturbed/labels.csv").read_text()


@pytest.mark.usefixtures("points")
def test_resume_does_not_turn_a_finished_run_into_one_by_another_method() -> None:
    assert fit("--out", "run", "--representation", "given").exit_code == 0
    again = fit("--out", "run", "--representation", "given", "--resume")
    assert again.exit_code == 0
    assert "already finished" in again.stderr
    assert read_run("run").record["method"] == "closed-form"
    refused = fit("--out", "run", "--method", "dcfsc", "--steps", 2, "--resume")
    assert refused.exit_code == 2
    assert "method" in refused.stderr


@pytest.mark.usefixtures("points")
def test_an_earlier_run_is_whole_until_the_one_that_replaces_it_is() -> None:
    assert fit("--out", "run", "--representation", "given").exit_code == 0
    earlier = Path("run/labels.csv").read_text()
    interrupted_training("run", "--overwrite")
    assert state_of(Path("run")) is State.REPLACING
    assert read_run("run").record["method"] == "closed-form"
    predicted = CliRunner().invoke(app, ["predict", "run", "points.npy", "--device", "cpu"])
    assert predicted.exit_code == 0
    assert Path("run/labels.csv").read_text() == earlier
    assert fit("--out", "run", "--resume", *TRAINING).exit_code == 0
    assert read_run("run").record["method"] == "dcfsc"
    assert state_of(Path("run")) is State.WHOLE
    assert not Path("run/predictions.csv").exists()


@pytest.mark.usefixtures("points")
def test_overwrite_begins_a_training_again() -> None:
    interrupted_training("run")
    assert fit("--out", "run", "--overwrite", *TRAINING, "--seed", 1).exit_code == 0
    assert read_run("run").record["seed"] == 1
    assert not Path("run", CHECKPOINT).exists()


def test_a_run_of_an_earlier_format_and_a_damaged_one_can_be_replaced(
    data: Dataset, tmp_path: Path
) -> None:
    for number, content in enumerate(('{"dcfsc_run": 1}', "{")):
        folder = tmp_path / str(number)
        fit_run(data, "closed-form", OPTIONS, folder)
        (folder / "run.json").write_text(content)
        with pytest.raises(InputError, match="fit again, with --overwrite"):
            read_run(folder)
        fit_run(data, "closed-form", OPTIONS, folder, overwrite=True)
        assert len(read_run(folder).labels) == 60


@pytest.mark.usefixtures("points")
def test_a_disk_that_is_full_for_a_while_costs_no_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dcfsc.training import checkpoint

    save, calls = checkpoint.save_file, []

    def full_from_the_fourth_to_the_sixth(tensors: object, path: Path, metadata: object) -> None:
        calls.append(path)
        if 4 <= len(calls) <= 6:
            path.write_bytes(b"a part")
            raise OSError(28, "No space left on device")
        save(tensors, path, metadata)

    monkeypatch.setattr(checkpoint, "save_file", full_from_the_fourth_to_the_sixth)
    with warnings.catch_warnings():
        done = fit("--out", "run", *TRAINING)
    assert done.exit_code == 0
    told = [line for line in done.stderr.splitlines() if "checkpoint" in line]
    assert len(told) == 1
    assert "No space left on device; the one of step " in told[0]
    assert names(Path("run")) == ["labels.csv", "model.safetensors", "run.json"]


@pytest.mark.usefixtures("points")
def test_a_disk_that_is_full_at_the_end_leaves_the_checkpoint_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dcfsc import DCFSC

    def full(self: object, path: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DCFSC, "save", full)
        failed = fit("--out", "run", *TRAINING)
    assert failed.exit_code == 2
    (line,) = failed.stderr.splitlines()
    assert "cannot write to run: No space left on device" in line
    assert line.endswith("--out run " + " ".join(map(str, TRAINING)) + " --resume")
    assert names(Path("run")) == [CHECKPOINT]
    assert fit("--out", "run", *TRAINING, "--resume").exit_code == 0


@pytest.mark.usefixtures("points")
def test_a_clock_that_jumps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real, jumps = time.time, itertools.cycle((0.0, 1e9, -1e9, 86400.0))
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + next(jumps))
        interrupted_training("run")
        assert fit("--out", "run", *TRAINING, "--resume").exit_code == 0
    assert fit("--out", "undisturbed", *TRAINING).exit_code == 0
    assert Path("run/labels.csv").read_text() == Path("undisturbed/labels.csv").read_text()
    assert names(Path("run")) == ["labels.csv", "model.safetensors", "run.json"]
