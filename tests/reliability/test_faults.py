"""A fault at every change that a command makes; `faults.py` walks all commands in all modes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
HERE = Path(__file__).parent


@posix
def test_no_fault_loses_a_run_and_every_command_can_be_repeated(tmp_path: Path) -> None:
    words = [sys.executable, HERE / "faults.py", "--json", tmp_path / "found.json"]
    words += [
        "--commands",
        "fit over a run,predict,predict shards,name,export links,export after new files",
        "--modes",
        "kill",
    ]
    words += ["--every", "3"]  # beside the kills of the walk
    done = subprocess.run(words, capture_output=True, text=True)
    found = json.loads((tmp_path / "found.json").read_text())
    walks = [walk for command in found["commands"].values() for walk in command["modes"].values()]
    assert [problem for walk in walks for problem in walk["wrong"]] == [], done.stderr
    assert len(walks) == 6
    assert all(walk["tried"] == walk["survived"] for walk in walks)
    assert all(walk["tried"] == (walk["points"] + 2) // 3 for walk in walks)
    assert found["commands"]["fit over a run"]["changes"] > 30
