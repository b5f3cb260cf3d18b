"""An album as people have it: nested folders, loose images, a broken one, a film and notes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dcfsc.cli import app

KINDS = {"across": (16, 1), "down": (1, 16)}
CPU = ("--device", "cpu")


def draw(path: Path, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = np.random.default_rng(len(kind)).integers(0, 230, (2, *KINDS[kind]))
    pixels = np.tensordot(rng.dirichlet([1, 1]), basis, 1) + rng.integers(0, 12, (16, 16))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "my album"
    places = ("", "2019", "2019/summer", "2019/summer/by the lake", "2020")
    for i in range(40):
        kind = "across" if i % 2 else "down"
        draw(top / places[i % 5] / f"{kind}{i}.png", kind, i)
    (top / "2020" / "cut.png").write_bytes((top / "down0.png").read_bytes()[:80])
    (top / "2019" / "film.mp4").write_bytes(b"film")
    (top / "notes.txt").write_text("notes")
    for i in range(10):
        kind = "across" if i % 2 else "down"
        draw(tmp_path / "new" / f"{kind}{100 + i}.png", kind, 100 + i)
    monkeypatch.chdir(tmp_path)
    return top


def dcfsc(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def done(*words: object) -> Any:
    result = dcfsc(*words)
    assert result.exit_code == 0, result.output
    return result


def shown(folder: str) -> dict[str, list[str]]:
    """The kinds of the images in each folder of an export."""
    return {
        place.name: sorted(re.sub("[0-9].*", "", file.name) for file in place.iterdir())
        for place in sorted(Path(folder).iterdir())
        if place.is_dir()
    }


def test_from_an_album_to_folders_that_grow(album: Path) -> None:
    result = done("fit", album, "-k", 2, *CPU, "--out", "run")
    (warning,) = result.stderr.splitlines()
    assert warning == "warning: 1 of 41 images were broken and left out: 2020/cut.png"
    facts = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert "40 samples of 16 x 16 uint8, no labels" in facts["data"]
    assert facts["notes"].startswith("2 files skipped: 1 .mp4, 1 .txt")
    assert "error" not in facts
    record = json.loads(Path("run/run.json").read_text())
    assert record["data"]["broken"] == ["2020/cut.png"]
    assert float(facts["time"].split()[0]) > sum(record["timings"].values())

    done("report", "run")
    done("export", "run", "--to", "folders")
    before = shown("run-clusters")
    kinds = {name: files[0] for name, files in before.items()}
    assert sorted(kinds.values()) == ["across", "down"]
    assert all(len(files) == 20 == files.count(files[0]) for files in before.values())

    result = done("predict", "run", "new", "--to", "folders")
    assert result.stdout.splitlines()[-1].split()[-1].endswith("run-clusters")
    for name, files in shown("run-clusters").items():
        assert files == [kinds[name]] * 25
    assert os.path.samefile(next(Path("run-clusters").rglob("down100.png")), "new/down100.png")

    done("edit", "run", "0=first")
    done("export", "run", "--to", "folders")
    assert shown("run-clusters").keys() == {"first", "cluster-1"}
    assert all(len(files) == 25 for files in shown("run-clusters").values())

    assert "cut.png" in dcfsc("fit", album, "-k", 2, "--strict", "--out", "other").stderr
    assert "no sub-folder" not in dcfsc("fit", album, "-k", 2, "--labels", "folders").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "my albun", "-k", 2), "no such file or folder: my albun. Give the path of"),
        (("fit", "my", "album", "-k", 2), "A path with spaces needs quotes, as in 'my photos'."),
        (("fit", "my album/down0.png", "-k", 2), "is a single image; give the folder"),
        (("fit", "my album"), "or -k auto; 'dcfsc suggest-k DATA' lists candidates"),
        (
            ("fit", "my album", "-k", 2, "--labels", "folders"),
            "8 of 41 do not, such as across5.png",
        ),
        (
            ("fit", "my album", "-k", 2, "--labels", "years"),
            "with one label per sample, or folders",
        ),
        (("fit", "my album", "-k", 2, "--page", 2), "across1.png: it has no page 2"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(
    album: Path, words: tuple[object, ...], said: str
) -> None:
    result = dcfsc(*words)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("words", "out", "said"),
    [
        (("fit", "my album", "-k", 2), "notes.txt/run", "Not a directory"),
        (("fit", "my album", "-k", 2), "my album/2019", "is not an earlier run"),
        (("fit", "my album", "-k", 2), "my album", "is what the command reads"),
        (("fit", "my album", "-k", "2,3"), "notes.txt", "Not a directory"),
        (("predict", "run", "new"), "notes.txt", "notes.txt exists; choose another name"),
        (("predict", "run", "new", "--to", "folders"), "my album", "no export of dcfsc"),
        (("predict", "run", "new", "--to", "folders"), "new", "is what the command reads"),
    ],
)
def test_a_bad_out_fails_before_anything_is_read(
    album: Path, words: tuple[object, ...], out: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("notes.txt").write_text("mine")
    done("fit", "new", "-k", 2, *CPU, "--fast", "--no-report", "--out", "run")
    monkeypatch.setattr("dcfsc.cli.options.load_samples", lambda *_: pytest.fail("it was read"))
    result = dcfsc(*words, "--out", out)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert Path("notes.txt").read_text() == "mine"


def test_plates_of_16_bits_with_labels_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages: a bright channel that does not tell the kinds, and a dim one that does."""
    rng = np.random.default_rng(0)
    for i in range(24):
        shape = ((8, 1), (1, 8))[i % 2]
        basis = np.random.default_rng(i % 2).integers(300, 800, (2, *shape))
        dim = np.tensordot(rng.dirichlet([1, 1]), basis, 1) + rng.integers(0, 9, (8, 8))
        bright = rng.integers(20_000, 60_000, (8, 8))
        first, second = (Image.fromarray(page.astype(np.uint16)) for page in (bright, dim))
        folder = tmp_path / ("new" if i > 19 else "plates")
        folder.mkdir(exist_ok=True)
        first.save(folder / f"{'ad'[i % 2]}{i:02d}.tif", save_all=True, append_images=[second])
    monkeypatch.chdir(tmp_path)
    names = sorted((file.name for file in Path("plates").iterdir()), key=lambda name: name[:0:-1])
    rows = [f"{name},{'treated' if name[0] == 'a' else 'control'}" for name in names]
    Path("labels.csv").write_text("\n".join(["file,treatment", *rows]))
    notes = done("fit", "plates", "-k", 2, *CPU, "--fast", "--no-report", "--out", "one").stdout
    assert "20 images have more pages, of which the first is read; --page N takes" in notes
    for name, words in {"run": ("--page", 2), "both": ("--page", "all", "--channels", 2)}.items():
        words = (*words, "--labels", "labels.csv")
        result = done("fit", "plates", "-k", 2, *words, *CPU, "--out", name)
        assert "0.00% of the samples differ from the given labels" in result.stdout
        reading = json.loads(Path(name, "run.json").read_text())["data"]["reading"]
        low, high = reading["levels"]
        assert 250 < low < high < 900
        done("predict", name, "new", "--to", "folders", "--out", f"{name} sorted")
        assert sorted(map(len, shown(f"{name} sorted").values())) == [2, 2]
        assert all(len({*kinds}) == 1 for kinds in shown(f"{name} sorted").values())
