"""Runs that come from somebody else: which files an export touches, and which belong together."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.io import load
from dcfsc.runs.edits import Edits
from dcfsc.runs.export import export_run
from dcfsc.runs.folder import Run, read_columns, read_run
from dcfsc.runs.folders import folder_names
from dcfsc.runs.prediction import load as load_run
from dcfsc.runs.reporting import redraw
from dcfsc.runs.tables import formula_removed, no_formula, write_table
from dcfsc.runs.trust import made_here

OPTIONS = {"n_clusters": 2, "random_state": 0, "device": "cpu", "representation": "given"}


def picture(path: Path | bytes, seed: int, side: int = 12, **more: Any) -> None:
    """A file with bars that lie or stand, in color."""
    rng = np.random.default_rng(seed)
    shape = (side, 1, 3) if seed % 2 else (1, side, 3)
    pixels = rng.integers(0, 200, shape) + rng.integers(0, 40, (side, side, 3))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        Image.fromarray(pixels.astype(np.uint8)).save(file, **{"format": "PNG", **more})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on twelve pictures in two folders, beside them."""
    top = tmp_path_factory.mktemp("made")
    for i in range(12):
        picture(top / "secret place" / "photos" / f"g{i % 2}" / f"{i}.png", i)
    fit_run(
        load(top / "secret place" / "photos"),
        "closed-form",
        OPTIONS,
        top / "run",
        report=True,
        command=f"dcfsc fit '{top}/secret place/photos/' -k 2 --out={top}/run",
    )
    return top


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    return read_run(shutil.copytree(made, tmp_path / "home") / "run")


def photos(run: Run) -> Path:
    """The pictures that the copy of the run is beside."""
    return run.folder.parent / "secret place" / "photos"


def forge(run: Run, paths: dict[int, str] | None = None, version: bool = True, **data: Any) -> None:
    """Other paths in a run's table; it says nothing of digests, like one of version 1.0."""
    columns: dict[str, Any] = dict(read_columns(run.folder))
    for row, path in (paths or {}).items():
        columns["path"][row] = path
    columns["path"] = list(map(no_formula, columns["path"]))
    write_table(run.folder / "labels.csv", columns)
    record = json.loads((run.folder / "run.json").read_text())
    record.pop("files", None)
    record["data"] |= data
    (run.folder / "run.json").write_text(json.dumps(record))


def exported(target: Path) -> list[str]:
    return sorted(p.name for p in target.rglob("*") if p.suffix == ".png")


# Who made the run ---------------------------------------------------------------------------


def test_who_made_the_run_is_asked_nothing(made: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        target = export_run(made / "run", "folders", tmp_path / "out")
        export_run(made / "run", "parquet", tmp_path / "out.parquet")
    assert len(exported(target)) == 12
    assert made_here(read_run(made / "run"))


def test_another_person_names_the_data_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    with pytest.raises(InputError, match=r"was not made here.* say with --data in"):
        export_run(run.folder, "folders", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    target = export_run(run.folder, "folders", tmp_path / "out", data=photos(run), copy=True)
    assert len(exported(target)) == 12
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        export_run(run.folder, "folders", tmp_path / "more", data=tmp_path / "nowhere")


def test_a_record_that_was_changed_is_not_trusted(run: Run, tmp_path: Path) -> None:
    record = json.loads((run.folder / "run.json").read_text())
    record["data"]["directory"] = str(tmp_path)
    (run.folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="was not made here"):
        export_run(run.folder, "folders", tmp_path / "out")


def test_without_a_home_a_run_is_made_all_the_same(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    data = load(made / "secret place" / "photos")
    run = fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    assert not made_here(run)


# Which files --------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["folders", "parquet"])
def test_only_images_in_the_data_folder_are_read(run: Run, tmp_path: Path, to: str) -> None:
    inside, private = photos(run), tmp_path / "private.png"
    picture(private, 0)
    picture(inside / "g0" / "other.png", 1, format="PCX")  # Pillow reads it, fit does not
    (inside / "g0" / "script.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (inside / "g0" / "link.png").symlink_to(private)
    (inside / "g0" / "way").symlink_to(tmp_path)
    os.mkfifo(inside / "g0" / "pipe.png")
    (inside / "g0" / "device.png").symlink_to("/dev/zero")
    (inside / "g0" / "key.png").write_text("PRIVATE KEY")
    picture(inside / "g0" / ".hidden.png", 0)
    odd = [
        *("../../../private.png", str(private), "g0/link.png", "g0/way/private.png"),
        *("g0/other.png", "g0/script.png", "g0/pipe.png", "g0/device.png", "g0/key.png"),
        *("g0/.hidden.png", "g0/a\0b.png"),
    ]
    forge(run, dict(enumerate(odd)))
    copy = to == "folders"
    with pytest.warns(UserWarning, match=r"11 of 12 files are left out.*private\.png, ") as told:
        target = export_run(run.folder, to, tmp_path / "out", data=inside, copy=copy)
    assert len(told) == 1
    if to == "folders":
        assert exported(target) == ["11.png"]
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        stored = pq.read_table(target).to_pydict()["thumbnail"]
        sizes = [Image.open(io.BytesIO(t)).size for t in stored]
        assert sizes == [(12, 12)] * 12  # those of the report, and the one file's own
        own = np.asarray(Image.open(inside / "g1" / "11.png"))
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(stored[11]))), own)


def test_a_run_with_no_file_in_the_folder_is_refused(run: Run, tmp_path: Path) -> None:
    forge(run, {i: f"/etc/{i}" for i in range(12)})
    with pytest.raises(InputError, match="12 of 12 files are left out"):
        export_run(run.folder, "folders", tmp_path / "out", data=photos(run))
    assert not (tmp_path / "out").exists()


def test_thumbnails_of_a_received_run_are_of_the_data_folder(run: Run, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    picture(tmp_path / "private.png", 5, side=20)
    forge(run, {0: str(tmp_path / "private.png")})
    with pytest.raises(InputError, match=r"was not made here.*--data"):
        export_run(run.folder, "parquet")
    with pytest.warns(UserWarning, match="1 of 12 files are left out"):
        target = export_run(run.folder, "parquet", data=photos(run))
    shown = [Image.open(io.BytesIO(t)).size for t in pq.read_table(target)["thumbnail"].to_pylist()]
    assert (20, 20) not in shown


@pytest.mark.parametrize("whole", [True, False])
def test_runs_of_version_1_0_need_the_folder(run: Run, tmp_path: Path, whole: bool) -> None:
    before = str(photos(run)) if whole else "photos"
    paths = read_columns(run.folder)["path"]
    old = {i: f"{before}/{path}" for i, path in enumerate(paths)}
    forge(run, old, directory=str(photos(run).parent))
    with pytest.raises(InputError, match="by an earlier dcfsc; say with --data"):
        export_run(run.folder, "folders", tmp_path / "out")
    target = export_run(run.folder, "folders", tmp_path / "out", data=photos(run))
    assert exported(target) == sorted(f"{i}.png" for i in range(12))
    with open(export_run(run.folder, "csv"), newline="") as file:
        found = [row["path"] for row in csv.DictReader(file)]
    assert found == ([*paths] if whole else [old[i] for i in range(12)])


def test_files_may_have_moved_since(run: Run, tmp_path: Path) -> None:
    photos(run).rename(tmp_path / "elsewhere")
    target = export_run(run.folder, "folders", tmp_path / "out", data=tmp_path / "elsewhere")
    links = [os.readlink(p) for p in target.rglob("*.png")]
    assert sorted(links) == sorted(str(p) for p in (tmp_path / "elsewhere").rglob("*.png"))


# Names --------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX systems alone")
def test_odd_names_come_back_from_the_table(tmp_path: Path) -> None:
    begins = [
        "=",
        "'=",
        "''=",
        ";=",
        "x;=",
        "\t=",
        "\r",
        "a\rb\n",
        "\n=",
        '@a,"b"',
        "-1",
        "e\u0301",
    ]
    names = [b"\xff\xfe.png", *(f"{begin}.png".encode() for begin in begins)]
    for i, name in enumerate(names):
        picture(os.fsencode(tmp_path / "data") + b"/" + name, i)
    run = fit_run(load(tmp_path / "data"), "closed-form", OPTIONS, tmp_path / "run")
    assert len(set(read_columns(run.folder)["path"])) == len(names)
    target = export_run(run.folder, "folders", tmp_path / "out", copy=True)
    assert sorted(os.fsencode(p.name) for p in target.rglob("*.png")) == sorted(names)
    for file in target.rglob("*.png"):
        assert file.read_bytes() == (tmp_path / "data" / file.name).read_bytes()


@pytest.mark.filterwarnings("ignore:1 cluster was found")
@pytest.mark.parametrize(
    "names",
    [
        ["g2/6-im.png", "g2-6/im.png", "g3/im.png", "g3/7-im.png", "g4/2-im.png", "g4/3-im.png"],
        ["a/IM.png", "b/im.png", "c/Im.PNG", "d/0-im.png", "d/1-im.png"],
        ["a/\u00e9.png", "b/e\u0301.png", "c/stra\u00dfe.png", "d/STRASSE.png"],
        [f"{k}/{'x' * 251}.png" for k in "abcdef"],
    ],
)
def test_two_files_never_become_one(names: list[str], tmp_path: Path) -> None:
    for i, name in enumerate([*names, "z/0.png", "z/1.png"]):
        picture(tmp_path / "data" / name, 0)
        with open(tmp_path / "data" / name, "ab") as file:
            file.write(b"%d" % i)  # told apart by what follows the picture
    run = fit_run(load(tmp_path / "data"), "closed-form", OPTIONS, tmp_path / "run")
    target = export_run(run.folder, "folders", tmp_path / "out", copy=True)
    files = [p for p in target.rglob("*") if p.is_file() and p.parent != target]
    given = [p.read_bytes() for p in (tmp_path / "data").rglob("*") if p.is_file()]
    assert sorted(p.read_bytes() for p in files) == sorted(given)
    same = {(p.parent, no_formula(p.name).casefold().replace("e\u0301", "\u00e9")) for p in files}
    assert len(same) == len(files)


def test_folders_have_safe_names_of_their_own() -> None:
    edits = Edits(12)
    names = ["..", "con", "COM1.txt", "end. .", "a/b", "a\\b", "n\nl", "z\0", "\U0001f600" * 80]
    edits.names.update(enumerate([*names, "cluster-11", "Cat", "cat-0"]))
    edits.names.pop(11)
    edits.names[7], edits.names[0] = "CAT", ".."
    found = folder_names(edits)
    assert [found[k] for k in range(7)] == [
        *("cluster-00", "_con", "_COM1.txt", "end", "a_b-4", "a_b-5", "n_l"),
    ]
    assert len({name.casefold() for name in found.values()}) == 12
    assert {found[7], found[10]} == {"CAT-7", "Cat-10"}
    assert found[9] != found[11]
    assert all(len(name.encode()) <= 200 for name in found.values())


def test_every_cell_comes_back() -> None:
    rng = np.random.default_rng(0)
    letters = list("=+-@'a1;,\t\r\n\"")
    texts = {"".join(rng.choice(letters, rng.integers(0, 7))) for _ in range(20_000)}
    cells = {no_formula(text): text for text in texts}
    assert len(cells) == len(texts)
    assert all(formula_removed(cell) == text for cell, text in cells.items())
    begins = {part[:1] for cell in cells if not cell.startswith("-") for part in cell.split(";")}
    assert not begins & set("=+@-")


# What belongs together ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run on the same pictures."""
    folder = tmp_path_factory.mktemp("other") / "run"
    data = load(made / "secret place" / "photos")
    fit_run(data, "closed-form", {**OPTIONS, "n_clusters": 2, "lam": 30.0}, folder, report=True)
    return folder


@pytest.mark.parametrize("name", ["labels.csv", "model.safetensors", "details.npz"])
def test_files_of_another_run_are_refused(run: Run, other: Path, name: str) -> None:
    shutil.copy(other / name, run.folder / name)
    use = {
        "labels.csv": read_run,
        "model.safetensors": lambda folder: load_run(folder),
        "details.npz": lambda folder: export_run(folder, "parquet"),
    }[name]
    with pytest.raises(InputError, match=f"{name} is (not the one that|of another run)"):
        use(run.folder)


def test_features_and_files_that_the_record_does_not_name_are_refused(run: Run) -> None:
    (run.folder / "features.safetensors").write_bytes(b"another's")
    with pytest.raises(InputError, match=r"features\.safetensors is not the one that"):
        run.file("features.safetensors")
    assert run.file("labels.csv") == run.folder / "labels.csv"


def test_labels_that_were_changed_by_hand_are_refused(run: Run) -> None:
    text = (run.folder / "labels.csv").read_text()
    (run.folder / "labels.csv").write_text(text.replace(",1,", ",0,", 1))
    with pytest.raises(InputError, match=r"labels\.csv is not the one that run\.json describes"):
        read_run(run.folder)


def test_runs_without_digests_are_read(run: Run, other: Path) -> None:
    forge(run)
    assert len(read_run(run.folder).labels) == 12
    assert load_run(run.folder).n_clusters == 2
    redraw(run.folder)
    labels = read_run(run.folder).labels
    details = run.details()
    assert np.array_equal(details.labels, labels)


# Private things -----------------------------------------------------------------------------


def secrets_of(path: Path) -> list[str]:
    """What tells of the data folder in a file."""
    content = path.read_bytes()
    told = ("secret place", "secret%20place", "/photos/g")
    return [text for text in told if text.encode() in content]


def test_nothing_but_one_field_tells_the_data_folder(made: Path, tmp_path: Path) -> None:
    folder = made / "run"
    record = json.loads((folder / "run.json").read_text())
    assert record["data"].pop("directory") == str(made / "secret place" / "photos")
    assert str(made) not in json.dumps(record)
    assert record["command"] == "dcfsc fit photos -k 2 --out=run"
    assert secrets_of(folder / "labels.csv") == []
    assert secrets_of(folder / "details.npz") == []
    assert read_columns(folder)["path"][0] == "g0/0.png"
    for to in ("csv", "parquet"):
        assert secrets_of(export_run(folder, to, tmp_path / f"out.{to}")) == []
        whole = export_run(folder, to, tmp_path / f"whole.{to}", absolute_paths=True)
        assert secrets_of(whole) != []


def test_thumbnails_are_pixels_alone(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    exif = Image.Exif()
    exif[0x010F] = exif[0xA431] = "SERIAL 123"
    exif.get_ifd(0x8825)[2] = (47.0, 22.0, 0.0)
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "SERIAL 123")
    tags: dict[str, Any] = {"exif": exif, "icc_profile": b"SERIAL 123 profile" * 9}
    for i in range(4):
        large = {"side": 300, "format": "JPEG", "comment": b"SERIAL 123", "xmp": b"SERIAL 123"}
        picture(tmp_path / "data" / f"{i}.jpg", i, **large, **tags)
        picture(tmp_path / "data" / f"{i}.png", i, side=40, pnginfo=text, **tags)
    assert b"SERIAL 123" in (tmp_path / "data" / "0.jpg").read_bytes()
    run = fit_run(load(tmp_path / "data"), "closed-form", OPTIONS, tmp_path / "run", report=True)
    table = pq.read_table(export_run(run.folder, "parquet"))
    kinds = set()
    for content in table["thumbnail"].to_pylist():
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            kinds.add(image.format)
            assert dict(image.getexif()) == {}
            left = set(image.info) - {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
            assert left == set()
        assert b"SERIAL" not in content
    assert kinds == {"PNG", "JPEG"}
    assert b"SERIAL" not in (run.folder / "details.npz").read_bytes()
