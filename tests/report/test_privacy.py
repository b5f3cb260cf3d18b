"""Pages tell nothing of where the data lie, and link to the files all the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image
from running import fit_run

from dcfsc.io import load
from dcfsc.report.page import file_links
from dcfsc.runs.compare import compare_runs
from dcfsc.runs.folder import Run, read_run
from dcfsc.runs.reporting import draw, page_of

GIVEN = {"n_clusters": 2, "random_state": 0, "device": "cpu", "representation": "given"}


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on photographs with a place in them, in a folder of their own."""
    top = tmp_path_factory.mktemp("top")
    exif = Image.Exif()
    exif[0xA431] = "SERIAL 123"
    (top / "mine" / "photos").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(12):
        shape = (24, 1, 3) if i % 2 else (1, 24, 3)
        pixels = rng.integers(0, 200, shape) + rng.integers(0, 40, (24, 24, 3))
        path = top / "mine" / "photos" / f"a #{i}.jpg"
        more: dict[str, Any] = {"exif": exif, "comment": b"SERIAL 123", "icc_profile": b"SERIAL"}
        Image.fromarray(pixels.astype(np.uint8)).save(path, **more)
    data = load(top / "mine" / "photos")
    command = f"dcfsc fit {top}/mine/photos -k 2 --out {top}/mine/one"
    for name, lam in (("one", 0.1), ("two", 3.0)):
        options = {**GIVEN, "lam": lam}
        fit_run(data, "closed-form", options, top / "mine" / name, report=True, command=command)
    return top


@pytest.fixture
def run(top: Path) -> Run:
    return read_run(top / "mine" / "one")


def linked(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    listed = re.search(r'"link":\[(.*?)\]', text)
    found = re.findall(r'"(.*?)"', listed[1]) if listed else re.findall(r'href="([^"#d].*?)"', text)
    return [unquote(link) for link in found]


def test_a_page_in_the_run_links_to_the_files_and_tells_no_folder(top: Path, run: Run) -> None:
    page = run.folder / "report.html"
    assert len(linked(page)) == 12
    assert all((page.parent / link).is_file() for link in linked(page))
    text = page.read_text(encoding="utf-8")
    assert str(top) not in text
    assert "dcfsc fit photos -k 2 --out one" in text
    assert "SERIAL" not in text
    assert b"SERIAL" not in (run.folder / "details.npz").read_bytes()


def test_absolute_links_are_asked_for(top: Path, run: Run, tmp_path: Path) -> None:
    draw(run, page_of(run, tmp_path / "page.html"), absolute_paths=True)
    files = [(top / "mine" / "photos" / f"a #{i}.jpg").as_uri() for i in range(12)]
    assert sorted(linked(tmp_path / "page.html")) == sorted(map(unquote, files))


def test_no_link_goes_through_the_root_or_past_a_home(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"data": {"directory": "/data/secret"}}
    assert file_links(record, ["a.png"], Path("/home/me/run")) is None
    assert file_links(record, ["a.png"], Path("/data/run")) == ["../secret/a.png"]
    monkeypatch.setenv("HOME", "/home/me")
    there = {"data": {"directory": "/home/you/photos"}}
    assert file_links(there, ["a.png"], Path("/home/me/run")) is None
    assert file_links(there, ["a.png"], Path("/home/you/run")) == ["../photos/a.png"]


def test_details_of_version_1_0_have_whole_paths(top: Path) -> None:
    file = str(top / "mine" / "photos" / "a #0.jpg")
    links = file_links({"data": {"directory": "/elsewhere"}}, [file], top / "mine" / "one")
    assert links == ["../photos/a%20%230.jpg"]


def test_a_comparison_tells_no_folder(top: Path, tmp_path: Path) -> None:
    near = top / "mine" / "compare.html"
    found = compare_runs(top / "mine" / "one", top / "mine" / "two", near)
    assert [side.name for side in found.sides] == ["one", "two"]
    assert str(top) not in near.read_text(encoding="utf-8")
    assert all((near.parent / link).is_file() for link in linked(near))
    assert "SERIAL" not in near.read_text(encoding="utf-8")
