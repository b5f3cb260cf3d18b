"""Benchmarks: their options, their records, and the commands that measure the committed results."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dcfsc.errors import InputError
from research.__main__ import app
from research.alone import alone
from research.benchmarks import commands, measure

ROOT = Path(__file__).resolve().parents[2]
KEYS = ["benchmark", "command", "commit", "date", "machine", "figures"]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch):
    """Benchmarks of this test alone."""
    monkeypatch.setattr(measure, "BENCHMARKS", {})
    return measure.BENCHMARKS


def test_parameters_are_options(registered, tmp_path, capsys):
    @measure.benchmark
    def some_sums(
        first: str, sizes: tuple[int, ...] = (1,), limit: float = 2.0, long: bool = False
    ):
        return [first, sum(sizes), limit, long]

    file = tmp_path / "sums.json"
    measure.run("some-sums", ["a", "--sizes", "2", "3", "--long", "--json", str(file)])
    record = json.loads(file.read_text())
    assert list(record) == KEYS
    assert record["benchmark"] == "some_sums"
    assert record["figures"] == ["a", 5, 2.0, True]
    assert json.loads(capsys.readouterr().out) == record["figures"]


def test_rows_replace_those_of_their_name(registered, tmp_path):
    @measure.benchmark
    def rows(names: tuple[str, ...] = ("a", "b"), value: int = 1):
        yield from ((name, {"value": value}) for name in names)

    file = tmp_path / "rows.json"
    measure.run("rows", ["--quiet", "--json", str(file)])
    measure.run("rows", ["--quiet", "--json", str(file), "--names", "b", "--value", "2"])
    record = json.loads(file.read_text())
    assert list(record) == KEYS
    assert {name: row["value"] for name, row in record["figures"].items()} == {"a": 1, "b": 2}
    assert all({"commit", "date", "machine"} <= row.keys() for row in record["figures"].values())


def test_a_command_names_no_folder(registered, tmp_path, monkeypatch):
    @measure.benchmark
    def one():
        return 1

    file = tmp_path / "one.json"
    program = ROOT / "research" / "__main__.py"
    monkeypatch.setattr("sys.argv", [str(program), "bench", "one", "--json", str(file)])
    measure.run("one", ["--quiet", "--json", str(file)])
    assert json.loads(file.read_text())["command"] == (
        "python -m research bench one --json one.json"
    )


def area(width: float, height: float) -> dict[str, float]:
    if width < 0:
        raise InputError("a width is not negative")
    return {"area": width * height}


def test_a_function_alone_returns_its_figures_or_why_it_has_none():
    assert alone(area, 2.0, 3.0) == {"area": 6.0}
    assert "a width is not negative" in alone(area, -2.0, 3.0)["failed"]
    assert alone(area, 2.0, 3.0, limit=0.01) == {"failed": "not finished after 0.01 s"}


@pytest.mark.parametrize("machine", commands.MACHINES)
def test_every_command_is_understood(machine, monkeypatch):
    """Its benchmark is there, and has its options."""
    made = tomllib.loads(commands.COMMANDS.read_text(encoding="utf-8"))[machine]
    asked = []
    monkeypatch.setattr(measure, "finish", lambda args, name, figures: asked.append(name))
    for words in map(shlex.split, made.values()):
        if words[0] != "-m":
            assert (ROOT / words[0]).exists()
            continue
        assert words[:3] == ["-m", "research", "bench"]
        commands.known()
        function = measure.BENCHMARKS[words[3]]
        monkeypatch.setitem(measure.BENCHMARKS, words[3], _named_as(function))
        measure.run(words[3], words[4:])
    assert len(asked) == len([c for c in made.values() if c.startswith("-m")])


def _named_as(function):
    """A function with the same options, which measures nothing."""
    import functools

    @functools.wraps(function)
    def nothing(**options):
        return {}

    return nothing


def test_an_unknown_benchmark_is_refused():
    result = CliRunner().invoke(app, ["bench", "nothing"])
    assert result.exit_code == 2
    assert "unknown benchmark 'nothing'" in result.stderr
