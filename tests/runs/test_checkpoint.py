"""Interrupted runs of one process: kept, refused without a word, gone on with to the same end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import write_checkpoint
from typer.testing import CliRunner, Result

from dcfsc.cli import app
from dcfsc.errors import DivergenceError
from dcfsc.files import part_name
from dcfsc.io import synthetic
from dcfsc.runs.life import CHECKPOINT, choose_folder
from dcfsc.training import loop

OPTIONS = ("-k", 3, "--device", "cpu", "--no-report", "--pretrain-epochs", 2, "--steps", 8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", synthetic(60, 3, 3, 12, random_state=0).X)
    return tmp_path


def fit(*options: object) -> Result:
    return CliRunner().invoke(app, [str(o) for o in ("fit", "points.npy", *OPTIONS, *options)])


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int, number: int = signal.SIGINT) -> None:
    check = loop.check_finite

    def press(loss: float, phase: str, now: int, learning_rate: float) -> None:
        check(loss, phase, now, learning_rate)
        if phase == "training" and now == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(loop, "check_finite", press)


@pytest.mark.parametrize("out", [(), ("--out", "mine")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on_and_ends_where_it_would_have(
    folder: Path, out: tuple[str, ...], number: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 3, number)
        stopped = fit(*out)
    assert stopped.exit_code == 130
    (line,) = stopped.stderr.splitlines()
    assert line.startswith("error: interrupted; training is saved; resume with: dcfsc fit ")
    assert line.endswith("--out mine" + " --resume" if out else " --resume")
    place = folder / (out[1] if out else "runs/points-dcfsc")
    assert [p.name for p in place.iterdir()] == [CHECKPOINT]

    refused = fit("--out", place)
    assert refused.exit_code == 2
    assert "add --resume to continue it, --overwrite to start again" in refused.stderr
    other = fit("--out", place, "--resume", "--seed", 1)
    assert other.exit_code == 2
    assert "other data or parameters" in other.stderr
    assert [p.name for p in place.iterdir()] == [CHECKPOINT]

    assert fit("--resume", *out).exit_code == 0
    assert sorted(p.name for p in place.iterdir()) == [
        ".dcfsc.json",
        "clusters.csv",
        "labels.csv",
        "model.safetensors",
        "run.json",
    ]
    assert fit("--out", "whole").exit_code == 0
    assert (place / "labels.csv").read_text() == Path("whole/labels.csv").read_text()


def test_a_run_that_diverges_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(loss: float, phase: str, now: int, learning_rate: float) -> None:
        if phase == "training" and now == 5:
            raise DivergenceError("the loss became nan")

    monkeypatch.setattr(loop, "check_finite", diverge)
    assert fit("--out", "run", "--checkpoint-every", 0).exit_code == 2
    assert sorted(p.name for p in folder.iterdir()) == ["points.npy"]


def test_resume_without_a_checkpoint_begins(folder: Path) -> None:
    assert fit("--resume", "--out", "run").exit_code == 0
    assert not Path("run", CHECKPOINT).exists()


def test_the_newest_unfinished_folder_is_gone_on_with(folder: Path) -> None:
    for i, name in enumerate(("x", "x-2", "x-3")):
        place = folder / "runs" / name
        place.mkdir(parents=True)
        if name == "x-3":
            (place / "run.json").touch()
        else:
            write_checkpoint(place / CHECKPOINT)
        (place / part_name()).mkdir()  # a process that was killed
        os.utime(place, (1000 + i, 1000 + i))
    assert choose_folder("x", None, resume=True) == Path("runs/x-2")
    assert choose_folder("x", None, resume=False) == Path("runs/x-4")
    assert choose_folder("y", None, resume=True) == Path("runs/y")
    (folder / "runs" / "x-2" / CHECKPOINT).write_bytes(b"of another program")
    assert choose_folder("x", None, resume=True) == Path("runs/x")


@pytest.mark.parametrize("content", [b"", b"of another program"])
def test_a_file_that_bears_the_name_of_a_checkpoint_is_left_alone(
    folder: Path, content: bytes
) -> None:
    (folder / "run").mkdir()
    (folder / "run" / CHECKPOINT).write_bytes(content)
    for option in ("--resume", "--overwrite"):
        refused = fit("--out", "run", option)
        assert refused.exit_code == 2
        assert f"has files in it ({CHECKPOINT}) and is not an earlier run" in refused.stderr
    assert [p.name for p in (folder / "run").iterdir()] == [CHECKPOINT]
    assert (folder / "run" / CHECKPOINT).read_bytes() == content


def test_options_of_many_processes_are_refused_for_one() -> None:
    result = fit("--dist-timeout", 5)
    assert result.exit_code == 2
    assert "torchrun" in result.stderr


def test_methods_without_training_have_nothing_to_save() -> None:
    result: Any = fit("--method", "closed-form", "--checkpoint-every", 5)
    assert result.exit_code == 2
    assert "belongs to dcfsc" in result.stderr
