"""Names of files, folders and variables do nothing to the terminal, whatever is in them."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from PIL import Image
from typer.testing import CliRunner

from dcfsc.cli import app, output, watching
from dcfsc.progress import announce, logger, stage

ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b2J\u202egnp\u2066\x7f"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OPTIONS = ("--device", "cpu", "--method", "closed-form", "--representation", "given")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dcfsc(*words: object, code: int = 0) -> str:
    """What a command prints, which holds no control."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == code, done.output
    assert not CONTROLS.search(done.output), done.output
    return done.output


def pictures(folder: str) -> None:
    Path(folder).mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        picture = Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8))
        picture.save(Path(folder, f"{i}.png"))


def test_suffixes_and_folders(place: Path) -> None:
    pictures(f"photos {ESCAPES}")
    Path(f"photos {ESCAPES}", f"note.{ESCAPES}").write_text("")
    run = f"run {ESCAPES} [/b]"
    told = dcfsc("fit", f"photos {ESCAPES}", "-k", 2, *OPTIONS, "--out", run)
    assert "\\x1b[31m" in told
    assert "1 file skipped" in told
    assert "[/b]" in told
    for command in (("export", run, "--to", "csv"), ("report", run), ("name", run, "0=x")):
        dcfsc(*command)
    dcfsc("export", f"none {ESCAPES}", "--to", "csv", code=2)


def test_a_broken_file(place: Path) -> None:
    pictures("photos")
    Path("photos", f"broken {ESCAPES}.png").write_bytes(b"\x89PNG")
    assert "broken \\x1b" in dcfsc("fit", "photos", "-k", 2, *OPTIONS, "--strict", code=2)
    assert "warning: " in dcfsc("fit", "photos", "-k", 2, *OPTIONS)


def test_usage_errors() -> None:
    assert "\\x1b" in dcfsc("fit", f"--{ESCAPES}", code=2)
    assert "\\x1b" in dcfsc(ESCAPES, code=2)
    assert "\\x1b" in dcfsc("fit", "x", "-k", "2", "--seed", ESCAPES, code=2)


def test_variables_of_a_mat_file(place: Path) -> None:
    rng = np.random.default_rng(0)
    scipy.io.savemat("odd.mat", {"qzx": rng.normal(size=(5, 12)), "gnd": np.arange(12) % 2})
    Path("odd.mat").write_bytes(Path("odd.mat").read_bytes().replace(b"qzx", b"\x1b[x"))
    assert "\\x1b[x holds samples in columns" in dcfsc("fit", "odd.mat", "-k", 2, *OPTIONS)


@pytest.mark.parametrize("name", [ESCAPES, "[/b]", "[red]x[/red] :smile:"])
def test_a_terminal_shows_stages_and_tables_as_they_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    for variable in ("COLORTERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with watching.watching({}):
        stage("reading %s", name)
        announce("found %s", name)
        assert logger.handlers
    output.print_facts([("run", name)])
    output.print_table(("run",), [[name]])
    for stream in (out, err):
        text = stream.getvalue()
        assert "\x1b]0;" not in text
        assert "\x1b[31m" not in text
        assert not re.search("[\x07\x7f-\x9f\u202e\u2066]", text)
        if name != ESCAPES:
            assert name in text


def test_lines_of_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    with watching.watching({"verbose": True}):
        stage("reading %s", f"{ESCAPES}\nx")
    assert not CONTROLS.search(capsys.readouterr().err)


def say_twice(text: str) -> Any:
    return output.say(text), output.say(text, error=True)


def test_both_streams(capsys: pytest.CaptureFixture[str]) -> None:
    say_twice("a\nb\x85")
    done = capsys.readouterr()
    assert done.out == done.err == "a\\nb\\x85\n"
