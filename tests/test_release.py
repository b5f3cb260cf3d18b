"""What the files of a release say agrees: versions, and the oldest dependencies."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dcfsc import __version__

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = (
    "encoders",
    "excel",
    "h5ad",
    "heic",
    "pandas",
    "plots",
    "research",
    "texts",
    "tiff",
    "test",
)


def claimed(extras: Sequence[str] = EXTRAS) -> dict[str, Version]:
    """The lower bound of each dependency, with those of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras for line in optional[name])]
    bounds = {}
    for requirement in map(Requirement, lines):
        if requirement.name != "dcfsc":
            (bound,) = requirement.specifier
            assert bound.operator == ">=", f"{requirement} has no lower bound"
            bounds[canonicalize_name(requirement.name)] = Version(bound.version)
    return bounds


def test_constraints_are_the_lower_bounds() -> None:
    text = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")
    pinned = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    tested = {canonicalize_name(r.name): Version(str(r.specifier)[2:]) for r in pinned}
    assert tested == claimed()


def test_every_import_is_declared() -> None:
    names = {"PIL": "pillow", "sklearn": "scikit-learn"}
    own = {"dcfsc", "research"}
    brought = {"triton"}  # by PyTorch, where there is a GPU that it is for
    for room, extras in (("src", EXTRAS[:-1]), ("research", (*EXTRAS, "peers", "problems"))):
        imported = set()
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported.add(str(node.module).partition(".")[0])
        others = imported - set(sys.stdlib_module_names) - own - brought
        packages = {canonicalize_name(names.get(name, name)) for name in others}
        assert packages - claimed(extras).keys() == set()


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (version,) = re.findall(r"^version: (.+)$", citation, re.MULTILINE)
    (date,) = re.findall(r'^date-released: "(.+)"$', citation, re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (.+) \((\d.+)\)$", changelog, re.MULTILINE)
    assert newest is not None
    assert (newest[1], newest[2]) == (version, date)
    assert version == __version__
