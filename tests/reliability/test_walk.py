"""No command loses what it did not write; `walk.py` has all commands, targets and kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WALK = Path(__file__).parent / "walk.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_nothing_of_somebodys_is_lost(tmp_path: Path) -> None:
    words = [sys.executable, WALK, "--fixed", "--quiet", "--json", tmp_path / "found.json"]
    done = subprocess.run(words, capture_output=True, text=True)
    found = json.loads((tmp_path / "found.json").read_text())["figures"]
    assert found["wrong"] == [], done.stderr
    assert len(found["commands"]) == 25
    assert found["targets"] == 61
    assert found["total"]["done"] > 25
    assert found["total"]["refused"] > 25
    assert found["total"]["kills"] > 8
