"""What tells the better way to see the samples without labels, measured with labels.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_judges.py --json results/experiments/judges.json

The default takes the way to see the samples whose partitions of random parts are the most stable.
Here several forms of that are compared on the problems of elsewhere.py. Whole, at most 1,500
samples of each, they leave it to one or two of them which form is better. So each is turned into
five more: a random seven tenths of the classes (all of them up to four) and of the samples of each,
at most 1,000. Six random parts of four fifths are clustered,

- "kept": in the metric and by the scattering directions that were found from all samples, the
  neighbours by the size of their coefficients;
- "signed": the same, neighbours of negative sign left out where the default leaves them out;
- "anew": by ways that are found from the part alone, as a user who had only it would find them,

and compared with each other, or ("...-whole") with the partition of all samples. "errors" are of
three seeds. "summary", for the five and for the whole problems: the mean error over families of
what each judge takes, by how much it differs from the first's, with the standard error over
families, how often it takes the best, and in "best" the error of the best way each time.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import torch
from earlier import SPARE, graph_of_part
from elsewhere import family
from over_problems import default_ways, run

from dcfsc import metrics, spectral
from dcfsc.affinity.base import ways_of
from dcfsc.representations.stability import (
    ASSIGN,
    PARTS,
    SHARE,
    TOPK,
    enough_samples,
)

SEEDS = range(3)
STARTS = 3  # of k-means for a part
VARIANTS = 5
WHOLE = "whole"
MOST_SAMPLES = 1000
JUDGES = ("kept", "signed", "anew")
Lists = list[tuple[np.ndarray, np.ndarray]]


def variant(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    K = int(y.max()) + 1
    count = K if K <= 4 else max(4, round(0.7 * K))
    classes = random.permutation(K)[:count]
    each = MOST_SAMPLES // count
    chosen = []
    for k in classes:
        members = random.permutation(np.flatnonzero(y == k))
        chosen.append(members[: min(each, max(2, round(0.7 * len(members))))])
    rows = np.sort(np.concatenate(chosen))
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def neighbours(operator: Any, signed: bool) -> Lists:
    """Weights and columns of every sample's nearest."""
    found = []
    for way in ways_of(operator):
        if signed:
            values, columns = TOPK._neighbours(way, SPARE * TOPK.k)
        else:
            values, columns = way.topk_cosine(SPARE * TOPK.k)
        weights = values.to(torch.float64).abs().clamp_max(1.0).numpy() ** TOPK.power
        found.append((weights, columns.numpy()))
    return found


def partition(A: Any, K: int) -> np.ndarray:
    return spectral.cluster(A, K, assign=ASSIGN, random_state=0, n_init=STARTS).labels


def scores(whole: np.ndarray, of_parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """The mean agreement of partitions of parts with each other, and with that of all samples."""
    full = []
    for part, labels in of_parts:
        full.append(np.full(len(whole), -1))
        full[-1][part] = labels
    pairs = [(a, b, (a >= 0) & (b >= 0)) for a, b in combinations(full, 2)]
    return (
        float(np.mean([metrics.ari(a[i], b[i]) for a, b, i in pairs])),
        float(np.mean([metrics.ari(whole[part], labels) for part, labels in of_parts])),
    )


def judged(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    random = np.random.RandomState(0)
    parts = [np.sort(random.permutation(len(X))[: int(SHARE * len(X))]) for _ in range(PARTS)]
    found: dict[str, Any] = {}
    of_parts: dict[tuple[str, str], list[Any]] = {}
    whole = {}
    enough = enough_samples(len(X), K)
    for name, operator in default_ways(X, K):
        A = TOPK(operator, K)
        embedding = spectral.embed(A, min(2 * K, len(X)), n_clusters=K, random_state=0)
        partitions = [
            spectral.assign(embedding, K, method=ASSIGN, random_state=seed) for seed in SEEDS
        ]
        found[name] = {"errors": [metrics.clustering_error(y, labels) for labels in partitions]}
        whole[name] = partitions[0]
        for judge in ("kept", "signed") if enough else ():
            lists = neighbours(operator, judge == "signed")
            of_parts[name, judge] = [
                (part, partition(sum(graph_of_part(*one, part) for one in lists), K))
                for part in parts
            ]
    for part in parts if enough else ():
        for name, operator in default_ways(X[part], K):
            labels = partition(TOPK(operator, K), K)
            of_parts.setdefault((name, "anew"), []).append((part, labels))
    for (name, judge), rows in of_parts.items():
        found[name][judge], found[name][f"{judge}-whole"] = scores(whole[name], rows)
    return found


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    found = {str(seed): judged(*variant(X, y, seed)) for seed in range(VARIANTS)}
    return {**found, WHOLE: judged(X, y)}


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    five, whole = {}, {}
    for name, variants in figures.items():
        five[name] = {key: record for key, record in variants.items() if key != WHOLE}
        whole[name] = {WHOLE: variants[WHOLE]} if WHOLE in variants else {}
    return {"five": compared(five), "whole": compared(whole)}


def compared(figures: dict[str, Any]) -> dict[str, Any]:
    judges = [*JUDGES, *(f"{judge}-whole" for judge in JUDGES), "best"]
    errors: dict[str, dict[str, list[float]]] = {judge: {} for judge in judges}
    right = dict.fromkeys(judges, 0)
    for name, variants in figures.items():
        for record in variants.values():
            means = {way: float(np.mean(row["errors"])) for way, row in record.items()}
            for judge in judges:
                chosen = "none"
                if judge == "best":
                    chosen = min(means, key=means.__getitem__)
                elif all(judge in row for row in record.values()):
                    chosen = max(record, key=lambda way: record[way][judge])
                errors[judge].setdefault(family(name), []).append(means[chosen])
                right[judge] += means[chosen] == min(means.values())
    by_family = {
        judge: np.array([np.mean(rows) for rows in families.values()])
        for judge, families in errors.items()
    }
    found = {}
    for judge, values in by_family.items():
        apart = values - by_family["kept"]
        spread = np.std(apart, ddof=1) if len(values) > 1 else 0.0
        found[judge] = {
            "error": float(values.mean()),
            "difference": float(apart.mean()),
            "standard error": float(spread / np.sqrt(len(values))),
            "right": right[judge],
        }
    return found


if __name__ == "__main__":
    run("judges", __doc__, measure, summary)
