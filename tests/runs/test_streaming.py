"""A file larger than memory should be: a run in one process reads it in chunks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dcfsc.io.streamed import STREAM_BYTES

ROWS, WIDTH = 2560, 1 << 16  # 1.25 GiB of float64, more than what is read at once

PROGRAM = """
import json, sys
from pathlib import Path
from dcfsc.io import Streamed, load
from dcfsc.networks import MLPSpec
from dcfsc.runs.executor import execute
from dcfsc.runs.request import RunRequest

def peak_resident():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

before = peak_resident()  # what the imports take: 0.4 GiB, 0.7 with CUDA
data = load(sys.argv[1])
assert isinstance(data.X, Streamed)
options = {"n_clusters": 3, "network": MLPSpec(data.X.shape[1], (), 4), "pretrain_epochs": 0}
options |= {"steps": 1, "batch_size": 64, "random_state": 0, "device": "cpu", "assign": "kmeans"}
request = RunRequest(data, "dcfsc", options, out=Path(sys.argv[2]), report=False)
run = execute(request)
print(json.dumps({"added": peak_resident() - before, "n": len(run.labels)}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system tells no peak")
@pytest.mark.slow
def test_fitting_more_than_a_gigabyte_takes_less_than_half_of_it(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    bases = random.normal(size=(3, 2, WIDTH))
    file = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (ROWS, WIDTH))
    for start in range(0, ROWS, 64):
        np.matmul(random.normal(size=(64, 2)), bases[start // 64 % 3], out=file[start : start + 64])
    file.flush()
    size = file.nbytes
    assert size == 5 << 28 > STREAM_BYTES
    del file
    arguments = [str(tmp_path / "x.npy"), str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["n"] == ROWS
    # not even one copy in float32
    assert told["added"] < size / 2, f"{told['added'] / 2**20:.0f} MiB of {size / 2**20:.0f}"
    (tmp_path / "x.npy").unlink()
