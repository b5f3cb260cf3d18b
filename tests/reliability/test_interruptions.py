"""A killed run is gone on with to the same labels; of two runs in one folder, one is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dcfsc.errors import InputError
from dcfsc.files import LOCK, atomic_path, part_name
from dcfsc.journal import held

HERE = Path(__file__).parent
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")


@posix
def test_killed_runs_are_resumed_and_racing_ones_never_mixed():
    done = subprocess.run(
        [sys.executable, HERE / "victims.py", "--kills", "5", "--races", "2", "--seed", "3"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kills"]["wrong"] == []
    assert found["kills"]["kills"] == found["kills"]["resumes"] == found["kills"]["same"] == 5
    assert found["races"]["wrong"] == []


@posix
def test_the_second_in_a_folder_is_refused_in_one_line(tmp_path):
    with held(tmp_path), pytest.raises(InputError, match="another process is writing") as raised:
        held(tmp_path).__enter__()
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@posix
def test_what_a_killed_process_left_is_no_obstacle(tmp_path):
    (tmp_path / LOCK).write_bytes(b"")
    stage = tmp_path / part_name()
    stage.mkdir()
    (stage / "labels.csv").write_bytes(b"index,la")
    (tmp_path / ".labels.csv.abcdefgh.part").write_bytes(b"somebody's")
    with atomic_path(tmp_path / "predictions.csv") as other:  # as another process would
        other.write_text("index")
        with held(tmp_path):
            assert not stage.exists()
        assert other.exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        ".labels.csv.abcdefgh.part",
        "predictions.csv",
    }


@posix
def test_a_killed_holder_gives_the_lock_back(tmp_path):
    holds = "import sys, time, pathlib; from dcfsc.journal import held\n"
    holds += "with held(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", holds, tmp_path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="another process is writing"), held(tmp_path):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    with held(tmp_path):
        assert (tmp_path / LOCK).exists()
