"""The folders of the package and the way of the data through them: docs/images/tree.svg.

python docs/figures/tree.py

All of it comes from the code: the floors from the import contract in pyproject.toml, the sentences
from the docstrings, and the numbers from a fit that is watched. The picture carries what it shows
as its description, which tests/docs/test_tree.py compares with the code.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Sized
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dcfsc"
SAMPLES = 211  # a number that nothing else in a fit has


def floors() -> list[list[str]]:
    """The folders and files on each floor, the highest floor first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [c for c in settings["contracts"] if c.get("id") == "floors"]
    layers = [layer.split(" | ") for layer in contract["layers"]]
    return [[name for name in layer if not name.startswith("_")] for layer in layers][1:]


def sentence(name: str) -> str:
    """The first sentence of the docstring of a folder or file."""
    folder, file = PACKAGE / name / "__init__.py", PACKAGE / f"{name}.py"
    docstring = ast.get_docstring(ast.parse((folder if folder.exists() else file).read_text()))
    return (docstring or "").partition("\n")[0].rstrip(".")


def walk() -> list[str]:
    """The folders in the order in which a function of each first returns the samples in some form.

    A form is anything with one row, entry or node for each of the samples: a data set, an array, a
    tensor, an operator, a graph, labels. The command that is watched is 'dcfsc fit'.
    """
    import numpy as np
    from typer.testing import CliRunner

    from dcfsc.cli import app
    from dcfsc.io import synthetic

    import_module("dcfsc.runs.executor")  # before it is watched, which makes imports slow
    passed: list[str] = []
    prefix = f"{PACKAGE}{os.sep}"

    def watch(frame: FrameType, event: str, value: Any) -> None:
        if event != "return" or not frame.f_code.co_filename.startswith(prefix):
            return
        name, *file = frame.f_code.co_filename[len(prefix) :].split(os.sep)
        if file and name not in passed and counts(value) == SAMPLES:
            passed.append(name)

    with tempfile.TemporaryDirectory() as folder:
        X = synthetic(SAMPLES, n_clusters=3, subspace_dim=3, ambient_dim=30, random_state=0).X
        np.save(f"{folder}/samples.npy", X)
        sys.setprofile(watch)
        try:
            arguments = ["fit", f"{folder}/samples.npy", "-k", "3", "--out", f"{folder}/run"]
            result = CliRunner().invoke(app, arguments)
        finally:
            sys.setprofile(None)
    if result.exit_code:
        raise RuntimeError(f"the fit that was watched failed: {result.output}")
    return passed


def counts(value: Any) -> int | None:
    """How many samples a value is about, if it says so."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return shape[0] if len(shape) else None
    return getattr(value, "n", None) or (len(value) if isinstance(value, Sized) else None)


def description() -> dict[str, Any]:
    """All that the picture shows."""
    rows = floors()
    return {"floors": rows, "walk": walk(), "says": {n: sentence(n) for row in rows for n in row}}


def draw(shown: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch
    from style import BLUE, INK, MUTED, ORANGE, save

    rows, step = shown["floors"], {name: i + 1 for i, name in enumerate(shown["walk"])}
    most = max(map(len, rows))
    figure = plt.figure(figsize=(1.65 * most, 0.92 * len(rows)))
    axes = figure.add_axes((0, 0, 1, 1))
    for level, row in enumerate(rows):
        y = -1.1 * level
        left = (most - len(row)) / 2
        for column, name in enumerate(row):
            x = left + column
            shape = FancyBboxPatch(
                (x + 0.05, y), 0.9, 0.86, boxstyle="round,pad=0,rounding_size=0.05",
                fc="white", ec=BLUE if name in step else MUTED, lw=1.5,
            )  # fmt: skip
            axes.add_patch(shape)
            title = f"{name}/" if (PACKAGE / name).is_dir() else f"{name}.py"
            axes.text(x + 0.1, y + 0.7, title, weight="bold", color=INK, va="center", fontsize=9)
            text = textwrap.fill(shown["says"][name], 25)
            axes.text(x + 0.1, y + 0.58, text, color=INK, va="top", fontsize=7, linespacing=1.2)
            if name in step:
                axes.text(
                    x + 0.94, y + 0.84, step[name], color="white", weight="bold", fontsize=8,
                    ha="center", va="center", bbox={"boxstyle": "circle,pad=0.25", "fc": ORANGE,
                    "ec": "none"},
                )  # fmt: skip
    axes.set_xlim(0, most)
    axes.set_ylim(-1.1 * (len(rows) - 1) - 0.05, 0.9)
    axes.axis("off")
    save(figure, "tree", description=json.dumps(shown, sort_keys=True))


if __name__ == "__main__":
    draw(description())
