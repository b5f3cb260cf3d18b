"""What a command says about the work while it lasts."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfsc.cli import app, watching
from dcfsc.io import synthetic
from dcfsc.progress import announce, logger, progress, stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", synthetic(60, 3, 3, 12, random_state=0).X)
    return tmp_path


@pytest.mark.usefixtures("points")
def test_verbose_prints_every_stage_with_its_time() -> None:
    np.save("points.npy", np.load("points.npy") + 1.0)  # subspaces would not be compared
    words = ["fit", "points.npy", "-k", "3", "--device", "cpu", "--out", "run", "--verbose"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    lines = [line.split(" s  ", 1) for line in done.stderr.splitlines() if " s  " in line]
    seconds = [float(number) for number, _ in lines]
    assert seconds == sorted(seconds)
    told = [text for _, text in lines]
    assert told[0] == "reading points.npy"
    assert "comparing 3 representations: part 6 of 12" in told
    assert told[-4:] == [
        "linking 60 samples to each other",
        "cutting the graph into 3 clusters",
        "writing run",
        "drawing the report",
    ]
    assert logger.handlers == []
    assert logger.propagate


@pytest.mark.usefixtures("points")
def test_a_method_without_stages_of_its_own_is_told() -> None:
    words = ["fit", "points.npy", "-k", "3", "--method", "lsr", "--out", "run", "--verbose"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert "clustering by lsr" in done.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["compare", "x", "y"], True),
        (["doctor"], True),
        (["edit", "x"], True),
        (["name", "x"], True),
        (["export", "x", "--to", "csv"], True),
        (["report", "x"], True),
        (["fit", "x", "-k", "2"], True),
        (["fit", "x", "-k", "2", "--quiet"], False),
        (["edit", "x", "-q"], False),
        (["fit", "x", "-k", "2", "--json"], False),
        (["fit", "--help"], False),
        (["photos"], False),
        ([], False),
    ],
)
def test_every_command_shows_its_progress_unless_told_not_to(
    words: list[str], shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watching, "_on_terminal", lambda: True)
    begun: list[logging.Handler] = []

    class Shown(logging.NullHandler):
        def __init__(self) -> None:
            super().__init__()
            begun.append(self)

    monkeypatch.setattr(watching, "Status", Shown)
    CliRunner().invoke(app, words)
    assert bool(begun) is shown
    assert logger.handlers == []


def test_of_many_processes_the_first_alone_shows_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    for rank, shown in (("1", False), ("0", True)):
        monkeypatch.setenv("RANK", rank)
        with watching.watching({}):
            assert ("starting" in screen.getvalue()) is shown


def test_a_terminal_shows_the_stage_at_once_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with watching.watching({}):
        assert "starting" in screen.getvalue()
        stage("reading %s", "data")
        status = next(h for h in logger.handlers if isinstance(h, watching.Status))
        status.shown.refresh()
        assert "reading data" in screen.getvalue()
        stage("")
        assert not status.shown.live.is_started
        stage("cutting")
        assert status.shown.live.is_started
    assert logger.handlers == []
    assert screen.getvalue().rstrip("\n").endswith("\x1b[2K")  # the line is wiped out


def test_an_announcement_stays_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with watching.watching({}):
        stage("reading")
        announce("about %s on %s", "40 s", "2 cores")
        status = next(h for h in logger.handlers if isinstance(h, watching.Status))
        assert status.shown.tasks[0].description == "reading"
    assert "about 40 s on 2 cores\n" in screen.getvalue()


def test_a_terminal_shows_how_much_is_done_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with watching.watching({}):
        status = next(h for h in logger.handlers if isinstance(h, watching.Status))

        def left() -> str:
            return status.shown.tasks[0].fields["left"]

        stage("linking")
        progress(1000, 5000)
        assert left() == "1,000 of 5,000"
        now[0] += 10.0
        progress(2000, 5000)
        assert left() == "2,000 of 5,000, 0:30 left"
        progress(0, 5000)  # a second pass begins
        now[0] += 2.0
        progress(1, 5000)
        assert left() == "1 of 5,000, 2:46:38 left"
        progress(2, 5000, "loss 0.5")
        assert left() == "2 of 5,000, 1:23:18 left, loss 0.5"
        stage("cutting")
        assert left() == ""


@pytest.mark.parametrize("options", [{"quiet": True}, {"as_json": True}])
def test_nobody_is_told_who_did_not_ask(
    options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with watching.watching(options):
        assert logger.handlers == []
    assert screen.getvalue() == ""


def test_a_pipe_gets_no_status() -> None:
    with watching.watching({}):
        assert not any(isinstance(h, watching.Status) for h in logger.handlers)


def test_python_users_see_the_stages_as_a_log(caplog: pytest.LogCaptureFixture) -> None:
    from dcfsc import ClosedFormSubspaceClustering

    X = synthetic(60, 3, 3, 12, random_state=0).X
    with caplog.at_level(logging.INFO, logger="dcfsc.stage"):
        ClosedFormSubspaceClustering(3, representation="given", random_state=0).fit(X)
    assert caplog.messages == [
        "linking 60 samples to each other",
        "0 of 60",
        "cutting the graph into 3 clusters",
    ]


@pytest.mark.usefixtures("points")
def test_fast_takes_the_samples_as_they_are_and_plain_k_means() -> None:
    from dcfsc.runs.folder import read_run

    words = ["fit", "points.npy", "-k", "3", "--device", "cpu", "--out", "run", "--fast", "-q"]
    assert CliRunner().invoke(app, words).exit_code == 0
    chosen = read_run("run").record["parameters"]
    assert (chosen["representation"], chosen["assign"]) == ("given", "kmeans")
    words[words.index("run")] = "other"
    assert CliRunner().invoke(app, [*words, "--assign", "filtered"]).exit_code == 0
    assert read_run("other").record["parameters"]["assign"] == "filtered"


def test_nothing_is_announced_after_a_command() -> None:
    import logging

    from dcfsc.progress import announced

    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with watching.watching({"verbose": True}):
            assert announced()
        assert not announced()
    finally:
        logger.setLevel(before)
