"""What dcfsc did not make is never removed or replaced, whatever it is asked."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.cli import app
from dcfsc.errors import InputError
from research.__main__ import app as research
from research.experiments import render

MINE = "somebody's, and nobody else's"
FIT = ("fit", "album/photos", "-k", "3", "--device", "cpu", "--representation", "given")


def call(*words: object) -> Result:
    program = research if words[0] == "reproduce" else app
    return CliRunner().invoke(program, [str(word) for word in words])


def done(*words: object) -> Result:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words: object) -> str:
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


def content(folder: Path) -> dict[str, bytes | str | None]:
    """Every file with its bytes, every link with its target, every folder."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine photographs in an album, and a run on them."""
    place = tmp_path_factory.mktemp("first")
    photos = place / "album" / "photos"
    photos.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(9):
        shape = ((4, 1), (1, 4), (4, 4))[i % 3]
        pixels = np.broadcast_to(rng.integers(0, 256, shape, dtype=np.uint8), (4, 4))
        Image.fromarray(pixels.copy()).save(photos / f"{i}.png")
    (place / "album" / "note.txt").write_text(MINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        done(*FIT, "--out", "run")
    return place


@pytest.fixture
def place(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the first place, as the current folder."""
    here = tmp_path / "here"
    shutil.copytree(first, here)
    record = json.loads((here / "run" / "run.json").read_text())
    monkeypatch.chdir(here)
    if record["data"].get("directory"):  # the photographs of this copy
        done(*FIT, "--out", "run", "--overwrite")
    return here


# Exports ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["album/photos", "album", ".", "to-photos", "to-album"])
@pytest.mark.parametrize("options", [(), ("--overwrite",), ("--overwrite", "--copy")])
def test_an_export_never_touches_the_photographs(place: Path, target: str, options: tuple) -> None:
    (place / "to-photos").symlink_to("album/photos")
    (place / "to-album").symlink_to("album")
    before = content(place)
    assert "no export of dcfsc is known to have made" in refused(
        "export", "run", "--to", "folders", "--out", target, *options
    )
    assert content(place) == before


@pytest.mark.parametrize("options", [(), ("--copy",)])
def test_a_tidied_export_stays_tidied(place: Path, options: tuple[str, ...]) -> None:
    export = ("export", "run", "--to", "folders", "--out", "sorted", *options)
    done(*export)
    files = sorted(p for p in (place / "sorted").rglob("*.png"))
    assert len(files) == 9
    taken_out, changed = files[:2]
    taken_out.unlink()
    changed.unlink()
    changed.write_text(MINE)
    note, added = files[2].with_name("note.txt"), files[2].with_name("added.png")
    note.write_text(MINE)
    shutil.copy(place / "album/photos/0.png", added)
    before = content(place / "sorted")
    assert "2 files" in done(*export).stderr
    after = content(place / "sorted")
    after.pop(".dcfsc.json")
    before.pop(".dcfsc.json")
    assert after == before
    assert not taken_out.exists()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_replaces_no_file(place: Path, kind: str) -> None:
    file = place / f"table.{kind}"
    file.write_text(MINE)
    export = ("export", "run", "--to", kind, "--out", file.name)
    assert f"kept as {file.name}.bak" in refused(*export)
    assert file.read_text() == MINE
    done(*export, "--overwrite")
    assert file.with_name(f"{file.name}.bak").read_text() == MINE
    first = file.read_bytes()
    assert len(first) > len(MINE)
    done(*export, "--overwrite")
    assert file.with_name(f"{file.name}.bak2").read_bytes() == first
    assert file.with_name(f"{file.name}.bak").read_text() == MINE


@pytest.mark.parametrize("command", ["predict", "csv", "parquet"])
def test_no_table_takes_the_place_of_a_sample(place: Path, command: str) -> None:
    photo = "album/photos/0.png"
    before = content(place)
    words = (
        ("predict", "run", "album/photos") if command == "predict" else ("export", "run", "--to")
    )
    kind = () if command == "predict" else (command,)
    assert "what the command reads" in refused(*words, *kind, "--out", photo, "--overwrite")
    assert content(place) == before


def test_compare_replaces_no_page(place: Path) -> None:
    done(*FIT, "--out", "other", "--seed", "1")
    (place / "compare.html").write_text(MINE)
    assert "compare.html exists" in refused("compare", "run", "other", "--out", "compare.html")
    assert (place / "compare.html").read_text() == MINE
    done("compare", "run", "other", "--out", "compare.html", "--overwrite")
    assert (place / "compare.html.bak").read_text() == MINE
    assert "<html" in (place / "compare.html").read_text()


# Runs -------------------------------------------------------------------------------------------


def test_a_second_prediction_has_a_name_of_its_own(place: Path) -> None:
    predict = ("predict", "run", "album/photos", "--device", "cpu")
    done(*predict)
    earlier = place / "run" / "predictions.csv"
    earlier.write_text(MINE)
    assert "predictions-2.csv" in done(*predict).stdout
    assert earlier.read_text() == MINE
    rows = (place / "run" / "predictions-2.csv").read_text().splitlines()
    assert len(rows) == 10


def test_a_new_fit_keeps_predictions_exports_and_edits(place: Path) -> None:
    done("predict", "run", "album/photos", "--device", "cpu")
    done("export", "run", "--to", "csv")
    done("name", "run", "0=zebras")
    (place / "run" / "note.txt").write_text(MINE)
    kept = {name: content(place / "run")[name] for name in ("predictions.csv", "export.csv")}
    edits = (place / "run" / "edits.json").read_text()
    said = done(*FIT, "--out", "run", "--overwrite", "--seed", "5").stderr
    assert "kept as run/edits.1.json" in said
    after = content(place / "run")
    assert {name: after[name] for name in kept} == kept
    assert (place / "run" / "edits.1.json").read_text() == edits
    assert not (place / "run" / "edits.json").exists()
    assert (place / "run" / "note.txt").read_text() == MINE
    assert json.loads((place / "run" / "run.json").read_text())["seed"] == 5


@pytest.mark.parametrize(
    "names",
    [
        ("labels.csv", "model.safetensors"),
        ("checkpoint.safetensors",),
        (".staged.part/labels.csv", ".staged.part/model.safetensors"),
        (".whole.part/labels.csv",),
        (".dcfsc.json",),
        ("run.json", "labels.csv"),
    ],
)
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_names_alone_make_no_run(place: Path, names: tuple[str, ...], option: str) -> None:
    for name in names:
        file = place / "theirs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MINE)
    before = content(place)
    words = FIT if option == "--overwrite" else FIT[:-2]  # what resumes is dcfsc
    said = refused(*words, "--out", "theirs", option)
    assert "not an earlier run" in said or "not written by dcfsc" in said
    assert content(place) == before


def test_somebodys_files_named_as_half_written_ones_stay(place: Path) -> None:
    """Beside a run, beside an export and beside a table, as files, folders and links."""
    (place / "secret").write_text(MINE)
    done("export", "run", "--to", "folders", "--out", "sorted")
    for folder in (place, place / "run", place / "sorted"):
        for name in (".staged.part", ".whole.part"):
            (folder / name).mkdir()
            (folder / name / "labels.csv").write_text(MINE)
        (folder / ".link.old.part").symlink_to(place / "secret")
        (folder / ".labels.csv.abcdefgh.part").write_text(MINE)
    before = content(place)
    done("report", "run")
    done("export", "run", "--to", "csv", "--out", "table.csv")
    done("export", "run", "--to", "folders", "--out", "sorted", "--overwrite")
    done("predict", "run", "album/photos", "--device", "cpu")
    done(*FIT, "--out", "run", "--overwrite")
    after = content(place)
    parts = {name for name in before if ".part" in name}
    assert len(parts) == 18
    assert {name: after[name] for name in parts} == {name: before[name] for name in parts}
    assert (place / "secret").read_text() == MINE


# Places that are always refused -----------------------------------------------------------------


def test_a_list_that_somebody_changed_is_seen_before_the_work(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(self: object, X: object, y: object = None) -> None:
        raise AssertionError("the work was begun")

    monkeypatch.setattr(ClosedFormSubspaceClustering, "fit", fit)
    (place / "run" / ".dcfsc.json").write_text(MINE)
    before = content(place)
    assert "not written by dcfsc" in refused(*FIT, "--out", "run", "--overwrite")
    assert content(place) == before


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a device"])
def test_what_is_neither_file_nor_folder_is_refused(place: Path, kind: str) -> None:
    target = place / "target"
    bound = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "socket":
        bound.bind("target")
    else:
        target.symlink_to("/dev/null")
    before = target.lstat()
    commands = [
        (*FIT, "--out"),
        ("predict", "run", "album/photos", "--out"),
        ("report", "run", "--out"),
        ("export", "run", "--to", "csv", "--out"),
        ("export", "run", "--to", "folders", "--out"),
        ("compare", "run", "run", "--out"),
    ]
    for words in commands:
        assert "neither a file nor a folder" in refused(*words, "target", "--overwrite"), words
    bound.close()
    assert os.path.samestat(target.lstat(), before)


@pytest.mark.parametrize("target", ["/", "home", "to-home", "run", "other"])
def test_homes_roots_and_other_runs_are_refused(
    place: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / "home"
    home.mkdir()
    (place / "to-home").symlink_to("home")
    monkeypatch.setenv("HOME", str(home))
    shutil.copytree("run", "other")
    before = content(place)
    refused("export", "run", "--to", "folders", "--out", target, "--overwrite")
    if target != "run":
        file = target if target == "other" else f"{target}/.."
        refused(
            "export", "run", "--to", "csv", "--out", f"{file}/x.csv" if file == "other" else target
        )
    if target in ("home", "to-home"):
        refused("reproduce", "parameters", "--out", target)
    if target not in ("run", "other"):
        refused(*FIT, "--out", target, "--overwrite")
    assert content(place) == before


# Models and results -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["notes.txt", "weights.safetensors"])
def test_save_replaces_only_models(place: Path, name: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    Path(name).write_text(MINE)
    if name.endswith("safetensors"):
        from safetensors.numpy import save_file

        save_file({"weights": np.ones(3)}, name)
    before = Path(name).read_bytes()
    with pytest.raises(InputError, match=f"{name} exists"):
        model.save(name)
    assert Path(name).read_bytes() == before
    model.save("model.safetensors")
    model.save("model.safetensors")
    assert sorted(p.name for p in place.iterdir() if "model" in p.name) == ["model.safetensors"]


def test_reproduce_keeps_what_it_did_not_write(place: Path) -> None:
    folder = place / "results" / "orl"
    (folder / "cells").mkdir(parents=True)
    (folder / "table.md").write_text(MINE)
    (folder / "figure.png").write_text(MINE)
    (folder / "note.txt").write_text(MINE)
    with pytest.warns(UserWarning, match=r"table\.md\.bak"):
        render("orl", place / "results", report=lambda line: None)
    assert (folder / "table.md.bak").read_text() == MINE
    assert "No cell has been computed yet." in (folder / "table.md").read_text()
    assert (folder / "figure.png").read_text() == MINE
    assert (folder / "note.txt").read_text() == MINE
    before = content(folder)
    render("orl", place / "results", report=lambda line: None)
    assert content(folder) == before
