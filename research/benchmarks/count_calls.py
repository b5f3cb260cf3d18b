"""How many functions of the package a default fit runs, of how many lines, in how many files.

    python -m research.benchmarks.count_calls
    PYTHONPATH=../other/checkout/src:. python -m research.benchmarks.count_calls --list

Each problem is the first fit of a new interpreter in which every module of the package has been
imported: nothing is hidden by a cache, and no import is counted. A function counts once, however
often it runs. Its lines are those of its definition with its decorators' left out; lambdas
and comprehensions count with the function that they are in. A named function inside another counts
for itself as well, so that its lines count twice.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np

PROBLEMS = ("vectors", "images")


class Function(NamedTuple):
    """A function of the package: its file, its first and last line, and its qualified name."""

    file: str
    first: int
    last: int
    name: str

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


def import_all(package: ModuleType) -> None:
    """Import every module of a package, except those that need a package that is not here."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == package.__name__:
                raise


def codes_run(folder: Path, work: Callable[[], Any]) -> set[CodeType]:
    """The code objects from files below ``folder`` that run, in any thread, during ``work``."""
    within = f"{folder}{os.sep}"
    codes: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(within):
            codes.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return codes


def functions_of(file: Path, relative: str) -> list[tuple[range, Function]]:
    """The functions of a file, outer ones first, with their lines and those of decorators."""
    found = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                assert child.end_lineno is not None
                function = Function(
                    relative, child.lineno, child.end_lineno, f"{prefix}{child.name}"
                )
                begin = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                found.append((range(begin, function.last + 1), function))
                visit(child, f"{function.name}.")
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(file.read_text(encoding="utf-8")), "")
    return found


def functions_run(folder: Path, codes: set[CodeType]) -> set[Function]:
    """The functions that the code objects belong to; none for code outside functions."""
    functions: set[Function] = set()
    for file in {code.co_filename for code in codes}:
        defined = functions_of(Path(file), Path(file).relative_to(folder).as_posix())
        for begin in {code.co_firstlineno for code in codes if code.co_filename == file}:
            around = [function for lines, function in defined if begin in lines]
            functions |= set(around[-1:])  # the innermost one
    return functions


def samples(problem: str) -> tuple[np.ndarray, int]:
    """Samples and their number of clusters."""
    if problem == "vectors":
        from dcfsc import io

        return io.synthetic(600, 5, 4, 30, random_state=0).X, 5
    from sklearn.datasets import load_digits

    return load_digits().images[:600], 10


def count(problem: str) -> set[Function]:
    """The functions that the first fit of this process runs."""
    import dcfsc

    import_all(dcfsc)
    X, n_clusters = samples(problem)
    model = dcfsc.ClosedFormSubspaceClustering(n_clusters, random_state=0)
    folder = Path(dcfsc.__path__[0])
    return functions_run(folder, codes_run(folder, lambda: model.fit(X)))


def report(problem: str, functions: set[Function], is_listed: bool) -> str:
    lines = sum(function.lines for function in functions)
    files = {function.file for function in functions}
    total = f"{problem:8} {len(functions):9,} {lines:7,} {len(files):7,}"
    if not is_listed:
        return total
    names = [f"  {f.file}:{f.first} {f.name} {f.lines}" for f in sorted(functions)]
    return "\n".join([total, *names])


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("problems", nargs="*", metavar="PROBLEM", help=" or ".join(PROBLEMS))
    options.add_argument("--list", action="store_true", help="name the functions")
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = options.parse_args()
    if unknown := set(args.problems) - set(PROBLEMS):
        options.error(f"unknown problem {unknown.pop()!r}; use {' or '.join(PROBLEMS)}")
    if args.here:
        (problem,) = args.problems
        print(report(problem, count(problem), args.list), flush=True)
        return
    print(f"{'fit of':8} {'functions':>9} {'lines':>7} {'files':>7}", flush=True)
    for problem in args.problems or PROBLEMS:
        words = [__file__, problem, "--here", *(["--list"] if args.list else [])]
        subprocess.run([sys.executable, *words], check=True)


if __name__ == "__main__":
    main()
