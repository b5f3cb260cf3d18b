"""New files sorted beside those of an export, and a second export that moves what changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.io import load
from dcfsc.journal import Filled, digest
from dcfsc.runs.editing import edit_run
from dcfsc.runs.export import export_run
from dcfsc.runs.folder import Run, read_run
from dcfsc.runs.folders import NOTES, sort_new

OPTIONS = {"n_clusters": 2, "random_state": 0, "device": "cpu", "representation": "given"}


def draw(folder: Path, kind: str, names: range, seed: int) -> None:
    """Stripes across or down; files of both kinds have the same names."""
    rng = np.random.default_rng(seed)
    shape = {"across": (8, 1), "down": (1, 8)}[kind]
    (folder / kind).mkdir(parents=True)
    for i in names:
        pixels = np.broadcast_to(rng.integers(0, 200, shape), (8, 8)) + rng.integers(0, 9, (8, 8))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / kind / f"{i}.png")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("made")
    for seed, kind in enumerate(("across", "down")):
        draw(top / "old", kind, range(8), seed)
        draw(top / "new", kind, range(6, 9), 10 + seed)
    fit_run(load(top / "old"), "closed-form", OPTIONS, top / "run", report=True)
    return top


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    return read_run(shutil.copytree(made / "run", tmp_path / "run"))


def sort(run: Run, folder: Path, target: Path, **options: bool) -> Path:
    """New files by what they show: across as the first of the run, down as its last."""
    data = load(folder)
    first, last = run.labels[[0, -1]]
    labels = np.array([first if "across" in path else last for path in data.paths or ()])
    return sort_new(target, run, data, labels, **{"copy": False, **options})


def tree(folder: Path) -> dict[str, str]:
    """What each file of an export shows, from the folder it came from."""
    return {
        str(path.relative_to(folder)): Path(os.readlink(path)).parent.name
        for path in sorted(folder.rglob("*.png"))
    }


def test_new_files_go_beside_the_old_ones_and_nothing_is_replaced(run: Run, made: Path) -> None:
    target = export_run(run.folder, "folders")
    before = tree(target)
    assert sort(run, made / "new", target) == target
    after = tree(target)
    assert before.items() <= after.items()
    added = {place: kind for place, kind in after.items() if place not in before}
    across, down = (f"cluster-{k}" for k in run.labels[[0, -1]])
    # 6 and 7 are taken by files of the run
    assert added == {
        **{f"{across}/{name}.png": "across" for name in ("2-6", "2-7", "8")},
        **{f"{down}/{name}.png": "down" for name in ("2-6", "2-7", "8")},
    }
    sort(run, made / "new", target)
    assert tree(target) == after  # they are there already
    sort(run, made / "old", target)
    assert tree(target) == after


def test_a_second_export_moves_them_with_their_clusters(run: Run, made: Path) -> None:
    target = sort(run, made / "new", export_run(run.folder, "folders"))
    across, down = run.labels[[0, -1]]
    mine = target / f"cluster-{across}" / "mine.txt"
    mine.write_text("mine")
    edit_run(run.folder, {str(down): "posts"})
    export_run(run.folder, "folders")
    shown = tree(target)
    posts = [place for place in shown if place.startswith("posts/")]
    assert len(posts) == (run.labels == down).sum() + 3
    assert {"posts/2-6.png", "posts/2-7.png"} < set(posts)
    assert not (target / f"cluster-{down}").exists()
    assert mine.read_text() == "mine"
    edit_run(run.folder, {}, [[str(across), str(down)]])
    export_run(run.folder, "folders")
    assert {place.split("/")[0] for place in tree(target)} == {"posts"}
    assert len(tree(target)) == 22
    assert mine.read_text() == "mine"
    edit_run(run.folder, {}, undo=True)
    export_run(run.folder, "folders")
    assert tree(target) == shown


def test_what_a_person_changed_or_took_out_stays_so(run: Run, made: Path) -> None:
    target = sort(run, made / "new", export_run(run.folder, "folders", copy=True), copy=True)
    across, down = (f"cluster-{k}" for k in run.labels[[0, -1]])
    (target / down / "8.png").write_bytes(b"retouched")
    (target / down / "2-6.png").unlink()
    edit_run(run.folder, {str(run.labels[-1]): "posts"})
    export_run(run.folder, "folders", copy=True)
    assert (target / down / "8.png").read_bytes() == b"retouched"
    assert not list(target.rglob("2-6.png"))[1:]  # that of the other cluster alone
    assert (target / "posts" / "2-7.png").is_file()
    sort(run, made / "new", target, copy=True)
    assert not (target / "posts" / "2-6.png").exists()
    assert (target / across / "2-6.png").is_file()


def test_new_files_alone_and_the_old_ones_later(run: Run, made: Path, tmp_path: Path) -> None:
    target = sort(run, made / "new", tmp_path / "sorted")
    assert len(tree(target)) == 6
    export_run(run.folder, "folders", target)
    assert len(tree(target)) == 22


def test_a_folder_of_somebody_or_of_another_run_is_refused(
    run: Run, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a.txt").write_text("a")
    with pytest.raises(InputError, match="no export of dcfsc is known to have made"):
        sort(run, made / "new", tmp_path / "theirs")
    target = sort(run, made / "new", tmp_path / "sorted")
    other = fit_run(load(made / "old", gray=True), "closed-form", OPTIONS, tmp_path / "other")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"another run|holds an earlier export"):
            export_run(other.folder, "folders", target, overwrite=overwrite)
    (target / NOTES).write_text("{}")
    with pytest.raises(InputError, match="was changed or removed, so that"):
        sort(run, made / "new", target)
    assert len(tree(target)) == 6
    with pytest.raises(InputError, match="what the command reads"):
        sort(run, made / "new", made / "new")


def test_a_forged_note_names_no_other_file(run: Run, made: Path, tmp_path: Path) -> None:
    """A note may come from anybody: what it says of files that the list lacks does not count."""
    target = sort(run, made / "new", tmp_path / "sorted")
    text = (target / NOTES).read_text().replace('"new": {', '"new": {"../run/run.json": [0, "a"],')
    (target / NOTES).write_text(text)
    known = Filled.read(target)
    assert known is not None
    Filled(known.kind, {**known.files, NOTES: [str(digest(target / NOTES))]}).write(target)
    edit_run(run.folder, {"0": "zero", "1": "one"})
    export_run(run.folder, "folders", target)
    assert (run.folder / "run.json").is_file()
    assert len(tree(target)) == 22
