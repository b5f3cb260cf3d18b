"""README's table and the page of results say what the files under results/ say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dcfsc.cli.output import ENCODER_GAIN

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))
import results_page

ROOT = Path(__file__).resolve().parents[2]


def test_readme_has_the_table_that_the_script_gives() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = results_page.MARKED.search(text)
    assert match is not None
    assert match[0] == results_page.readme_table(), "run python docs/results_page.py"


def test_readme_table_has_errors_and_seconds_of_the_files() -> None:
    figures = json.loads((ROOT / "results/benchmarks/peers.json").read_text())["figures"]
    measured = figures["digits"]["methods"]["KMeans"]
    error, seconds = measured["error"], measured["seconds"]["mean"]
    expected = f"{error['mean']:.1f} ± {error['std']:.1f}, {seconds:.1f} s"
    (line,) = [x for x in results_page.readme_table().splitlines() if "| handwritten digits |" in x]
    assert expected in line.split(" | ")


def test_the_page_has_every_result_once() -> None:
    lines = results_page.page().splitlines()
    for name in results_page.files():
        assert lines.count(f"- file: `results/{name}`") == 1
    assert "## Other results" not in lines


def test_every_section_has_a_table_and_says_where_it_was_measured() -> None:
    sections = results_page.page().split("\n### ")[1:]
    assert len(sections) == len(results_page.files())
    for section in sections:
        table = [line for line in section.splitlines() if line.startswith("|")]
        assert len(table) > 2, section.partition("\n")[0]
        assert "\n- commit: " in section


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        ({"mean": 5.666, "std": 1.04}, "", "5.7 ± 1.0"),
        ({"median": 0.0065, "min": 0.006}, "ms", "6.5"),
        ({"mean": 3.0, "std": None}, "", "3"),
        (2**31, "GiB", "2"),
        (1234567, "", "1,234,567"),
        (0.96814, "", "0.968"),
        (2.6e-7, "", "2.6e-07"),
        (True, "", "yes"),
        (None, "", ""),
        ([1, 2], "", ""),
        ("a|b", "", "a\\|b"),
    ],
)
def test_values_are_shown_with_the_digits_that_count(value: object, unit: str, text: str) -> None:
    assert results_page.shown(value, unit) == text


def test_rows_are_named_by_the_keys_on_their_path() -> None:
    content = {"figures": {"orl": {"methods": {"ssc": {"error": 1}}}, "machine": {}}}
    path = ["figures", "{data}", "methods", "{method}"]
    assert list(results_page.rows(content, path)) == [
        ({"data": "orl", "method": "ssc"}, {"error": 1})
    ]
    assert list(results_page.rows({"a": [{"N": 1}, {"N": 2}]}, ["a", "[]"])) == [
        ({}, {"N": 1}),
        ({}, {"N": 2}),
    ]


def test_a_table_without_columns_has_all_values() -> None:
    rows = [({"case": "a"}, {"s": {"ours": {"mean": 1.5, "std": 0.5}}, "code": {"x": 1}})]
    assert results_page.table(rows, []).splitlines() == [
        "| case | s.ours |",
        "| --- | --- |",
        "| a | 1.5 ± 0.5 |",
    ]


def test_the_advice_to_take_an_encoder_says_what_was_measured() -> None:
    figures = json.loads((ROOT / "results/benchmarks/photos.json").read_text())["figures"]
    errors = [figures["photographs"][name]["error"] for name in ("encoder", "pixels")]
    with_encoder, without = errors
    assert f"{with_encoder:.1f}% in a wrong group instead of {without:.1f}%" in ENCODER_GAIN
