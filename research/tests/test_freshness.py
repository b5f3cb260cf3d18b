"""A figure in README.md is of the present code, or the text says that it is not."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from research.benchmarks import freshness

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''"""A module."""
def double(x: int) -> int:
    """Twice x."""
    if x > 9:
        raise ValueError("too large")
    return 2 * x
'''
TABLE = """
history = ["results/benchmarks/old.json"]
[groups]
arithmetic = ["src"]
[benchmarks]
speed = ["arithmetic"]
"""
SPEED = "results/benchmarks/speed.json"
MARK = f"<!-- historical: {SPEED} -->"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with a result of its present code."""
    (tmp_path / "src").mkdir()
    (tmp_path / "results" / "benchmarks").mkdir(parents=True)
    (tmp_path / "src" / "arithmetic.py").write_text(SOURCE)
    (tmp_path / "sources.toml").write_text(TABLE)
    monkeypatch.setattr(freshness, "TABLE", tmp_path / "sources.toml")
    monkeypatch.setattr(freshness, "ROOT", tmp_path)
    freshness.digest.cache_clear()
    record = {"benchmark": "speed", "figures": {"row": {"code": freshness.code("speed")}}}
    (tmp_path / SPEED).write_text(json.dumps(record))
    return tmp_path


def changed(root: Path, old: str, new: str) -> str | None:
    assert old in SOURCE
    (root / "src" / "arithmetic.py").write_text(SOURCE.replace(old, new))
    freshness.digest.cache_clear()
    return freshness.staleness(SPEED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', ""),
        ("Twice x.", "Two times x."),
        ("return 2 * x", "return (2  *  x)  # the same"),
        ("x: int", "x: float"),
        ("-> int", "-> float"),
        ("too large", "larger than 9"),
    ],
)
def test_what_computes_the_same_stays_fresh(root: Path, old: str, new: str) -> None:
    assert changed(root, old, new) is None


@pytest.mark.parametrize(("old", "new"), [("2 * x", "3 * x"), ("x: int", "x: int = 1")])
def test_a_change_makes_a_result_stale(root: Path, old: str, new: str) -> None:
    assert "changed: arithmetic (since" in str(changed(root, old, new))


def test_a_change_that_computes_the_same_may_be_declared(root: Path) -> None:
    before = freshness.digests("speed")["arithmetic"]
    changed(root, "double", "twice")
    now = freshness.digests("speed")["arithmetic"]
    same = f'[same.arithmetic]\nnow = "{now}"\nbefore = ["{before}"]\n'
    (root / "sources.toml").write_text(TABLE.replace("[groups]", f"{same}[groups]"))
    assert freshness.staleness(SPEED) is None
    assert "changed" in str(changed(root, "2 * x", "3 * x"))


def test_a_new_file_makes_a_result_stale(root: Path) -> None:
    (root / "src" / "more.py").write_text("y = 1\n")
    freshness.digest.cache_clear()
    assert freshness.staleness(SPEED) is not None


def test_a_result_without_a_record_of_the_code_is_stale(root: Path) -> None:
    record = json.loads((root / SPEED).read_text())
    record["figures"]["older row"] = {"seconds": 1.0}
    (root / SPEED).write_text(json.dumps(record))
    assert "before results recorded the code" in str(freshness.staleness(SPEED))
    (root / SPEED).write_text(json.dumps({"benchmark": "speed", "figures": [1.0]}))
    assert "before results recorded the code" in str(freshness.staleness(SPEED))
    assert freshness.staleness("results/benchmarks/old.json") is None  # of the past, by the table


def test_a_page_says_which_results_are_of_an_earlier_version(root: Path) -> None:
    cites = f"It takes 3 s <!-- {SPEED}:figures.row -->."
    assert freshness.check(cites) == ([], [])
    unneeded = freshness.check(f"{cites} Of an earlier version. {MARK}")[1]
    assert unneeded == [f"{SPEED} is marked as historical, but is up to date"]
    changed(root, "2 * x", "3 * x")
    (stale,) = freshness.check(cites)[0]
    assert stale.startswith(f"{SPEED}: changed: arithmetic")
    assert freshness.check(f"{cites}\n\nThis is of an earlier\nversion. {MARK}") == ([], [])
    assert "without the words" in freshness.check(f"{cites} {MARK}")[1][0]


def test_readme_is_of_the_present_code() -> None:
    assert freshness.check((ROOT / "README.md").read_text(encoding="utf-8")) == ([], [])


def test_every_benchmark_says_what_it_measures() -> None:
    scripts = list((ROOT / "research" / "benchmarks").glob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in scripts)
    written = set(re.findall(r'finish(?:_row)?\(\s*\w+, "(\w+)"', text)) | {"problems", "variants"}
    table = freshness.declared()
    assert written <= set(table["benchmarks"])
    for name, groups in table["benchmarks"].items():
        assert list(freshness.digests(name)) == groups
    commands = [c.split() for kind in table["commands"].values() for c in kind.values()]
    assert all(find_spec(c[1]) if c[0] == "-m" else (ROOT / c[0]).exists() for c in commands)
