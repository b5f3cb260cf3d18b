"""A full disk and a folder that takes no files are found before the work, and leave nothing."""

from __future__ import annotations

import errno
import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from running import fit_run
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.estimators import ClosedFormSubspaceClustering, ScatteringFeatures
from dcfsc.files import is_part
from dcfsc.io import Dataset, synthetic
from dcfsc.io.working_size import working_shape
from dcfsc.runs import executor
from dcfsc.runs.folder import read_run

OPTIONS = {"n_clusters": 3, "random_state": 0, "device": "cpu"}


@pytest.fixture
def data() -> Dataset:
    return synthetic(n_samples=60, n_clusters=3, subspace_dim=2, ambient_dim=10, random_state=0)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: object, X: object, y: object = None) -> None:
        raise AssertionError("the work was begun")

    monkeypatch.setattr(ClosedFormSubspaceClustering, "fit", fit)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a few kilobytes, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    try:
        allowed = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.usefixtures("no_work")
def test_a_full_disk_is_found_before_the_work(data: Dataset, small_disk: Path) -> None:
    with pytest.raises(InputError, match="No space left on device; choose another place") as raised:
        fit_run(data, "closed-form", OPTIONS, small_disk / "run")
    assert len(str(raised.value).splitlines()) == 1
    assert list(small_disk.iterdir()) == []


@pytest.mark.usefixtures("no_work")
def test_a_folder_that_takes_no_files_is_found_before_the_work(
    data: Dataset, small_disk: Path
) -> None:
    if subprocess.run(["mount", "-o", "remount,ro", str(small_disk)]).returncode:
        pytest.skip("may not mount a file system read-only")
    with pytest.raises(InputError, match="Read-only file system; choose another place"):
        fit_run(data, "closed-form", OPTIONS, small_disk / "run")


@pytest.mark.usefixtures("no_work")
def test_room_is_asked_for_before_the_work(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def allocate(descriptor: int, offset: int, size: int) -> None:
        asked.append(size)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    with pytest.raises(InputError, match="No space left on device"):
        fit_run(data, "closed-form", OPTIONS, tmp_path / "a" / "run")
    assert asked == [executor.room_for(data, "closed-form", None)]
    assert asked[0] > 4 * data.X.size
    assert list(tmp_path.iterdir()) == []


def test_room_is_for_labels_and_for_the_samples_that_a_model_keeps() -> None:
    table = Dataset("table", np.zeros((1_000, 600), np.float32))
    images = Dataset("images", np.zeros((50, 3, 128, 128), np.uint8))
    least = 1 << 20
    assert executor.room_for(table, "closed-form") == least + 16 * 1_000 + 4 * 1_000 * 600
    kept = math.prod(working_shape((3, 128, 128)))
    assert 0 < kept <= 4096
    assert executor.room_for(images, "closed-form") == least + 16 * 50 + 4 * 50 * kept
    assert executor.room_for(table, "dcfsc") == least + 16 * 1_000  # latents are known later
    assert executor.room_for(images, "closed-form", ScatteringFeatures()) == least + 16 * 50


def test_a_disk_that_fills_up_during_the_work_leaves_the_earlier_run(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fit_run(data, "closed-form", OPTIONS, tmp_path / "run")

    def full(self: object, path: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ClosedFormSubspaceClustering, "write_model", full)
    with pytest.raises(InputError, match="No space left on device"):
        fit_run(
            data, "closed-form", {**OPTIONS, "random_state": 1}, tmp_path / "run", overwrite=True
        )
    again = read_run(tmp_path / "run")
    assert again.record["seed"] == 0
    assert np.array_equal(again.labels, first.labels)
    assert [p.name for p in tmp_path.joinpath("run").iterdir() if is_part(p.name)] == []


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may be larger than 64 KiB."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def large_input(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", synthetic(200, 3, 3, 100, random_state=0).X)
    return tmp_path / "x.npy"


def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, large_input: Path, small_files: None
) -> None:
    words = ["fit", str(large_input), "-k", "3", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: cannot write to")
    assert len(done.stderr.strip().splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]
