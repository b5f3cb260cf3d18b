"""A few of the forged runs, models, caches and folders of weights of forged.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
EACH = 40


def test_forged_ones_are_refused_or_do_no_harm():
    pytest.importorskip("transformers")
    done = subprocess.run(
        [sys.executable, HERE / "forged.py", "--count", str(EACH), "--seed", "7"],
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert [row["mutations"] for row in found["kinds"]] == [EACH] * 5
    refused = {row["kind"]: row["refused"] for row in found["kinds"]}
    assert all(refused[kind] > EACH // 3 for kind in ("run", "model", "weights", "texts"))
    assert all(row["peak_bytes"] < 1 << 30 for row in found["kinds"])
