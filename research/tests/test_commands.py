"""The commands of research."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from research.__main__ import app


def research(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def refused(*args: object) -> str:
    """The one line of a command that its input ends; nothing is left of it."""
    before = sorted(Path.cwd().rglob("*"))
    result = research(*args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert sorted(Path.cwd().rglob("*")) == before
    return line


def test_datasets_lists_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCFSC_DATA", str(tmp_path))
    result = research("datasets")
    assert result.exit_code == 0
    here = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "embedded" in here["digits"]
    assert "put orl_32x32.npz" in here["orl"]
    assert str(tmp_path) in here["data"]


def test_names_cannot_control_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "data \x1b[31m"
    place.mkdir()
    monkeypatch.setenv("DCFSC_DATA", str(place))
    printed = research("datasets").stdout
    assert "\x1b" not in printed
    assert "\\x1b[31m" in printed


def test_absurd_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--clusters takes whole" in refused("reproduce", "smoke", "--clusters", "1_0")


@pytest.mark.skipif(os.name != "posix", reason="the limit of names is that of POSIX systems")
def test_a_folder_whose_name_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "File name too long" in refused("reproduce", "smoke", "--out", "n" * 300)
