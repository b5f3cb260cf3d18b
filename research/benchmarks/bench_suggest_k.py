"""How often suggest_k is right: classes drawn from image sets, windows of faces, synthetic unions.

    DCFSC_DATA=... python -m research.benchmarks.bench_suggest_k \
        --json results/benchmarks/suggest_k.json

Every problem is clustered into nothing: only the suggestion is compared with the number of classes.
Beside it stands the textbook rule, the K of largest eigengap in the graph made for that K. The rule
was chosen on other data, of which nothing is here.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from dcfsc import suggest_k
from dcfsc.cli.output import clarity
from dcfsc.io import synthetic
from research import data as datasets

from .measure import finish, parser, timed

Problem = tuple[str, np.ndarray, int, dict[str, Any]]
DRAW = 1


def classes_of(name: str, counts: dict[int, int]) -> Iterator[Problem]:
    """Random classes of a set: how many classes, and how often."""
    data = datasets.load(name)
    assert data.y is not None
    assert data.n_classes is not None
    rng = np.random.default_rng(DRAW)
    for k, times in counts.items():
        for _ in range(times):
            chosen = rng.choice(data.n_classes, k, replace=False)
            yield name, data.X[np.isin(data.y, chosen)], k, {}


def windows(options: dict[str, Any], name: str, sizes: dict[int, tuple[int, ...]]) -> Iterator[Any]:
    """Consecutive people of Extended Yale B, from several starts."""
    data = datasets.load("eyaleb")
    assert data.y is not None
    for k, starts in sizes.items():
        for start in starts:
            yield name, data.X[(data.y >= start) & (data.y < start + k)], k, options


def unions() -> Iterator[Problem]:
    for noise in (0.0, 0.1, 0.3, 0.6):
        for k in (3, 6, 10, 20):
            data = synthetic(30 * k, k, 4, 50, noise=noise, random_state=100 + k)
            yield "synthetic", data.X, k, {}


def problems() -> Iterator[Problem]:
    yield from classes_of("digits", {10: 1, 3: 3, 5: 3, 7: 3})
    yield from classes_of("orl", {40: 1, 10: 3, 20: 3})
    yield from windows({}, "eyaleb", {5: (4, 14, 24), 10: (4, 14, 24), 20: (4,)})
    yield from classes_of("coil100", {5: 3, 10: 3})
    yield from unions()
    deep = {"method": "dcfsc", "weights": "dsc_eyaleb"}
    yield from windows(deep, "eyaleb latents", {5: (4, 14, 24), 10: (4, 14, 24)})


def look(X: np.ndarray, k: int, options: dict[str, Any]) -> dict[str, Any]:
    seconds, found = timed(lambda: suggest_k(X, random_state=0, **options))
    return {
        "K": k,
        "N": len(X),
        "suggested": found.k,
        "rank": [c.k for c in found].index(k) + 1,
        "clear": clarity(found.to_dict()["candidates"]).startswith("clear"),
        "representation": found.representation,
        "agreement": found[0].agreement,
        "largest_gap": max(found, key=lambda c: c.gap).k,
        "seconds": round(seconds, 2),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    clear = [row for row in rows if row["clear"]]
    return {
        "problems": len(rows),
        "right": sum(row["rank"] == 1 for row in rows),
        "among_five": sum(row["rank"] <= 5 for row in rows),
        "within_a_tenth": sum(abs(row["suggested"] - row["K"]) <= row["K"] / 10 for row in rows),
        "clear": len(clear),
        "clear_and_right": sum(row["rank"] == 1 for row in clear),
        "largest_gap_right": sum(row["largest_gap"] == row["K"] for row in rows),
        "most_seconds": max(row["seconds"] for row in rows),
        "rows": rows,
    }


def main() -> None:
    args = parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    rows = defaultdict(list)
    for family, X, k, options in problems():
        rows[family].append(look(X, k, options))
        print(family, rows[family][-1], flush=True)
    figures = {family: summary(found) for family, found in rows.items()}
    images = [row for name, found in rows.items() if name != "synthetic" for row in found]
    figures["all images"] = {**summary(images), "rows": []}
    finish(args, "suggest_k", figures)


if __name__ == "__main__":
    main()
