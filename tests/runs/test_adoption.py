"""Runs of version 1.0, which kept no list: the record and the files with our mark are ours."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest
from running import fit_run

from dcfsc import journal
from dcfsc.io import Dataset, synthetic
from dcfsc.journal import LIST, Filled, digest
from dcfsc.runs.outputs import adopt
from dcfsc.runs.prediction import predict_run

OPTIONS: dict[str, Any] = {"n_clusters": 3, "random_state": 0, "device": "cpu"}
FILES = {"details.npz", "labels.csv", "model.safetensors", "report.html", "run.json"}
OURS = {"details.npz", "report.html", "run.json"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return synthetic(90, 3, 4, 20, random_state=0)


@pytest.fixture(scope="module")
def made(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as version 1.0 left it."""
    run = fit_run(
        data, "closed-form", OPTIONS, tmp_path_factory.mktemp("made") / "run", report=True
    )
    for name in (LIST, "clusters.csv", "differences.csv"):
        (run.folder / name).unlink()
    assert set(os.listdir(run.folder)) == FILES
    return run.folder


@pytest.fixture
def old(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "old"))


def adopted(run: Path) -> set[str]:
    adopt(run)
    known = Filled.read(run)
    assert known is not None
    assert known.kind == "run"
    assert known.files == {name: [digest(run / name)] for name in known.files}
    return set(known.files)


def test_files_with_our_mark_are_ours(old: Path) -> None:
    for name in ("notes.txt", "predictions.csv", "export.csv", "checkpoint.safetensors"):
        (old / name).write_text("mine")
    assert adopted(old) == OURS
    (old / "notes.txt").write_text("more")
    before = (old / LIST).read_bytes()
    adopt(old)
    assert (old / LIST).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "ours"), [('{"dcfsc_edits": 1}', True), ("[]", False), ("", False)]
)
def test_edits_are_ours_by_their_format(old: Path, text: str, ours: bool) -> None:
    (old / "edits.json").write_text(text)
    assert adopted(old) == (OURS | {"edits.json"} if ours else OURS)


@pytest.mark.parametrize("name", ["details.npz", "edits.json", "report.html"])
@pytest.mark.parametrize("odd", ["text", "binary", "link", "folder", "pipe"])
def test_a_file_that_only_bears_the_name_is_not(old: Path, name: str, odd: str) -> None:
    path = old / name
    if path.exists():
        path.rename(old / "real")
    if odd in ("text", "binary"):
        path.write_bytes(b"mine\n" if odd == "text" else bytes(range(256)))
    elif odd == "link":
        (old / "real").touch()
        path.symlink_to("real")
    elif odd == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert adopted(old) == OURS - {name}


def test_a_fit_that_replaces_it_keeps_what_is_not_ours(old: Path, data: Dataset) -> None:
    (old / "labels.csv").write_text("mine")
    (old / "report.html").write_text("mine, too")
    (old / "predictions.csv").write_text("a day's work")
    with pytest.warns(
        UserWarning, match=r"labels\.csv was not dcfsc's; it is now labels\.csv\.bak"
    ):
        fit_run(data, "closed-form", OPTIONS, old, overwrite=True)
    there = {
        "labels.csv.bak": "mine",
        "report.html": "mine, too",
        "predictions.csv": "a day's work",
    }
    names = {LIST, "clusters.csv", "labels.csv", "model.safetensors", "run.json", *there}
    assert set(os.listdir(old)) == names
    assert {name: (old / name).read_text() for name in there} == there


def test_one_that_is_only_read_from_still_predicts(
    old: Path, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(journal, "try_lock", refuse)
    labels, file = predict_run(old, data, tmp_path / "p.csv")
    assert len(labels) == 90
    assert file == tmp_path / "p.csv"
    assert len(file.read_text().splitlines()) == 91
    assert set(os.listdir(old)) == FILES
