"""The structure of the source: floors, rooms, no circles, sizes. The floors stand in pyproject."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dcfsc"
MOST_LINES, MOST_ESTIMATORS = 400, 20


def floors() -> list[set[str]]:
    """The rooms of every floor, the highest first, as the import contract lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [c for c in settings["contracts"] if c.get("id") == "floors"]
    return [set(layer.split(" | ")) for layer in contract["layers"]]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Which module imports which, but for type checkers; lazy imports count."""
    graph = grimp.build_graph("dcfsc", exclude_type_checking_imports=True, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_every_room_and_file_is_on_a_floor():
    listed = [room for floor in floors() for room in floor]
    there = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir() if _is_code(p)}
    assert len(listed) == len(set(listed))
    assert set(listed) == there - {"__init__", "_version"}


def _is_code(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists())


def test_imports_run_down(imports):
    height = {room: -i for i, floor in enumerate(floors()) for room in floor}
    wrong = []
    for module, targets in imports.items():
        for target in targets:
            rooms = [name.split(".")[1] if "." in name else "" for name in (module, target)]
            if rooms[0] == rooms[1] or not {*rooms} <= height.keys():
                continue
            if height[rooms[0]] <= height[rooms[1]]:
                wrong.append(f"{module} imports {target}")
    assert wrong == []


def test_there_is_no_circle_of_files(imports):
    """Depth first: a module that is met again while it is being visited closes a circle."""
    state: dict[str, str] = {}
    circles: list[list[str]] = []

    def visit(module: str, path: list[str]) -> None:
        state[module] = "open"
        for target in sorted(imports[module]):
            if state.get(target) == "open":
                circles.append([*path[path.index(target) :], target])
            elif target not in state:
                visit(target, [*path, target])
        state[module] = "done"

    for module in sorted(imports):
        if module not in state:
            visit(module, [module])
    assert circles == []


def test_every_room_says_in_a_sentence_what_may_live_there():
    for room in sorted(p.parent for p in PACKAGE.glob("*/__init__.py")):
        doc = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
        assert doc is not None, room.name
        assert len(doc.split()) >= 12, f"{room.name}: {doc}"


def test_files_can_be_read_in_one_sitting():
    long = {
        str(p.relative_to(PACKAGE)): n
        for p in PACKAGE.rglob("*.py")
        if (n := len(p.read_text().splitlines())) > MOST_LINES
    }
    assert long == {}
    assert all(len(p.relative_to(PACKAGE).parts) <= 2 for p in PACKAGE.rglob("*.py"))


def test_estimators_are_few():
    assert len(list((PACKAGE / "estimators").glob("*.py"))) <= MOST_ESTIMATORS


def test_the_machine_is_asked_in_one_place():
    """Devices, free memory and versions: nobody but machine.py and processes.py looks."""
    asked = ("cuda.is_available", "mem_get_info", "/proc/meminfo", "platform.python_version")
    wrong = [
        f"{p.relative_to(PACKAGE)}: {what}"
        for p in PACKAGE.rglob("*.py")
        if p.name not in ("machine.py", "processes.py")
        for what in asked
        if what in p.read_text()
    ]
    assert wrong == []
