"""No measured number in README.md, docs/ or research/ that is not in a file under results/.

The form of a source, and the check, are in docs/measured.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dcfsc.cli.output import ENCODER_GAIN

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))
import measured
import sources

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = Path(__file__).parent / "example"
DIGITS = "results/digits.json:figures"
MEAN = f"{DIGITS}.k-means.whole.mean"
LAYER = "results/layer.json:figures"


@pytest.mark.parametrize("page", measured.pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_measured_numbers_are_in_their_sources(page: Path) -> None:
    found = measured.check_page(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))
    assert found.problems == []


def test_many_numbers_are_compared() -> None:
    pages = [measured.check_page(page.read_text(encoding="utf-8")) for page in measured.pages()]
    assert sum(page.compared for page in pages) > 200


@pytest.mark.parametrize(
    "text",
    [
        f"An error of 20.7% <!-- {MEAN} -->.",
        f"An error of 20.69 per cent <!--\n{MEAN} -->, they say.",
        f"From 20.4 to 21.0% <!-- min({DIGITS}.k-means.whole.errors[*]); "
        f"max({DIGITS}.k-means.whole.errors[*]) -->.",
        f"It takes 2.6 ms <!-- {LAYER}[N=400,d=80].seconds.ours.median * 1000 -->.",
        "It takes 0.2 s <!-- computed: 1e9 * 500**2 / (64 * 2e13) -->.",
        "The paper has 14.8% <!-- cited: Seo et al. 2019, section 4 -->.",
        "Stop at a share of 0.99 <!-- defined: a parameter --> of it.",
        "With Python 3.12, lam = 0.5, 48 x 42 pixels and 1,797 samples nothing is measured.",
        "Formulas $0.5 x$ and code `0.5 s` are no measurements.",
        f"<!-- table: {LAYER} | speedup -->\n| case | ratio |\n| --- | --- |\n| N = 400 | 2.5 |",
        f"<!-- table: {LAYER} -->\n| case | ms |\n| --- | --- |\n| N = 400, d = 80 | 2.6 ms |",
        f"<!-- table: {DIGITS} -->\n| m | e |\n| --- | --- |\n| K-Means | 20.69 ± 0.22 |",
    ],
)
def test_what_is_sourced_passes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", EXAMPLE)
    assert measured.check_page(text).problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("An error of 20.7%.", "20.7 has no source"),
        ("It is 3 times faster.", "3 has no source"),
        ("It is five to seven times faster.", "seven has no source"),
        ("It took 12 s and 3 MiB.", "3 has no source"),
        ("A score of 0.97.", "0.97 has no source"),
        (f"An error of 20.8% <!-- {MEAN} -->.", "20.8 is printed, but"),
        (f"An error of 20.8% <!-- {MEAN}s -->.", "leads to no number"),
        (f"An error of 20.7% <!-- {DIGITS}.k-means.whole.errors[*] -->.", "select one"),
        ("An error of 20.7% <!-- results/none.json:x -->.", "there is no file"),
        ("An error of 20.7% <!-- cited: -->.", "gives no reason"),
        (f"An error of 20.7%\n<!-- {MEAN} -->.", "opens on the line of its number"),
        ("```python\nf()  # takes 3 s\n```", "3 in a code block's comment"),
        ("| case | s |\n| --- | --- |\n| a | 1.5 s |", "the table has no"),
        (
            f"<!-- table: {LAYER} | speedup -->\n| case | r |\n| --- | --- |\n| N = 400 | 2.6 |",
            "2.6 is printed, but",
        ),
        (
            f"<!-- table: {LAYER} -->\n| case | r |\n| --- | --- |\n| N = 400 | 2.1 |",
            "2.1 is in none of its records",
        ),
        (
            f"<!-- table: {LAYER} -->\n| case | r |\n| --- | --- |\n| N = 401 | 2.5 |",
            "no record with",
        ),
    ],
)
def test_what_is_not_sourced_is_told(
    text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROOT", EXAMPLE)
    assert problem in "\n".join(measured.check_page(text).problems)


def test_the_advice_to_take_an_encoder_says_what_was_measured() -> None:
    figures = json.loads((ROOT / "results/benchmarks/photos.json").read_text())["figures"]
    measured_errors = [figures["photographs"][name]["error"] for name in ("encoder", "pixels")]
    with_encoder, without = measured_errors
    assert f"{with_encoder:.1f}% error instead of {without:.1f}%" in ENCODER_GAIN
