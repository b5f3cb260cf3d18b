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
from running import fit_run, write_checkpoint
from typer.testing import CliRunner, Result

from dcfsc import journal
from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.files import LOCK, part_name
from dcfsc.io import Dataset, synthetic
from dcfsc.journal import EXPORT, RUN, Filled
from dcfsc.runs.folder import read_run
from dcfsc.runs.life import CHECKPOINT, State, state_of
from dcfsc.training import loop

FILES = [".dcfsc.json", "clusters.csv", "labels.csv", "model.safetensors", "run.json"]
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


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


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


def write(folder: Path, content: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in content.items():
        (folder / name).write_text(text)
    return folder


def test_every_content_has_one_state(tmp_path: Path) -> None:
    record = json.dumps({"dcfsc_run": 1})
    contents: list[tuple[State, dict[str, str], bool]] = [
        (State.EMPTY, {}, False),
        (State.EMPTY, {part_name(): "", LOCK: ""}, False),
        (State.FOREIGN, {".labels.csv.abcdefgh.part": ""}, False),
        (State.TRAINING, {}, True),
        (State.TRAINING, {part_name(): ""}, True),
        (State.FOREIGN, {CHECKPOINT: ""}, False),  # one that no training wrote
        (State.FOREIGN, {"notes.txt": ""}, True),
        (State.FOREIGN, {"run.json": "{}"}, False),
        (State.FOREIGN, {"run.json": "{", "labels.csv": ""}, False),
        (State.FOREIGN, {"labels.csv": ""}, False),
        (State.FOREIGN, {"model.safetensors": "", "labels.csv": ""}, False),
        (State.FOREIGN, {"run.json": record[:-1], CHECKPOINT: ""}, False),
        (State.WHOLE, {"run.json": record, "notes.txt": ""}, False),
        (State.WHOLE, {"run.json": record, CHECKPOINT: ""}, False),
        (State.REPLACING, {"run.json": record}, True),
    ]
    for number, (state, given, trains) in enumerate(contents):
        folder = write(tmp_path / str(number), given)
        if trains:
            write_checkpoint(folder / CHECKPOINT)
        assert state_of(folder) is state, given
    assert state_of(tmp_path / "nowhere") is State.EMPTY
    assert state_of(tmp_path / "0" / "..") is State.FOREIGN
    (tmp_path / "file").touch()
    assert state_of(tmp_path / "file") is State.FOREIGN


def test_a_list_says_that_a_folder_is_a_run_whatever_was_lost(tmp_path: Path) -> None:
    Filled(RUN, {}).write(tmp_path)
    assert state_of(tmp_path) is State.EMPTY
    (tmp_path / "labels.csv").touch()
    assert state_of(tmp_path) is State.WHOLE
    with pytest.raises(InputError, match=r"has lost its run\.json; fit again"):
        read_run(tmp_path)
    write_checkpoint(tmp_path / CHECKPOINT)
    assert state_of(tmp_path) is State.REPLACING
    Filled(EXPORT, {}).write(tmp_path)
    assert state_of(tmp_path) is State.FOREIGN


def test_a_link_to_a_checkpoint_is_none(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "mine.safetensors")
    folder = write(tmp_path / "run", {})
    (folder / CHECKPOINT).symlink_to(tmp_path / "mine.safetensors")
    assert state_of(folder) is State.FOREIGN


def test_a_reader_waits_for_the_last_step_of_another_process(tmp_path: Path, data: Dataset) -> None:
    run = fit_run(data, "closed-form", OPTIONS, tmp_path / "run").folder

    def killed(folder: Path, stage: Path) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            fit_run(data, "closed-form", {**OPTIONS, "n_clusters": 4}, run, overwrite=True)
    mover = (
        "import sys, time, pathlib; from dcfsc import journal\n"
        "folder = pathlib.Path(sys.argv[1]); lock = journal.try_lock(folder / journal.LOCK)\n"
        "print('held', flush=True); time.sleep(0.5); journal._settle(folder); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", mover, run], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert read_run(run).record["n_clusters"] == 4
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
    moved = Dataset("synthetic", data.X + 1, data.y)
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
    assert len(Path("run/predictions.csv").read_text().splitlines()) == 61


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
        with pytest.warns(UserWarning, match=r"was not dcfsc's; it is now run\.json\.bak"):
            fit_run(data, "closed-form", OPTIONS, folder, overwrite=True)
        assert len(read_run(folder).labels) == 60
        assert (folder / "run.json.bak").read_text() == content


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
    assert names(Path("run")) == FILES


@pytest.mark.usefixtures("points")
def test_a_disk_that_is_full_at_the_end_leaves_the_checkpoint_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dcfsc import DCFSC

    def full(self: object, path: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DCFSC, "write_model", full)
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
    assert names(Path("run")) == FILES
