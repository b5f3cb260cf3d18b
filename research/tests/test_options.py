"""Every option of research's commands changes what it says, or is refused in one line.

The options are those of the commands: a new one without an entry here fails. A command is run with
the option and without. What is compared is named: the files, the text, or its words but no numbers.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from research.__main__ import app

SMOKE = ("reproduce", "smoke")
DRY = (*SMOKE, "--dry-run")
YALE = ("reproduce", "eyaleb", "--dry-run")
VIEWS = ("reproduce", "views", "--dry-run")
CASES = {
    ("reproduce", "--methods"): (DRY, ("--methods", "closed-form"), "words"),
    ("reproduce", "--trials"): (DRY, ("--trials", "1"), "text"),
    ("reproduce", "--clusters"): (YALE, ("--clusters", "10"), "text"),
    ("reproduce", "--datasets"): (VIEWS, ("--datasets", "orl"), "text"),
    ("reproduce", "--out"): (SMOKE, ("--out", "tables"), "files"),
    ("reproduce", "--device"): (DRY, ("--device", "gpu"), "unknown device 'gpu'"),
    ("reproduce", "--dry-run"): (SMOKE, ("--dry-run",), "files"),
    ("reproduce", "--force"): (SMOKE, ("--force",), "files"),
    ("reproduce", "--jobs"): (SMOKE, ("--jobs", "2"), "files"),
    ("reproduce", "--quiet"): (DRY, ("--quiet",), "words"),
}


def research(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def refused(*args: str) -> str:
    """The one line of a command that its input ends."""
    result = research(*args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.fixture(autouse=True)
def small_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments whose cells are not computed, but leave a file that says how they would be."""
    module = importlib.import_module("research.experiments.reproduce")

    def fill(experiment, cells, session):
        Path(f"alone{session.force}").touch()
        return []

    def by_processes(*args):
        Path("processes").touch()
        return []

    monkeypatch.setattr(module, "fill", fill)
    monkeypatch.setattr(module, "fill_by_processes", by_processes)
    monkeypatch.setattr(module, "render", lambda *args, **options: [])


def seen(
    args: tuple[str, ...], effect: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> object:
    """What a command leaves, as far as the effect goes."""
    place.mkdir()
    monkeypatch.chdir(place)
    result = research(*args)
    assert result.exit_code == 0, result.output
    if effect == "files":
        return sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.suffix != ".json")
    return re.sub(r"[\d.]+", "#", result.stdout) if effect == "words" else result.stdout


def test_every_option_has_a_case() -> None:
    options = {
        (name, option.opts[0])
        for name, command in get_command(app).commands.items()
        for option in command.params
        if option.opts[0].startswith("--")
    }
    assert options == CASES.keys()


@pytest.mark.parametrize(("command", "option"), CASES)
def test_an_option_has_an_effect_or_is_refused(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, more, effect = CASES[command, option]
    assert (words[0], more[0]) == (command, option)
    without = "words" if effect not in ("files", "text", "words") else effect
    first = seen(words, without, tmp_path / "one", monkeypatch)
    if without == effect:
        assert first != seen((*words, *more), effect, tmp_path / "two", monkeypatch)
    else:
        assert effect in refused(*words, *more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--methods", "no_such"), "unknown method"),
        (("--clusters", "2"), "has no clusters to choose"),
        (("--datasets", "orl"), "has no datasets to choose"),
    ],
)
def test_a_refusal_says_why(
    more: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(*DRY, *more)
    assert list(tmp_path.iterdir()) == []
