"""The command line under torchrun: the labels of one process, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.io import synthetic
from dcfsc.runs.life import CHECKPOINT

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
LAUNCHED = Path(__file__).with_name("launched.py")
HANG_SECONDS = 600  # no result is awaited longer
DEEP = ["--device", "cpu", "--no-report", "--pretrain-epochs", "3", "--steps", "40"]
DEEP += ["--checkpoint-every", "0"]
Start = Callable[..., "subprocess.Popen[str]"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = synthetic(71, 3, 3, 12, noise=0.05, random_state=0)
    file = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(file, X=data.X, y=data.y)
    return file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes in the test's folder; none of them outlives the test."""
    jobs: list[subprocess.Popen[str]] = []

    def begin(*command: object, **environment: str) -> subprocess.Popen[str]:
        job = subprocess.Popen(
            [str(word) for word in command],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"}
            | {k: str(v) for k, v in environment.items()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        jobs.append(job)
        return job

    yield begin
    for job in jobs:
        for pid in (*children(job.pid), job.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        job.communicate()


def children(parent: int) -> list[int]:
    """The processes that ``parent`` started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def alone(points: Path, out: Path, *options: object) -> None:
    result = CliRunner().invoke(
        app, [str(o) for o in ("fit", points, "-k", 3, "--out", out, *options)]
    )
    assert result.exit_code == 0, result.output


def trained(file: Path) -> int:
    """The last step of training that a checkpoint holds."""
    try:
        content = file.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        saved = json.loads(header["__metadata__"]["dcfsc"])
    except (OSError, ValueError):
        return 0
    return saved["step"] if saved["phase"] == "train" else 0


def wait_for_training(folder: Path, *jobs: subprocess.Popen[str], step: int = 3) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while trained(folder / CHECKPOINT) < step:
        assert all(job.poll() is None for job in jobs), [job.communicate() for job in jobs]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_processes_write_the_labels_of_one(points: Path, tmp_path: Path, start: Start) -> None:
    options = ("--method", "closed-form", "--device", "cpu")
    alone(points, tmp_path / "one", *options)
    job = start(
        *(*TORCHRUN, "--nproc-per-node=2", "-m", "dcfsc"),
        *("fit", points, "-k", 3, "--out", "two", *options),
    )
    output, errors = job.communicate(timeout=HANG_SECONDS)
    assert job.returncode == 0, errors
    assert output.count("closed-form") == 1
    assert "2 processes (gloo)" in output
    one, two = tmp_path / "one", tmp_path / "two"
    assert (two / "labels.csv").read_text() == (one / "labels.csv").read_text()
    assert {p.name for p in two.iterdir()} == {p.name for p in one.iterdir()}
    records = [json.loads((folder / "run.json").read_text()) for folder in (one, two)]
    assert records[1]["machine"]["processes"] == 2
    assert records[1]["machine"]["backend"] == "gloo"
    assert records[1]["lam"] == pytest.approx(records[0]["lam"], rel=1e-6)
    predicted = CliRunner().invoke(app, ["predict", str(two), str(points), "--device", "cpu"])
    assert predicted.exit_code == 0, predicted.output


def test_a_killed_process_is_started_again_and_the_run_ends_as_if_nothing_had_been(
    points: Path, tmp_path: Path, start: Start
) -> None:
    alone(points, tmp_path / "one", *DEEP)
    words = ("fit", points, "-k", 3, "--quiet", *DEEP)
    job = start(sys.executable, LAUNCHED, 2, 1, tmp_path, *words)
    folder = tmp_path / "runs" / "points-dcfsc"
    wait_for_training(folder, job)
    victim = int((tmp_path / "1.pid").read_text())
    os.kill(victim, signal.SIGKILL)
    output, errors = job.communicate(timeout=HANG_SECONDS)
    assert job.returncode == 0, errors
    assert int((tmp_path / "1.pid").read_text()) != victim
    assert output == ""
    assert (folder / "labels.csv").read_text() == (tmp_path / "one" / "labels.csv").read_text()
    assert sorted(p.name for p in folder.iterdir()) == [
        ".dcfsc.json",
        "clusters.csv",
        "labels.csv",
        "model.safetensors",
        "run.json",
    ]
    histories = [
        [row["loss"] for row in json.loads((f / "run.json").read_text())["history"]]
        for f in (folder, tmp_path / "one")
    ]
    assert len(histories[0]) == 43
    assert histories[0] == pytest.approx(histories[1], rel=1e-3)


# forked from one: what takes long to load is loaded before they wait for each other
TWO = """
import os
import torch._dynamo, torch.distributed
from dcfsc import DCFSC
from dcfsc.cli import main

second = os.fork()
os.environ["RANK"] = "0" if second else "1"
if second:
    print(second, flush=True)
main()
"""


def test_a_process_that_stops_answering_ends_the_job_with_a_message(
    points: Path, tmp_path: Path, start: Start
) -> None:
    with_port = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    words = ["fit", points, "-k", 3, "--out", "run", *DEEP]
    words += ["--steps", 100_000, "--dist-timeout", 8]
    first = start(sys.executable, "-c", TWO, *words, **with_port)
    assert first.stdout is not None
    second = int(first.stdout.readline())
    try:
        wait_for_training(tmp_path / "run", first)
        os.kill(second, signal.SIGSTOP)
        first.wait(timeout=HANG_SECONDS)
    finally:
        os.kill(second, signal.SIGKILL)
    _, errors = first.communicate(timeout=HANG_SECONDS)
    assert first.returncode == 1
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "process 0 lost contact with another one" in lines[0]
    assert "--resume" in lines[0]
    assert trained(tmp_path / "run" / CHECKPOINT) >= 3


def free_port() -> str:
    with socket.create_server(("localhost", 0)) as free:
        return str(free.getsockname()[1])
