"""The cache of features: files with a checksum, and only regular files are read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dcfsc.io.feature_cache import FeatureCache

NAMES = [bytes([i]) * 32 for i in range(3)]
VALUES = np.arange(6, dtype=np.float32).reshape(3, 2)
AGAIN = "is damaged or not a regular file; its features are computed again"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    FeatureCache(tmp_path / "cache", "maker").add(NAMES, VALUES)
    (file,) = (tmp_path / "cache" / "maker").iterdir()
    return file


def test_what_was_written_comes_back(file):
    found = FeatureCache(file.parents[1], "maker").get(NAMES)
    assert {place: row.tolist() for place, row in found.items()} == dict(enumerate(VALUES.tolist()))


def test_changed_features_are_made_again(file):
    content = load_file(file)
    content["features"] = content["features"] + 1
    save_file(content, file)  # without a checksum
    with pytest.warns(UserWarning, match=AGAIN):
        cache = FeatureCache(file.parents[1], "maker")
    assert cache.get(NAMES) == {}
    cache.add(NAMES, VALUES)
    assert cache.get(NAMES)[2].tolist() == [4.0, 5.0]


def test_a_bit_that_changed_is_found(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.warns(UserWarning, match=AGAIN):
        assert FeatureCache(file.parents[1], "maker").get(NAMES) == {}


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_regular_files_are_read(file, tmp_path, kind):
    file.rename(tmp_path / "elsewhere.safetensors")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(tmp_path / "elsewhere.safetensors")
    else:
        file.mkdir()
    with pytest.warns(UserWarning, match=AGAIN):
        assert FeatureCache(file.parents[1], "maker").get(NAMES) == {}


@pytest.mark.filterwarnings("ignore:.*is damaged")
def test_nothing_is_read_or_written_through_a_link(file, tmp_path):
    file.parent.rename(tmp_path / "theirs")
    file.parent.symlink_to(tmp_path / "theirs")
    cache = FeatureCache(file.parents[1], "maker")
    assert cache.get(NAMES) == {}
    cache.add([b"?" * 32], VALUES[:1])
    assert os.listdir(tmp_path / "theirs") == [file.name]


ADD = """
import sys
import numpy as np
from dcfsc.io.feature_cache import FeatureCache

cache, first = FeatureCache(sys.argv[1], "maker"), int(sys.argv[2])
for i in range(first, first + 20):
    cache.add([bytes([i]) * 32], np.full((1, 3), i, np.float32))
"""


def test_two_processes_may_add_the_same_features_at_once(tmp_path):
    starts = ("0", "10")  # ten chunks are of both
    writers = [subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), n]) for n in starts]
    assert [writer.wait() for writer in writers] == [0, 0]
    cached = FeatureCache(tmp_path, "maker").get([bytes([i]) * 32 for i in range(30)])
    assert {i: row.tolist() for i, row in cached.items()} == {i: [i] * 3 for i in range(30)}
    names = os.listdir(tmp_path / "maker")
    assert len(names) == 30
    assert all(name.endswith(".safetensors") for name in names)
