"""Files that are damaged, absurd or hostile are refused in one line, or read; nothing else."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import inputs
import numpy as np
import pytest

from dcfsc import DCFSC
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.io import load

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "dcfsc"
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@linux
def test_hundreds_of_malformed_inputs_are_refused_or_handled():
    done = subprocess.run(
        [sys.executable, HERE / "watched.py", "--count", "300", "--seed", "7"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == []
    assert found["total"]["inputs"] == 300
    assert found["total"]["refused"] > 200
    assert found["total"]["peak_bytes"] < 1 << 30


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("seeds")
    inputs.write_seeds(root)
    return root


@pytest.mark.parametrize("kind", [k for k in inputs.KINDS if k != "folder"])
def test_the_same_files_undamaged_are_read(kind, seeds, tmp_path):
    other = {"4.parquet": "made to exhaust memory", "2.safetensors": "other data or parameters"}
    for seed in sorted((seeds / kind).iterdir()):
        target = tmp_path / kind / (seed.stem + seed.suffix)
        if kind in inputs.RUN_FILES and kind != "model":
            target = seeds / "run" / inputs.RUN_FILES[kind]
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(seed.read_bytes())
        if seed.name in other and kind in ("parquet", "checkpoint"):
            with pytest.raises(InputError, match=other[seed.name]):
                inputs.KINDS[kind].read(target)
        else:
            inputs.KINDS[kind].read(target)


@pytest.mark.parametrize("kind", ["model", "checkpoint"])
def test_a_flipped_bit_never_gives_other_labels(kind, seeds, tmp_path):
    whole = (seeds / kind / "1.safetensors").read_bytes()
    path = tmp_path / "flipped.safetensors"
    rng = np.random.default_rng(0)
    labels, refused = [], 0
    for place in (None, *rng.integers(8 * len(whole), size=60)):
        content = bytearray(whole)
        if place is not None:
            content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            labels.append(labels_of(kind, path))
        except InputError:
            refused += 1
    assert refused >= 55
    assert all(np.array_equal(found, labels[0]) for found in labels)


def labels_of(kind: str, path: Path) -> np.ndarray:
    if kind == "model":
        return load_model(path, device="cpu").labels_
    X, options = inputs.images(), {**inputs.FAST, "checkpoint_every": 9}
    return DCFSC(inputs.K, **options, checkpoint=path).fit_predict(X)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".gif"])
def test_a_program_under_a_pictures_name_is_not_interpreted(suffix, tmp_path):
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    (tmp_path / f"a{suffix}").write_bytes(script)
    with pytest.raises(InputError, match="not an image, or cut off at the start"):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a POSIX system")
@pytest.mark.parametrize("name", ["pipe.npy", "pipe.csv", "folder/class/pipe.png"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    pipe = tmp_path / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=r"neither a file nor a folder|holds no images"):
        load(tmp_path / name.split("/")[0])


def test_names_that_are_no_text_can_be_written_down(seeds, tmp_path):
    folder = os.fsencode(tmp_path) + b"/class \xff"
    os.mkdir(folder)
    for i in range(2):
        with open(folder + b"/\xfe\n%d.png" % i, "wb") as file:
            file.write((seeds / "picture" / "1.png").read_bytes())
    data = load(tmp_path, labels="folders")
    assert data.label_names == ["class \\xff"]
    assert all(path.encode() for path in data.paths)


def test_a_message_is_one_line_whatever_a_file_is_called(tmp_path):
    with pytest.raises(InputError) as raised:
        load(tmp_path / "two\nlines \x1b[31m.csv")
    assert "two\\nlines \\x1b[31m.csv" in str(raised.value)
    assert str(raised.value).isprintable()


def test_nothing_in_the_library_unpickles():
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal"}
    calls = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not forbidden & {a.name.split(".")[0] for a in node.names}, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in forbidden, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = getattr(node.func.value, "id", None)
                given = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
                if (owner, node.func.attr) == ("torch", "load"):
                    # one file of known content, read by the loader that makes tensors alone
                    assert path.name == "encoder_backends.py", path
                    assert given.get("weights_only") is True, f"{path}:{node.lineno}"
                if (owner, node.func.attr) == ("np", "load"):
                    assert given.get("allow_pickle") is False, f"{path}:{node.lineno}"
                    calls += 1
    assert calls >= 3


@linux
def test_what_spends_the_processor_is_a_hang_and_what_waits_for_it_is_none(monkeypatch, tmp_path):
    import watched

    def busy(path):
        while True:
            pass

    def slow(path):
        time.sleep(0.6)

    def stuck(path):
        time.sleep(3600)

    kinds = {"busy": inputs.Kind(busy), "slow": inputs.Kind(slow), "stuck": inputs.Kind(stuck)}
    monkeypatch.setattr(inputs, "KINDS", kinds)
    before = {number: signal.getsignal(number) for _, number, _ in watched.LIMITS}
    try:
        (cpu, alarm, _), (wall, other, _) = watched.LIMITS
        monkeypatch.setattr(watched, "LIMITS", ((cpu, alarm, 0.3), (wall, other, 300.0)))
        assert watched._read("busy", tmp_path)[0] == "hang"
        assert watched._read("slow", tmp_path) == ("handled", "")
        monkeypatch.setattr(watched, "LIMITS", ((cpu, alarm, 60.0), (wall, other, 0.3)))
        assert watched._read("stuck", tmp_path)[0] == "hang"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
