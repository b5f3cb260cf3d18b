"""How low k-means gets: more starts, or starts improved by exchanges. No labels are used.

    export DCFSC_DATA=... DCFSC_ELSEWHERE=...
    python benchmarks/explore_exchange.py --json results/experiments/exchange.json

On the embeddings that the assignment "filtered" looks at, of every way to see the samples, for the
problems of elsewhere.py (at most 1,500 samples of each) and ORL and Extended Yale B: by how many
per cent the sum of squares is above the least that any of these found, and the seconds it took,
means over five seeds.

- "ten", "forty": the best of so many starts (scikit-learn's, greedy k-means++);
- "ten then": the best of ten, improved by exchanges (dcfsc.spectral.exchange);
- "three each", "ten each": the best of so many starts, each improved.

"summary": the mean excess and the seconds of one call over all embeddings, and the share of the
calls that ended within a ten-thousandth of the least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import elsewhere
import numpy as np
from over_problems import default_ways, run
from sklearn.cluster import KMeans

from dcfsc import spectral
from dcfsc.representations.stability import TOPK
from dcfsc.spectral.assignment import filtered_rows
from dcfsc.spectral.exchange import Partition, improve

SEEDS = range(5)
OTHERS = ("orl", "eyaleb")
Search = Callable[[np.ndarray, int, np.random.RandomState], Partition]


def starts(number: int) -> Search:
    def search(V: np.ndarray, K: int, random: np.random.RandomState) -> Partition:
        return Partition.of(KMeans(K, n_init=number, random_state=random).fit(V))

    return search


def then_improved(number: int) -> Search:
    first = starts(number)
    return lambda V, K, random: improve(V, first(V, K, random))


def each_improved(number: int) -> Search:
    one = then_improved(1)
    return lambda V, K, random: min(
        (one(V, K, random) for _ in range(number)), key=lambda found: found.inertia
    )


SEARCHES: dict[str, Search] = {
    "ten": starts(10),
    "forty": starts(40),
    "ten then": then_improved(10),
    "three each": each_improved(3),
    "ten each": each_improved(10),
}


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    found: dict[str, Any] = {}
    for way, operator in default_ways(X, K):
        components = min(2 * K, len(X))
        embedding = spectral.embed(TOPK(operator, K), components, n_clusters=K, random_state=0)
        V = filtered_rows(embedding, K)
        record = found[way] = {}
        for name, search in SEARCHES.items():
            start = time.perf_counter()
            sums = [search(V, K, np.random.RandomState(seed)).inertia for seed in SEEDS]
            record[name] = {"sums": sums, "seconds": (time.perf_counter() - start) / len(sums)}
        least = max(min(min(row["sums"]) for row in record.values()), np.finfo(float).tiny)
        for row in record.values():
            sums = np.array(row.pop("sums"))
            row["excess"] = float(100.0 * (sums / least - 1.0).mean())
            row["least"] = float((sums <= least * (1.0 + 1e-4)).mean())
    return found


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    rows = [way for record in figures.values() for way in record.values()]
    return {
        name: {key: float(np.mean([row[name][key] for row in rows])) for key in rows[0][name]}
        for name in SEARCHES
    }


if __name__ == "__main__":
    run("exchange", __doc__, measure, summary, [*elsewhere.PROBLEMS, *OTHERS])
