"""Fits that :mod:`checkouts` makes with the package of any checkout: labels, seconds and calls.

Only what every checkout has is imported here.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import sys
import threading
import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np

QUICK = {"epochs": 3, "pretrain_epochs": 3, "effort": "quick"}
WARM = 8  # of so many samples one is in the first fit


def labels(file: str, n_clusters: int, kind: str) -> dict[str, list[int]]:
    """Labels by the default of images or their features, by all methods of unions."""
    from dcfsc import ScatteringFeatures
    from dcfsc.estimators.registry import METHODS, create

    X = np.load(file)
    if kind == "features":
        X = ScatteringFeatures().fit_transform(X)
    partitions = {}
    for method in METHODS if kind == "unions" else ["closed-form"]:
        known = signature(METHODS[method]).parameters
        quick = {key: value for key, value in QUICK.items() if key in known}
        model = create(method, n_clusters=n_clusters, random_state=0, **quick)
        partitions[method] = model.fit(X).labels_.tolist()
    return partitions


def seconds(file: str, n_clusters: int) -> dict[str, float]:
    """Seconds of the second fit of this process."""
    from dcfsc import ClosedFormSubspaceClustering

    X = np.load(file)
    model = ClosedFormSubspaceClustering(n_clusters, random_state=0)
    model.fit(X[::WARM])
    begin = time.perf_counter()
    model.fit(X)
    return {"seconds": time.perf_counter() - begin}


class Function(NamedTuple):
    """A function of the package: its file, its first and last line, and its name."""

    file: str
    first: int
    last: int
    name: str


def calls(file: str, n_clusters: int) -> dict[str, Any]:
    """What the first fit of this process runs, every module having been imported."""
    import dcfsc

    import_all(dcfsc)
    model = dcfsc.ClosedFormSubspaceClustering(n_clusters, random_state=0)
    X, folder = np.load(file), Path(dcfsc.__path__[0])
    return totals(functions_run(folder, lambda: model.fit(X)))


def totals(functions: set[Function]) -> dict[str, Any]:
    return {
        "functions": len(functions),
        "lines": sum(f.last - f.first + 1 for f in functions),
        "files": len({f.file for f in functions}),
        "names": [f"{f.file}:{f.first} {f.name}" for f in sorted(functions)],
    }


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


def functions_run(folder: Path, work: Callable[[], Any]) -> set[Function]:
    """The functions from files below ``folder`` that run, in any thread, during ``work``."""
    codes: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{folder}{os.sep}"):
            codes.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    functions = set()
    for file in {code.co_filename for code in codes}:
        nodes = list(ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))))
        defined = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for line in {code.co_firstlineno for code in codes if code.co_filename == file}:
            around = [node for node in defined if _begin(node) <= line <= (node.end_lineno or 0)]
            if around:  # else outside functions
                node = max(around, key=_begin)
                place = Path(file).relative_to(folder).as_posix()
                functions.add(Function(place, node.lineno, node.end_lineno or 0, node.name))
    return functions


def _begin(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
