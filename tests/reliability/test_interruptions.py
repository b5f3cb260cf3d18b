"""A killed run is gone on with to the same labels; of two runs in one folder, one is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dcfsc.errors import InputError
from dcfsc.files import atomic_path
from dcfsc.runs.life import LOCK, STAGED, alone_in

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
    with alone_in(tmp_path), pytest.raises(InputError, match="another run is writing") as raised:
        alone_in(tmp_path).__enter__()
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@posix
def test_what_a_killed_run_left_is_no_obstacle(tmp_path):
    (tmp_path / LOCK).write_bytes(b"")
    part = tmp_path / ".labels.csv.abcdefgh.part"
    part.write_bytes(b"index,la")
    (tmp_path / STAGED).mkdir()
    (tmp_path / STAGED / "labels.csv").write_bytes(b"index,la")
    with atomic_path(tmp_path / "predictions.csv") as other:  # as another process would
        with alone_in(tmp_path):
            assert not part.exists()
        assert list(tmp_path.iterdir()) == [other]


@posix
def test_a_killed_holder_gives_the_lock_back(tmp_path):
    held = "import sys, time, pathlib; from dcfsc.runs.life import alone_in\n"
    held += "with alone_in(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", held, tmp_path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="another run is writing"), alone_in(tmp_path):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    with alone_in(tmp_path):
        assert (tmp_path / LOCK).exists()
