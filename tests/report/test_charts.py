"""Charts: well-formed whatever the values are, and where the numbers say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.report.charts import FRAME, Axis, spaced
from dcfsc.report.drawing import Blocks
from dcfsc.report.page import environment

WIDTH, HEIGHT = FRAME["width"], FRAME["height"]
CHARTS = environment().get_template("charts.html").module

finite = st.floats(-1e12, 1e12, allow_nan=False)


def drawn(kind: str, *values: object, **options: object) -> ET.Element:
    """The chart as a tree; everything in it must lie inside the frame."""
    svg = str(getattr(CHARTS, kind)(*values, **options)).strip()
    assert "nan" not in svg
    assert "inf" not in svg.replace("info", "")
    tree = ET.fromstring(svg)
    assert tree.get("role") == "img"
    assert tree.get("aria-label")
    for points in re.findall(r'points="([^"]*)"', svg):
        for pair in points.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT
    return tree


def counts(tree: ET.Element) -> list[int]:
    """What the bars of a histogram say."""
    return [int(t.text.split()[0].replace(",", "")) for t in tree.iter("title")]  # type: ignore[union-attr]


def texts(tree: ET.Element) -> list[str]:
    return ["".join(node.itertext()) for node in tree.iter("text")]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
@settings(deadline=None)
def test_linear_ticks_are_few_round_and_inside(low: float, span: float) -> None:
    axis = Axis(low, low + span, 0.0, 100.0, "x")
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 7
    slack = 1e-6 * max(abs(low), span)
    assert all(low - slack <= t <= low + span + slack for t in ticks)
    assert axis(low) == pytest.approx(0.0)
    assert axis(low + span) == pytest.approx(100.0)


@given(st.floats(1e-12, 1e12), st.floats(1.5, 1e12))
@settings(deadline=None)
def test_log_ticks_are_inside(low: float, factor: float) -> None:
    axis = Axis(low, low * factor, 0.0, 100.0, "x", log=True)
    assert 1 <= len(axis.ticks()) <= 7
    assert all(low * 0.999 <= t <= low * factor * 1.001 for t in axis.ticks())


@given(st.lists(finite, min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_lines_and_histograms_of_any_values_are_well_formed(values: list[float]) -> None:
    title = "<any> & all"
    line = drawn("line", range(len(values)), values, "x", "y", title)
    assert line.get("aria-label") == title
    assert len(line.find("polyline").get("points").split()) == len(values)  # type: ignore[union-attr]
    bars = drawn("histogram", np.array(values), "x", title)
    assert sum(counts(bars)) == len(values)


def test_line_on_logarithmic_axes_leaves_out_what_has_no_logarithm() -> None:
    values = [1.0, np.nan, 0.0, 100.0]
    steps = [1, 10, 100, 1000]
    tree = drawn("line", steps, values, "x", "y", "t", log_x=True, log_y=True, marked=3)
    assert len(tree.find("polyline").get("points").split()) == 2  # type: ignore[union-attr]
    assert texts(tree)[-1] == "100"
    assert drawn("line", steps, values, "x", "y", "t", marked=1).find("circle") is None
    assert not str(CHARTS.line([1], [np.nan], "x", "y", "t")).strip()


def test_long_lines_are_thinned_but_keep_their_ends() -> None:
    tree = drawn("line", range(10_000), np.arange(10_000.0), "s", "l", "t")
    points = tree.find("polyline").get("points").split()  # type: ignore[union-attr]
    assert len(points) <= 400
    assert float(points[-1].split(",")[0]) > 0.95 * (WIDTH - 20)


def test_histogram_counts_every_sample() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    tree = drawn("histogram", values, "x", "t")
    assert sum(counts(tree)) == 1000
    assert not str(CHARTS.histogram(np.zeros(0), "x", "t")).strip()


def test_spectrum_shows_each_value_and_the_gap() -> None:
    values = np.array([1.0, 0.95, 0.9, 0.3, 0.2])
    tree = drawn("spectrum", values.tolist(), 3, 3)
    assert len(list(tree.iter("circle"))) == 5
    assert len([n for n in tree.iter("rect") if n.get("class") == "band"]) == 1
    assert "K = 3" in texts(tree)
    none = drawn("spectrum", values.tolist(), 3)
    assert not list(none.iter("rect"))


@pytest.mark.parametrize("sizes", [[5, 5], [1] * 100, [0, 7, 3]])
def test_affinity_names_the_clusters_it_has_room_for(sizes: list[int]) -> None:
    tree = drawn("affinity", Blocks(np.eye(sum(sizes)), np.array(sizes)))
    named = texts(tree)
    there = [k for k, size in enumerate(sizes) if size]
    assert set(map(int, named)) <= set(there)
    assert named.count(str(there[0])) == 2
    if len(there) < 20:
        assert sorted(named) == sorted(2 * [str(k) for k in there])
    else:  # as many as can be read: they fill the side and do not touch
        assert 2 * 400 / 40 < len(named) < 2 * 400 / 13


@pytest.mark.parametrize("count", [20, 100])
def test_confusion_of_many_classes_has_names_that_do_not_touch(count: int) -> None:
    rows = [f"class number {i}" for i in range(count)]
    columns = [str(i) for i in range(count)]
    tree = drawn("confusion", np.eye(count), rows, columns, "t")
    side = [e for e in tree.iter() if e.tag.endswith("text") and "transform" not in e.attrib]
    heights = np.array([float(e.attrib["y"]) for e in side])
    assert np.diff(heights).min() >= 13 - 0.11  # written to a tenth
    assert len(side) == (20 if count == 20 else 25)
    assert side[0].text == "class number 0"
    long = drawn("confusion", np.eye(1), ["a" * 50], ["b"], "t")
    assert texts(long)[0] == "a" * 13 + "…"
    assert {e.text for e in tree.iter() if e.tag.endswith("title")} == set(rows)


def test_labels_are_spaced() -> None:
    places = [0, 5, 9, 10, 30, 31]
    assert spaced(list("abcdef"), places, 10) == [("a", 0), ("d", 10), ("e", 30)]
    assert spaced([], [], 10) == []
