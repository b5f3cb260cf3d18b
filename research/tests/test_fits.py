"""What counts as a function that ran, on a package of a few lines."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from research.benchmarks import fits
from research.benchmarks.fits import Function

SOURCE = '''"""A module."""
from functools import cache

square = lambda x: x * x

def unused():
    return 0

@cache
def doubled(x):
    """Twice x."""
    return sum(x for _ in range(2))

class Adder:
    def add(self, x):
        def plus(y):
            return x + y

        return plus(1)

def outer():
    adder = Adder()
    return [adder.add(square(doubled(i))) for i in range(3)]
'''
RUN = {
    Function("inner/sums.py", 10, 12, "doubled"),
    Function("inner/sums.py", 15, 19, "add"),
    Function("inner/sums.py", 16, 17, "plus"),
    Function("inner/sums.py", 21, 23, "outer"),
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "counted"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "inner" / "__init__.py").touch()
    (folder / "inner" / "sums.py").write_text(SOURCE)
    (folder / "inner" / "absent.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    counted = importlib.import_module("counted")

    fits.import_all(counted)
    yield counted
    for name in [name for name in sys.modules if name.partition(".")[0] == "counted"]:
        del sys.modules[name]


def test_functions_that_ran_count_once(package: ModuleType) -> None:
    folder = Path(package.__path__[0])
    outer = sys.modules["counted.inner.sums"].outer
    functions = fits.functions_run(folder, outer)
    assert functions == RUN
    names = ["inner/sums.py:10 doubled", "inner/sums.py:15 add"]
    names += ["inner/sums.py:16 plus", "inner/sums.py:21 outer"]
    assert fits.totals(functions) == {"functions": 4, "lines": 13, "files": 1, "names": names}


def test_threads_count(package: ModuleType) -> None:
    folder = Path(package.__path__[0])

    def work() -> None:
        thread = threading.Thread(target=sys.modules["counted.inner.sums"].unused)
        thread.start()
        thread.join()

    functions = fits.functions_run(folder, work)
    assert [function.name for function in functions] == ["unused"]


def test_a_broken_module_of_the_package_is_an_error(package: ModuleType) -> None:
    Path(package.__path__[0], "inner", "broken.py").write_text("import counted.nothing\n")
    with pytest.raises(ModuleNotFoundError, match=r"counted\.nothing"):
        fits.import_all(package)
