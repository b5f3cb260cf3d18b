"""What importing costs, told by the modules that are loaded, not by time."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "PIL"}
HELP = [["--version"], ["--help"], ["fit", "-h"], ["predict", "--help"]]
HELP += [["suggest-k", "--help"], ["report", "-h"]]
HELP += [["export", "-h"], ["edit", "-h"], ["compare", "-h"]]


def loaded_after(*steps: str) -> list[set[str]]:
    """What a fresh interpreter has loaded after each of the steps."""
    report = "sys.stderr.write(' '.join({m.partition('.')[0] for m in sys.modules}) + '\\n')"
    code = "import sys\n" + "\n".join(f"{step}\n{report}" for step in steps)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stderr.splitlines()]


def test_nothing_heavy_is_imported() -> None:
    steps = [
        "import dcfsc.errors, dcfsc.cli.output, dcfsc.cli.suggest",
        "import dcfsc; dir(dcfsc); dcfsc.__version__",
        "import dcfsc.cli",
        "import dcfsc.runs",
        *(f"dcfsc.cli.app({words!r}, standalone_mode=False)" for words in HELP),
    ]
    for step, loaded in zip(steps, loaded_after(*steps), strict=True):
        assert loaded & HEAVY == set(), step


def test_estimators_need_no_plots_and_every_public_name_is_there() -> None:
    every = "import dcfsc\nfor n in dcfsc.__all__: getattr(dcfsc, n)\n"
    every += "assert set(dcfsc.__all__) <= set(dir(dcfsc))"
    estimators, names = loaded_after("from dcfsc import DCFSC, suggest_k", every)
    assert "matplotlib" not in estimators
    assert "torch" in names


def test_plots_need_no_torch() -> None:
    (loaded,) = loaded_after("from dcfsc import plot_affinity")
    assert not loaded & {"torch", "matplotlib"}


def test_dir_lists_the_public_names_and_the_rooms_and_nothing_else() -> None:
    import dcfsc

    rooms = ("affinity", "io", "processes", "errors", "estimators")
    rooms += ("features", "graphs", "metrics")
    rooms += ("neighbors", "networks", "pipeline", "report", "representations", "runs")
    rooms += ("selection", "self_expression", "spectral", "training", "views")
    assert dir(dcfsc) == sorted([*dcfsc.__all__, *rooms])
    for room in rooms:
        assert getattr(dcfsc, room).__name__ == f"dcfsc.{room}"
