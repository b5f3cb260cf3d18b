"""Names, hints, profiles, links, the download and the comparison, on pages in a browser."""

from __future__ import annotations

import base64
import csv
import io
import os
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
from PIL import Image
from running import fit_run
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.io import Dataset, load
from dcfsc.runs.folder import Run, read_run
from dcfsc.runs.pages import Page

pytestmark = pytest.mark.slow

Browser = Any  # of conftest, which is no module to import from
WIDTHS = pytest.mark.parametrize("width", [1280, 390])
GIVEN = {"random_state": 0, "device": "cpu", "representation": "given"}


def done(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def color_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Small color pictures in one of four colors, the last two of one kind, as a folder."""
    root = tmp_path_factory.mktemp("colors")
    rng = np.random.default_rng(0)
    colors = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}
    for name, color in colors.items():
        (root / "pictures" / name).mkdir(parents=True)
        pattern = rng.random((24, 24, 1)) > 0.5
        for i in range(12):
            pixels = np.where(pattern, np.array(color), 20) + rng.integers(0, 25, (24, 24, 3))
            file = root / "pictures" / name / f"a #{i}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(file)
    data = load(root / "pictures", labels="folders")
    return fit_run(data, "closed-form", {**GIVEN, "n_clusters": 3}, root / "run", report=True)


@pytest.fixture(scope="module")
def table_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A table of three groups, with columns that have names; groups 1 and 2 are cut wrongly."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 5)) * 0.3 + np.eye(3, 5)[y] * 6
    root = tmp_path_factory.mktemp("table")
    with open(root / "table.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["weight", "height", "<i>age</i>", "noise", "more noise"])
        writer.writerows(X.tolist())
    data = load(root / "table.csv")
    return fit_run(data, "closed-form", {**GIVEN, "n_clusters": 3}, root / "run", report=True)


def opened(browser: Browser, page: Path, width: int) -> None:
    """Open a page: no problem, and nothing wider than the window."""
    browser.open(page, width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.run("document.querySelectorAll('.expand').forEach(b => b.click())")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []


@WIDTHS
def test_pictures_are_in_color_and_link_to_their_files(
    browser: Browser, color_run: Run, width: int
) -> None:
    opened(browser, color_run.folder / "report.html", width)
    sheet = browser.run("getComputedStyle(document.querySelector('.px')).backgroundImage")
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet.split(",")[1][:-2]))))
    assert pixels.ndim == 3
    assert np.ptp(pixels.astype(int), axis=2).max() > 100  # not gray
    browser.run("document.querySelector('.thumb').click()")
    href = browser.run("document.querySelector('#sample a').href")
    file = browser.run("document.querySelector('#sample a').textContent")
    path = unquote(urlparse(href).path)
    assert os.path.isfile(path)
    assert path.endswith(file)
    assert "a #" in file


@WIDTHS
def test_names_and_merged_clusters_are_on_the_page_and_in_the_download(
    browser: Browser, color_run: Run, width: int, tmp_path: Path
) -> None:
    run = read_run(shutil.copytree(color_run.folder, tmp_path / "run"))
    done("name", run.folder, "0=warm, <b>red</b>", "--merge", "1,2")
    opened(browser, run.folder / "report.html", width)
    heads = "[...document.querySelectorAll('#clusters h3')].map(h => h.textContent)"
    assert browser.run(heads) == ["warm, <b>red</b>", "Cluster 1"]
    assert "in 2 clusters" in browser.run("document.querySelector('.lead').textContent")
    bring = "[...document.querySelectorAll('[data-bring]')].map(b => b.textContent)"
    assert browser.run(bring) == ["warm, <b>red</b>", "1"]
    text = browser.run("""(async () => {
        let blob; URL.createObjectURL = b => { blob = b; return 'blob:none'; };
        HTMLAnchorElement.prototype.click = function () { this.wanted = true; };
        document.getElementById('download').click();
        return await blob.text();
    })()""")
    rows = list(csv.DictReader(io.StringIO(text)))
    merged = np.where(run.labels == 2, 1, run.labels)
    assert [int(row["cluster"]) for row in rows] == merged.tolist()
    assert {row["name"] for row in rows} == {"warm, <b>red</b>", "1"}
    with open(run.folder / "labels.csv", newline="") as file:
        fitted = [row["path"] for row in csv.DictReader(file)]
    assert [row["id"] for row in rows] == fitted
    with open(run.folder / "clusters.csv", newline="") as file:
        whole = list(csv.DictReader(file))
    for name in ("id", "cluster", "name", "next_best"):
        assert [row[name] for row in rows] == [row[name] for row in whole]
    assert all(0 <= float(row["confidence"]) <= 1 for row in rows)
    assert browser.problems == []


@WIDTHS
def test_columns_that_set_a_cluster_apart_are_named(
    browser: Browser, table_run: Run, width: int
) -> None:
    opened(browser, table_run.folder / "report.html", width)
    first = """[...document.querySelectorAll('.card')].map(card => [
        card.querySelector('.profile tbody th').textContent,
        card.querySelector('.profile tbody tr').children[4].textContent])"""
    found = browser.run(first)
    names = ["weight", "height", "<i>age</i>"]
    assert sorted(name for name, _ in found) == sorted(names)
    means = np.loadtxt(table_run.folder.parent / "table.csv", delimiter=",", skiprows=1)
    for k, (name, difference) in enumerate(found):
        column, inside = means[:, names.index(name)], table_run.labels == k
        expected = (column[inside].mean() - column[~inside].mean()) / column.std()
        assert float(difference) == pytest.approx(expected, abs=0.051)


def test_a_sample_has_its_measurements_beside_it(browser: Browser, table_run: Run) -> None:
    opened(browser, table_run.folder / "report.html", 1280)
    X = np.loadtxt(table_run.folder.parent / "table.csv", delimiter=",", skiprows=1)
    browser.run("document.querySelector('.card .thumb').click()")
    name = browser.run("document.querySelector('#sample h3').textContent")
    facts = browser.run("""[...document.querySelectorAll('#sample h4 + .sample-facts div')].map(
        d => [d.querySelector('dt').textContent, Number(d.querySelector('dd').textContent)])""")
    assert [column for column, _ in facts] == [
        *("weight", "height", "<i>age</i>", "noise", "more noise")
    ]
    row = X[int(name.removeprefix("Sample "))]
    np.testing.assert_allclose([value for _, value in facts], row, rtol=1e-4)


def test_all_samples_can_be_seen_a_page_at_a_time(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 6)) * 0.1 + np.eye(2, 6)[np.repeat([0, 1], [620, 280])]
    data = Dataset("rows", X, ids=[f"row-{i:03d}" for i in range(900)])
    run = fit_run(data, "closed-form", {**GIVEN, "n_clusters": 2}, tmp_path / "run", report=True)
    browser.open(run.folder / "report.html", 390)
    larger = int(np.argmax(np.bincount(run.labels)))
    shown = f"[...document.querySelectorAll('#all{larger} .thumb')].map(b => b.textContent)"
    browser.run(f"document.querySelector('[data-cluster=\"{larger}\"]').click()")
    counts = [len(browser.run(shown))]
    while browser.run(f"!!document.querySelector('#all{larger} > button:not(.thumb)')"):
        browser.run(f"document.querySelector('#all{larger} > button:not(.thumb)').click()")
        counts.append(len(browser.run(shown)))
    assert counts[:2] == [240, 480]
    members = np.flatnonzero(run.labels == larger)
    assert sorted(browser.run(shown)) == [f"row-{i:03d}" for i in members]
    assert browser.run("document.activeElement.classList.contains('thumb')")
    assert browser.problems == []


def test_terms_lead_to_the_glossary(browser: Browser, table_run: Run) -> None:
    opened(browser, table_run.folder / "report.html", 1280)
    places = browser.run("""[...document.querySelectorAll('a.term')].map(
        a => document.querySelector(a.getAttribute('href'))?.className ?? 'none')""")
    assert len(places) > 8
    assert set(places) == {""}
    linked = browser.run("[...document.querySelectorAll('a.term')].map(a => a.hash.slice(1))")
    explained = browser.run("[...document.querySelectorAll('.glossary > div')].map(d => d.id)")
    assert set(explained) == set(linked)


def test_links_of_a_page_in_a_notebook_stay_in_its_frame(
    browser: Browser, table_run: Run, tmp_path: Path
) -> None:
    page = Page((table_run.folder / "report.html").read_text(), "a <title>", 500)
    html = page._repr_html_()
    assert 'sandbox="allow-scripts ' in html
    assert "a &lt;title&gt;" in html
    open_to_the_test = re.sub(r' sandbox="[^"]*"', "", html, count=1)
    (tmp_path / "notebook.html").write_text(f"<h1>Notebook</h1>{open_to_the_test}")
    browser.open(tmp_path / "notebook.html", 1280)
    browser.run("document.querySelector('iframe').contentDocument.querySelector('.term').click()")
    browser.run("new Promise(done => setTimeout(done, 1500))")
    frame = "document.querySelector('iframe').contentWindow"
    assert browser.run(f"{frame}.document.querySelector('.kicker').textContent") == "dcfsc report"
    assert browser.run(f"{frame}.scrollY") > 0
    assert browser.problems == []


@WIDTHS
def test_hints_name_what_to_merge_and_split(browser: Browser, tmp_path: Path, width: int) -> None:
    """Two groups asked for as three: one is cut in two; and four groups asked for as two."""
    rng = np.random.default_rng(0)
    centers = np.eye(4, 12) * 8
    X = rng.normal(size=(160, 12)) + centers[np.arange(160) % 4]
    few = fit_run(
        Dataset("two", X), "closed-form", {**GIVEN, "n_clusters": 3}, tmp_path / "few", report=True
    )
    opened(browser, few.folder / "report.html", width)
    split = browser.run("document.querySelector('[data-split]')?.dataset.split")
    assert split is not None  # three clusters of four groups: one of them is two
    groups = np.arange(160) % 4
    assert len({*groups[few.labels == int(split)]}) == 2
    assert browser.run("document.querySelectorAll('[data-split] .thumb').length") == 10
    done("name", few.folder, "--split", split)
    parts = done("name", few.folder, "--json")
    assert '"size": 40' in parts
    opened(browser, few.folder / "report.html", width)
    assert browser.run("document.querySelector('[data-split]')") is None
    many = fit_run(
        Dataset("four", X),
        "closed-form",
        {**GIVEN, "n_clusters": 5},
        tmp_path / "many",
        report=True,
    )
    opened(browser, many.folder / "report.html", width)
    pair = browser.run("document.querySelector('[data-merge]')?.dataset.merge")
    assert pair is not None
    a, b = map(int, pair.split(","))
    assert {*groups[many.labels == a]} == {*groups[many.labels == b]}


@WIDTHS
def test_labels_of_many_classes_stay_readable(browser: Browser, tmp_path: Path, width: int) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(240) % 40
    X = rng.normal(size=(240, 60)) * 0.4 + np.eye(40, 60)[y] * 5
    names = [f"a class with number {i}" for i in range(40)]
    data = Dataset("many", X, y, label_names=names)
    run = fit_run(data, "closed-form", {**GIVEN, "n_clusters": 40}, tmp_path / "run", report=True)
    opened(browser, run.folder / "report.html", width)
    boxes = browser.run("""[...document.querySelectorAll('.confusion-picture text')]
        .filter(t => !t.hasAttribute('transform'))
        .map(t => t.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])""")
    assert len(boxes) >= 10
    boxes.sort(key=lambda box: box[1])
    size = boxes[0][3] - boxes[0][1]
    assert size >= 10  # pixels on the screen, on a phone too
    assert all(after[1] - before[1] >= 0.75 * size for before, after in pairwise(boxes))
    frame = browser.run("""(() => { const b = document.querySelector('.confusion-picture svg')
        .getBoundingClientRect(); return [b.left, b.right]; })()""")
    assert min(box[0] for box in boxes) >= frame[0]


@WIDTHS
def test_comparison_shows_who_moved_where(
    browser: Browser, color_run: Run, tmp_path: Path, width: int
) -> None:
    other = fit_run(
        load(color_run.folder.parent / "pictures", labels="folders"),
        "closed-form",
        {**GIVEN, "n_clusters": 2},
        tmp_path / "two",
    )
    done("compare", color_run.folder, other.folder, "--out", tmp_path / "compare.html")
    opened(browser, tmp_path / "compare.html", width)
    moved = browser.run("document.querySelector('#moved .text').textContent")
    joined = 36 - sum(
        max((color_run.labels[other.labels == k] == a).sum() for a in range(3)) for k in range(2)
    )
    assert f"{joined} of 36 samples" in moved
    flows = browser.run("""[...document.querySelectorAll('#moved tbody tr')].map(
        row => [...row.cells].slice(0, 3).map(c => c.textContent))""")
    assert sum(int(count) for _, _, count in flows) == joined
    assert browser.run("document.querySelectorAll('#moved .px').length") == min(joined, 8)
    link = browser.run("document.querySelector('#moved a').href")
    assert link.startswith("file:")
    verdict = browser.run("document.getElementById('verdict').textContent")
    assert "differs less from the given labels" in verdict


def test_a_run_is_named_exported_and_compared(
    browser: Browser, color_run: Run, tmp_path: Path
) -> None:
    """The commands one after the other; pages and tables tell the same."""
    pq = pytest.importorskip("pyarrow.parquet")
    named = shutil.copytree(color_run.folder, tmp_path / "named")
    done("name", named, "0=first", "1=second", "--split", "2")
    done("export", named, "--to", "parquet")
    done("export", named, "--to", "folders", "--out", tmp_path / "folders")
    table = pq.read_table(named / "export.parquet").to_pydict()
    sizes = {name: table["name"].count(name) for name in ("first", "second", "2", "3")}
    assert sum(sizes.values()) == 36
    assert min(sizes.values()) > 0
    opened(browser, named / "report.html", 1280)
    cards = browser.run("""[...document.querySelectorAll('#clusters .card')].map(card => [
        card.querySelector('h3').textContent.replace('Cluster ', ''),
        parseInt(card.querySelector('.meta').textContent.replace(/.*· (?=\\d+ samples)/, ''))])""")
    assert dict(cards) == sizes
    for name in (".dcfsc.json", ".dcfsc-export.json"):
        (tmp_path / "folders" / name).unlink()
    folders = {p.name: len(os.listdir(p)) for p in (tmp_path / "folders").iterdir()}
    assert folders == {
        **{name: sizes[name] for name in ("first", "second")},
        **{f"cluster-{k}": sizes[k] for k in ("2", "3")},
    }
    done("compare", color_run.folder, named, "--out", tmp_path / "compare.html")
    opened(browser, tmp_path / "compare.html", 390)
    row = "document.querySelector('#moved tbody tr')"
    cells = browser.run(f"[...{row}.cells].slice(0, 3).map(c => c.textContent)")
    assert cells == ["2", "3", str(sizes["3"])]
    for thumbnail in table["thumbnail"]:
        assert Image.open(io.BytesIO(thumbnail)).size == (24, 24)
