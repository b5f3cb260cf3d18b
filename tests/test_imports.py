"""What importing costs, told by the modules that are loaded, not by time."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "PIL", "tensorboard"}


def loaded_after(code: str) -> set[str]:
    report = "import sys; sys.stderr.write(' '.join({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import dcfsc; dir(dcfsc); dcfsc.__version__",
        "import dcfsc.cli",
        "import dcfsc.errors, dcfsc.cli.output, dcfsc.cli.suggest",
        "import dcfsc.runs",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert loaded_after(code) & HEAVY == set()


@pytest.mark.parametrize("command", [["--help"], ["suggest-k", "--help"], ["report", "-h"]])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = f"from dcfsc.cli import app\napp({command!r}, standalone_mode=False)"
    assert loaded_after(code) & HEAVY == set()


def test_estimators_need_no_plots_and_plots_need_no_torch() -> None:
    assert not loaded_after("from dcfsc import DCFSC, suggest_k") & {"matplotlib", "tensorboard"}
    assert not loaded_after("from dcfsc import plot_affinity") & {"torch", "matplotlib"}


def test_dir_lists_the_public_names_and_the_rooms_and_nothing_else() -> None:
    import dcfsc

    rooms = ("affinity", "datasets", "estimators", "experiments", "features", "metrics")
    rooms += ("neighbours", "networks", "report", "representations", "runs")
    rooms += ("self_expression", "spectral", "training")
    assert dir(dcfsc) == sorted([*dcfsc.__all__, *rooms])
    for room in rooms:
        assert getattr(dcfsc, room).__name__ == f"dcfsc.{room}"


def test_every_public_name_is_there() -> None:
    code = "import dcfsc\nfor n in dcfsc.__all__: getattr(dcfsc, n)\nassert set(dcfsc.__all__) <= "
    assert "torch" in loaded_after(code + "set(dir(dcfsc))")
