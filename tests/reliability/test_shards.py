"""Labeling shards is killed again and again, and shared: every row comes once, as undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import fit_run

from dcfsc.files import is_part
from dcfsc.io import Dataset
from dcfsc.io.shards import shard_files
from dcfsc.runs.shards import predict_shards

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a POSIX system"),
]
SHARDS, ROWS = 12, 4000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A run, shards, and the predictions of an undisturbed process."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 16)) * 2
    (tmp_path / "in").mkdir()
    for s in range(SHARDS):
        X = centers[rng.integers(0, 5, ROWS)] + rng.normal(size=(ROWS, 16))
        table = {"id": [f"{s}-{i}" for i in range(ROWS)], "emb": list(X.astype(np.float32))}
        pq.write_table(pa.table(table), tmp_path / "in" / f"{s}.parquet", row_group_size=500)
    options = {"n_clusters": 5, "random_state": 0, "device": "cpu", "representation": "given"}
    fit_run(Dataset("part", X.astype(np.float32)), "closed-form", options, tmp_path / "run")
    predict_shards(tmp_path / "run", shard_files(tmp_path / "in"), tmp_path / "expected")
    return tmp_path


def started(place: Path) -> subprocess.Popen[bytes]:
    """A process that labels the shards, a few rows at a time, so that kills fall within shards."""
    work = (
        "import sys; from pathlib import Path; from dcfsc.io.shards import shard_files\n"
        "from dcfsc.runs import shards\n"
        "shards.BLOCK_ROWS = 40\n"
        "print('begun', flush=True)\n"
        "done = shards.predict_shards('run', shard_files('in'), Path('out'))\n"
        "print(done.labeled, done.earlier, done.others)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", work]
    return subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, env=environment)


def told(process: subprocess.Popen[bytes]) -> list[int]:
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    return [int(word) for word in said.split()[-3:]]


def check(place: Path) -> None:
    """No row is missing or there twice, and nothing else is left."""
    names = {f"{s}.parquet" for s in range(SHARDS)}
    assert {path.name for path in (place / "out").iterdir()} == {*names, ".dcfsc.json"}
    for name in names:
        found, expected = (pq.read_table(place / folder / name) for folder in ("out", "expected"))
        assert found.drop_columns(["confidence"]).equals(expected.drop_columns(["confidence"]))
        ids = pq.read_table(place / "in" / name).column("id")
        assert found.column("id").to_pylist() == ids.to_pylist()


def test_killed_at_any_moment_the_work_is_gone_on_with(place: Path) -> None:
    out, rng = place / "out", np.random.default_rng(0)
    within = 0
    for kill in range(6):
        process = started(place)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        until = time.monotonic() + 120
        while not done(out) > kill // 2 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.communicate()
        within += any(is_part(path.name) for path in out.iterdir())
    before = done(out)
    assert 0 < before < SHARDS
    assert within > 0
    assert told(started(place)) == [SHARDS - before, before, 0]
    check(place)


def test_processes_that_know_nothing_of_each_other_share_the_shards(place: Path) -> None:
    both = [started(place), started(place)]
    counts = [told(process) for process in both]
    assert all(sum(count) == SHARDS for count in counts)
    assert sum(labeled for labeled, _, _ in counts) == SHARDS
    assert all(labeled > 0 for labeled, _, _ in counts)
    check(place)


def done(out: Path) -> int:
    return len(list(out.glob("*.parquet")))
