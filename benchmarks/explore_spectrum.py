"""How many eigenvectors of a graph its clusters are read from, measured with labels.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_spectrum.py --json results/experiments/spectrum.json

The graphs of the default on the problems of elsewhere.py: samples as they are (none), in the metric
of neighbours after two rounds (metric), and pictures by their scattering coefficients (scattering).
k-means on the rows, at length 1, of as many eigenvectors as clusters (K), of more (K + 1, 1.25 K,
1.5 K, 2 K), and of 2 K and 3 K that are filtered (2K_p1): times 1 / (1 + r^p), with
r = (1 - w_j) / (1 - w_K). Five seeds; at most 1,500 samples of a problem. k-means has ten starts;
"..._improved": each of them improved by exchanges (dcfsc.spectral.exchange).

"summary": mean errors over the families of problems, each compared with K: the difference and its
standard error. ``--only "digits;..."`` also takes the sets of bench_defaults.py, which are left out
of it and of a run without it. ``--shard I/N`` takes every N-th problem, ``--merge`` puts files
together.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from elsewhere import family
from over_problems import default_ways, run

from dcfsc import spectral
from dcfsc.representations.stability import TOPK
from dcfsc.metrics import clustering_error
from dcfsc.spectral.kmeans import kmeans

SEEDS = range(5)
MORE = {"K": 1.0, "K_1": None, "K_125": 1.25, "K_150": 1.5, "K_200": 2.0}
FILTERS = {
    f"{count}K_p{str(power).replace('.', '')}": (count, power)
    for count, power in ((2, 0.5), (2, 1), (2, 2), (2, 4), (3, 0.5), (3, 1), (3, 2))
}

IMPROVED = ("K", "2K_p1")


def embeddings(A: sp.csr_array, K: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, vectors (N, k), and the samples that the eigenproblem has set aside."""
    whole = spectral.embed(A, min(3 * K, A.shape[0]), n_clusters=K, random_state=0)
    for name, times in MORE.items():
        count = K + 1 if times is None else math.ceil(times * K)
        yield name, whole.vectors[:, :count], whole.set_aside
    gaps = np.maximum(1.0 - whole.values, 0.0)
    ratio = gaps / max(float(gaps[K - 1]), 1e-9)
    for name, (times, power) in FILTERS.items():
        filtered = whole.vectors / (1.0 + ratio**power)
        yield name, filtered[:, : times * K], whole.set_aside


def errors(A: sp.csr_array, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    found = {}
    columns = list(embeddings(A, K))
    columns += [(f"{name}_improved", V, aside) for name, V, aside in columns if name in IMPROVED]
    for name, V, aside in columns:
        length = np.linalg.norm(V, axis=1, keepdims=True)
        rows = torch.from_numpy(V / np.where(length > 0, length, 1.0))[~aside]
        labels = np.zeros((len(SEEDS), len(y)), dtype=np.int64)
        for seed in SEEDS:
            random = np.random.RandomState(seed)
            inside = np.asarray(kmeans(rows, K, random, 10, exchange=name not in MORE | FILTERS))
            labels[seed] = np.bincount(inside).argmax()  # as the library: to the largest
            labels[seed, ~aside] = inside
        each = [clustering_error(y, row) for row in labels]
        found[name] = {"mean": statistics.fmean(each), "std": statistics.stdev(each)}
    return found


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    """Means over families, of all ways and of each."""
    found: dict[str, Any] = {}
    for way in ("all", "none", "metric", "scattering"):
        families: dict[str, list[list[float]]] = {}
        names: list[str] = []
        for name, record in figures.items():
            for of, row in record["ways"].items():
                if way in ("all", of):
                    names = list(row)
                    families.setdefault(family(name), []).append([row[n]["mean"] for n in names])
        if not families:
            continue
        table = np.array([np.mean(rows, axis=0) for rows in families.values()])
        off = table - table[:, :1]
        spread = off.std(axis=0, ddof=1) / len(off) ** 0.5 if len(off) > 1 else off[0] * np.nan
        found[way] = {"families": len(table)} | {
            name: {
                "error": table[:, i].mean(),
                "difference": off[:, i].mean(),
                "standard_error": spread[i],
            }
            for i, name in enumerate(names)
        }
    return found


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    ways = {way: errors(TOPK(operator, K), y) for way, operator in default_ways(X, K)}
    return {"N": len(X), "K": K, "ways": ways}


if __name__ == "__main__":
    run("eigenvectors", __doc__, measure, summary)
