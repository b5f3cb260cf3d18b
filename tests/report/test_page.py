"""The page: complete, self-contained, drawn from saved files alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dcfsc.report import Details, read_details, render
from dcfsc.report.page import cluster_colors
from dcfsc.report.sections import seconds
from dcfsc.runs.folder import Run, read_run

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Tree(HTMLParser):
    """Elements in order, with their attributes and text; fails where tags do not match."""

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(run: Run) -> str:
    return (run.folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def record(image_run: Run) -> dict[str, Any]:
    return json.loads(json.dumps(image_run.record))


@pytest.fixture(params=["image_run", "feature_run"])
def any_run(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(request.param)


def test_page_is_what_the_saved_files_give(any_run: Run) -> None:
    saved = read_run(any_run.folder)
    assert render(saved.record, read_details(any_run.folder / "details.npz")) == page_of(any_run)


def test_page_asks_for_nothing_from_elsewhere(any_run: Run) -> None:
    tree = Tree(page_of(any_run))
    for _, attributes in tree.elements:
        for name in ("src", "href", "action", "poster", "data", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:")), attributes
    assert "@import" not in page_of(any_run)
    assert all(u.startswith("data:") for u in re.findall(r"url\(([^)]*)\)", page_of(any_run)))
    policy = next(a["content"] for a in tree.all("meta") if "http-equiv" in a)
    assert "default-src 'none'" in policy


def test_page_has_landmarks_headings_and_names(any_run: Run) -> None:
    tree = Tree(page_of(any_run))
    assert tree.all("html")[0]["lang"] == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert len(tree.all(landmark)) == 1
    levels = [int(tag[1]) for tag, _ in tree.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [a["id"] for _, a in tree.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in tree.elements:
        for name in ("aria-labelledby", "aria-controls", "aria-describedby", "for"):
            assert attributes.get(name, ids[0]) in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
    for attributes in tree.all("img"):
        assert attributes["alt"]
    for attributes in tree.all("button"):
        assert attributes.get("type") == "button" or not attributes
    for tag, attributes in tree.elements:
        if tag == "svg" or attributes.get("role") in ("img", "slider", "region", "group"):
            assert attributes.get("aria-label"), (tag, attributes)


def test_names_cannot_break_out_of_the_page(any_run: Run) -> None:
    page = page_of(any_run)
    assert "<b>one</b>" not in page
    assert page.count("</script>") == 3  # theme, data and the script itself
    assert page.count("<script") == 3


def test_page_of_images_carries_them(image_run: Run, details: Details) -> None:
    tree = Tree(page_of(image_run))
    shown = [a for a in tree.all("span") if a.get("class") == "px"]
    assert len(shown) == 3 * (6 + 16)  # in the overview, and on the cards
    text = " ".join(tree.text)
    for words in (
        *("Labels and clusters", "Samples that differ", "Where they differ most"),
        *("Spectrum", "Map", "Ridge", "Glossary"),
    ):
        assert words in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', page_of(image_run), re.S)[1])  # type: ignore[index]
    assert data["shown"]["i"] == details.shown.tolist()
    assert data["view"]["i"] == details.view_samples.tolist()
    assert min(data["view"]["x"] + data["view"]["y"]) >= 0
    assert max(data["view"]["x"] + data["view"]["y"]) <= 1000
    assert data["classes"][0] == "<b>one</b>"


def test_page_of_features_shows_rows_by_index(feature_run: Run) -> None:
    page = page_of(feature_run)
    tree = Tree(page)
    assert not [a for a in tree.all("span") if a.get("class") == "px"]
    thumbs = [a for a in tree.all("button") if a.get("class") == "thumb"]
    assert len(thumbs) == 3 * 16
    assert "shown by its row number" in page
    assert "Samples that differ</h3>" not in page
    assert 'href="#g-labels"' not in page
    assert "none given" in page


def test_page_of_a_trained_run_has_a_curve_for_each_phase(
    record: dict[str, Any], details: Details
) -> None:
    assert 'id="training"' not in render(record, details)
    record["history"] = [
        {"phase": "pretrain", "step": s, "loss": 1000.0 / s, "seconds": 0.1} for s in range(1, 9)
    ] + [{"phase": "train", "step": s, "loss": None if s == 3 else 5.0 - s} for s in range(1, 9)]
    page = render(record, details)
    assert "Pre-training (reconstruction): from 1000 to 125 in 8 steps." in page
    assert "Training: from 4 to -3 in 7 steps." in page


def test_spectrum_says_what_suggest_k_said(record: dict[str, Any], details: Details) -> None:
    assert "The number of clusters was given." in render(record, details)
    page = render({**record, "suggestion": {"k": 3}}, details)
    assert "K = 3 is the first candidate of dcfsc suggest-k" in page
    page = render({**record, "suggestion": {"k": 5}}, details)
    assert "The first candidate of dcfsc suggest-k was K = 5; 3 were requested." in page


def test_graph_that_falls_apart_is_told(record: dict[str, Any], details: Details) -> None:
    page = render(record, replace(details, connectivity=np.array([2, 7, 4])))
    assert "has 7 connected components" in " ".join(Tree(page).text).replace("  ", " ")
    assert "2 of 120 samples have no neighbor" in page
    assert "left out 4 samples" in page


def test_empty_cluster_and_unmatched_cluster(record: dict[str, Any], details: Details) -> None:
    record["n_clusters"] = 4
    wider = replace(
        details,
        confusion=np.pad(details.confusion, ((0, 0), (0, 1))),
        best_class=np.append(details.best_class, -1).astype(np.int32),
    )
    page = render(record, wider)
    Tree(page)
    assert "0 samples" in page


def test_record_of_few_facts_is_enough(details: Details, image_run: Run) -> None:
    keys = ("method", "parameters", "n_clusters", "data")
    record = {**{k: image_run.record[k] for k in keys}, "versions": None}
    record["data"] = {k: v for k, v in record["data"].items() if k in ("name", "n", "shape")}
    page = render({**record, "machine": {"device": "cpu"}, "timings": {"fit": 90.0}}, details)
    Tree(page)
    assert image_run.record["method"] in page
    assert "cpu, ? threads" in page
    assert '<dt>Time</dt><dd class="">90.0 s</dd>' in page
    assert "<dt>Seed</dt>" not in page


def test_many_classes_become_a_picture(record: dict[str, Any], details: Details) -> None:
    names = np.array([f"class {i}" for i in range(30)])
    confusion = np.zeros((30, 3), np.int64)
    confusion[:3] = details.confusion
    page = render(record, replace(details, class_names=names, confusion=confusion))
    assert '<div class="confusion-picture"' in page
    assert '<table class="confusion">' not in page


def test_colors_are_distinct() -> None:
    for count in (2, 10, 11, 40, 100):
        colors = cluster_colors(count)
        assert len(set(colors)) == len(colors) == count


def test_times_are_written_for_people() -> None:
    assert [seconds(t) for t in (0.04, 12.34, 600, 8000)] == ["0.0 s", "12.3 s", "10 min", "2.2 h"]


def test_page_of_seventy_thousand_noisy_images_stays_small(
    record: dict[str, Any], details: Details
) -> None:
    n, shown, K = 70_000, 5_000, 100
    rng = np.random.default_rng(0)
    labels = np.arange(n) % K
    record.update(n_clusters=K, data={**record["data"], "n": n})
    large = replace(
        details,
        labels=labels,
        clusters=np.column_stack([labels, (labels + 1) % K]),
        probabilities=rng.random((n, 2)),
        parts=2 * labels,
        coupling=rng.random((K, K)),
        degrees=rng.random(n),
        leverage=rng.random(n),
        truth=rng.integers(0, K, n),
        blocks=rng.random((400, 400)),
        view_samples=np.arange(shown),
        view=rng.normal(size=(n, 2)),
        shown=np.argsort(labels[:shown], kind="stable"),
        role=np.tile([0] * 8 + [1] * 8 + [3] * 34, K),
        neighbors=rng.integers(0, n, (n, 5)),
        neighbor_weights=rng.random((n, 5)),
        files=np.array([f"/some_folder/some_picture_{i}.png" for i in range(shown)]),
        thumbnails=rng.integers(0, 256, (shown, 28, 28), dtype=np.uint8),
        class_names=np.array([str(i) for i in range(K)]),
        confusion=rng.integers(0, 9, (K, K)),
        best_class=np.arange(K),
    )
    page = render(record, large)
    Tree(page)
    assert 4e6 < len(page.encode()) < 9e6


def test_drawing_needs_no_torch(image_run: Run) -> None:
    code = (
        "import sys\nfrom dcfsc.cli import app\n"
        f"app(['report', {str(image_run.folder)!r}, '--quiet'], standalone_mode=False)\n"
        "sys.exit('imported torch' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_page_without_a_ridge_shows_none(record: dict[str, Any], details: Details) -> None:
    plain = {"representation": "scattering", "lam": None, "effective_dof": None}
    bare = replace(details, path=np.zeros((0, 3)), leverage=np.zeros(0, np.float32))
    page = render({**record, **plain}, bare)
    assert 'id="ridge"' not in page
    assert "scattering" in page
    assert "λ" not in page
    with_ridge = render({**record, "representation": "given"}, details)
    assert 'id="ridge"' in with_ridge
    assert "scattering" not in with_ridge
