"""Several ways to see the samples at once: the sum of their graphs, measured with labels.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_fusion.py --json results/experiments/fusion.json

The default takes one way to see the samples, the most stable. Here the graphs of several are added,
as they are ("+") or with every edge divided by the square roots of its ends' degrees ("*", so that
each way has the same say for every sample), on the problems of elsewhere.py, at most 1,500 samples
of each. For every way and every sum of ways:

- "errors": of five seeds, with 10 and with 40 starts of k-means;
- "parts": the agreement of partitions of random parts (dcfsc.representations.stability), with 10 and
  with 40 starts;
- "cut": the normalised cut of its partition in the graph of each single way, and "alike": the
  adjusted Rand index of its partition with that of each single way.

The file was made before starts of k-means were improved by exchanges, which a new run has.

"summary": for each rule, the mean error over families and seeds, and by how much it differs from
the first rule's, with its standard error over families.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from earlier import graph_of_part
from elsewhere import family
from explore_judges import neighbours
from over_problems import default_ways, run

from dcfsc import metrics, spectral
from dcfsc.representations.stability import (
    ASSIGN,
    PARTS,
    SHARE,
    TOPK,
    enough_samples,
)

SEEDS = range(5)
STARTS = (10, 40)


def sums(names: list[str]) -> list[tuple[str, list[str], bool]]:
    """Name, single ways in it, whether these are normalised; the single ways come first."""
    found = [(name, [name], False) for name in names]
    for count in range(2, len(names) + 1):
        for some in combinations(names, count):
            found += [("+".join(some), list(some), False), ("*".join(some), list(some), True)]
    return found


def normalised(A: sp.csr_array) -> sp.csr_array:
    degree = np.asarray(A.sum(axis=1)).reshape(-1)
    scale = sp.diags_array(1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)))
    return sp.csr_array(scale @ A @ scale)


def add(graphs: list[sp.csr_array], normal: bool) -> sp.csr_array:
    parts = [normalised(A) for A in graphs] if normal else graphs
    return sp.csr_array(sum(parts[1:], start=parts[0]))


def stability(lists: list[list[Any]], normal: bool, n: int, K: int) -> dict[str, float]:
    random = np.random.RandomState(0)
    partitions: dict[int, list[np.ndarray]] = {starts: [] for starts in STARTS}
    for _ in range(PARTS):
        part = np.sort(random.permutation(n)[: int(SHARE * n)])
        A = add([sum(graph_of_part(*found, part) for found in one) for one in lists], normal)
        embedding = spectral.embed(A, 2 * K, n_clusters=K, random_state=0)
        for starts in STARTS:
            labels = np.full(n, -1)
            labels[part] = spectral.assign(
                embedding, K, method=ASSIGN, random_state=0, n_init=starts
            )
            partitions[starts].append(labels)
    found = {}
    for starts, of_parts in partitions.items():
        pairs = [(a, b, (a >= 0) & (b >= 0)) for a, b in combinations(of_parts, 2)]
        found[str(starts)] = float(np.mean([metrics.ari(a[i], b[i]) for a, b, i in pairs]))
    return found


def normalised_cut(A: sp.csr_array, labels: np.ndarray) -> float:
    """The share of each cluster's edges that leave it, its mean over the clusters."""
    indicator = np.eye(labels.max() + 1)[labels]
    degrees = np.asarray(A.sum(axis=1)).reshape(-1)
    inside = (indicator * (A @ indicator)).sum(axis=0)
    return float(np.mean(1.0 - inside / np.maximum(degrees @ indicator, 1e-300)))


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    operators = dict(default_ways(X, K))
    graphs = {name: TOPK(operator, K) for name, operator in operators.items()}
    lists = {name: neighbours(operator, signed=True) for name, operator in operators.items()}
    single: dict[str, np.ndarray] = {}
    found: dict[str, Any] = {}
    for name, some, normal in sums(list(graphs)):
        A = add([graphs[way] for way in some], normal)
        embedding = spectral.embed(A, min(2 * K, len(X)), n_clusters=K, random_state=0)
        record: dict[str, Any] = {"errors": {}}
        for starts in STARTS:
            partitions = [
                spectral.assign(embedding, K, method=ASSIGN, random_state=seed, n_init=starts)
                for seed in SEEDS
            ]
            record["errors"][str(starts)] = [metrics.clustering_error(y, p) for p in partitions]
        if len(some) == 1:
            single[name] = partitions[0]
        record["alike"] = {}
        record["labels"] = partitions[0]
        if enough_samples(len(X), K):
            record["parts"] = stability([lists[way] for way in some], normal, len(X), K)
        found[name] = record
    for record in found.values():
        labels = record.pop("labels")
        record["alike"] = {name: metrics.ari(labels, other) for name, other in single.items()}
        record["cut"] = {name: normalised_cut(A, labels) for name, A in graphs.items()}
    return found


def most_stable(record: dict[str, Any], ways: list[str], starts: str) -> str:
    ways = [way for way in ways if way in record]
    if any("parts" not in record[way] for way in ways):
        return "none"
    return max(ways, key=lambda way: record[way]["parts"][starts])


def rules(record: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Name of a rule -> what it takes for this problem, with how many starts."""
    single = [way for way in record if "+" not in way and "*" not in way]
    pairs = {sign: [way for way in record if sign in way] for sign in "+*"}
    whole = {sign: sign.join(single) for sign in "+*"}
    chosen: dict[str, tuple[str, str]] = {}
    for starts in map(str, STARTS):
        chosen[f"most stable, {starts}"] = most_stable(record, single, starts), starts
    for sign in "+*":
        for starts in map(str, STARTS):
            with_sums = [*single, *pairs[sign]]
            with_all = [*single, whole[sign]]
            one = whole[sign] if whole[sign] in record else "none"
            chosen[f"all {sign}, {starts}"] = one, starts
            chosen[f"most stable of all {sign}, {starts}"] = (
                most_stable(record, with_sums, starts),
                starts,
            )
            chosen[f"most stable or whole {sign}, {starts}"] = (
                most_stable(record, with_all, starts),
                starts,
            )
    return chosen


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    by_rule: dict[str, dict[str, list[float]]] = {}
    for name, record in figures.items():
        for rule, (way, starts) in rules(record).items():
            error = float(np.mean(record[way]["errors"][starts]))
            by_rule.setdefault(rule, {}).setdefault(family(name), []).append(error)
    means = {
        rule: np.array([np.mean(rows) for rows in families.values()])
        for rule, families in by_rule.items()
    }
    first = next(iter(means.values()))
    found = {}
    for rule, values in means.items():
        spread = np.std(values - first, ddof=1) if len(values) > 1 else 0.0
        found[rule] = {
            "error": float(values.mean()),
            "difference": float((values - first).mean()),
            "standard error": float(spread / np.sqrt(len(values))),
        }
    return found


if __name__ == "__main__":
    run("fusion", __doc__, measure, summary)
