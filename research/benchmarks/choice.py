"""How well the default chooses: a representation on 38 problems, and the number of clusters."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

import dcfsc
from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.cli.output import clarity
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error, nmi
from dcfsc.pipeline import Recipe
from dcfsc.representations import create
from research.data import weights_path

from . import samples
from .generated_problems import Samples
from .measure import Figures, Rows, benchmark, timed
from .peers import scikit_learn
from .problems import PROBLEMS, SOURCES, family, part
from .quality import representations

PEERS = ("k-means", "neighbors", "two-k")
VARIANT_SEEDS, VARIANT_SAMPLES = range(3), 1000
MOST_SAMPLES = 1500  # of a problem, before variants are drawn
CANDIDATES = (  # that "auto" compares
    "scattering",
    "counts",
    "ranks",
    "joined",
    "given",
    "cosine",
    "columns",
    "metric-twice",
)


@benchmark
def problems(only: tuple[str, ...] = tuple(PROBLEMS), device: str = "auto", seeds: int = 5) -> Rows:
    """The default on 38 benchmark problems: only the data and K are given.

    problems.py says what the problems are and how to fetch their files; problems without theirs are
    left out. Beside the default, with the same seeds and on the same unit rows: k-means, spectral
    clustering of the ten-nearest-neighbor graph, and "two-k", the closed form with tr H = 2 K, five
    neighbors and squared weights.
    """
    # A peer's graph may be in pieces, and is clustered all the same.
    warnings.filterwarnings("ignore", message="Graph is not fully connected")
    rows: Figures = {}
    for name, (X, y) in samples.load(only, PROBLEMS):
        K = int(y.max()) + 1
        seconds, model = timed(lambda: clustered(X, K, 0, device))  # noqa: B023
        # The choice of the representation does not depend on the seed, so it is made once.
        again = {"representation": model.representation_}
        labels = [clustered(X, K, seed, device, **again).labels_ for seed in range(1, seeds)]
        row = {"N": len(X), "shape": list(X.shape[1:]), "K": K}
        row |= scores(y, [model.labels_, *labels])
        row |= {"representation": model.representation_, "stability": model.stability_}
        row["seconds"] = seconds
        for peer, cluster in peers(X, K, device).items():
            took, first = timed(partial(cluster, 0))
            labels = [first, *(cluster(seed) for seed in range(1, seeds))]
            row[peer] = scores(y, labels) | {"seconds": took}
        rows[name] = row | {"source": SOURCES[name]}
        yield name, rows[name]
    if set(only) == set(PROBLEMS):
        yield "summary", compared_with_peers(list(rows.values()))


def clustered(X: np.ndarray, K: int, seed: int, device: str, **options: Any) -> Any:
    return ClosedFormSubspaceClustering(K, device=device, random_state=seed, **options).fit(X)


def peers(X: np.ndarray, K: int, device: str) -> dict[str, Callable[[int], np.ndarray]]:
    """Labels by a seed, for each of the methods that stand beside the default."""
    Z = normalize(X.reshape(len(X), -1))

    def two_k(seed: int) -> np.ndarray:
        earlier = {"subspace_dim": 2, "affinity": TopK(k=5, power=2), "assign": "kmeans"}
        return clustered(X, K, seed, device, representation="given", **earlier).labels_

    near: Any = {"affinity": "nearest_neighbors", "n_neighbors": min(10, len(Z))}
    neighbors = partial(scikit_learn("SpectralClustering", **near), Z, K)
    k_means = partial(scikit_learn("KMeans", n_init=10), Z, K)
    return dict(zip(PEERS, (k_means, neighbors, two_k), strict=True))


def scores(y: np.ndarray, partitions: list[np.ndarray]) -> Figures:
    errors = [clustering_error(y, labels) for labels in partitions]
    return {
        "mean": statistics.fmean(errors),
        "std": statistics.stdev(errors) if len(errors) > 1 else 0.0,
        "errors": errors,
        "nmi": statistics.fmean(nmi(y, labels) for labels in partitions),
    }


def compared_with_peers(rows: list[Figures]) -> Figures:
    """How often the default is better than each of the peers, and the mean errors."""
    default = [row["mean"] for row in rows]
    summary: Figures = {"problems": len(rows), "default": {"mean": statistics.fmean(default)}}
    for peer in PEERS:
        errors = [row[peer]["mean"] for row in rows]
        pairs = list(zip(default, errors, strict=True))
        summary[peer] = {
            "mean": statistics.fmean(errors),
            "default_better": sum(ours < theirs for ours, theirs in pairs),
            "default_worse": sum(ours > theirs for ours, theirs in pairs),
        }
    return summary


# How well stability chooses the representation ----------------------------------------------


@benchmark
def variants(only: tuple[str, ...] = tuple(PROBLEMS), device: str = "auto", draws: int = 5) -> Rows:
    """How well stability chooses the representation.

    Every problem is drawn several times: a random seven tenths of its classes (all of them up to
    four) and of the samples of each, at most 1,000. On each draw every candidate is clustered with
    three seeds. The summary gives the mean error over families of problems for the choice, for
    every candidate taken always and for the best each time; its difference from the choice; and how
    often it is the best.
    """
    rows: dict[str, list[Figures]] = {}
    for name, (X, y) in samples.load(only, PROBLEMS):
        X, y = part(X, y, MOST_SAMPLES)
        rows[name] = [measure_choice(*variant(X, y, seed), device) for seed in range(draws)]
        by_draw = {str(draw): row for draw, row in enumerate(rows[name])}
        yield name, by_draw | {"source": SOURCES[name]}
    if set(only) == set(PROBLEMS):
        yield "summary", summary_of_choices(rows)


def variant(X: np.ndarray, y: np.ndarray, seed: int) -> Samples:
    """Some of a problem's classes, and some of the samples of each."""
    random = np.random.RandomState(seed)
    K = int(y.max()) + 1
    count = K if K <= 4 else max(4, round(0.7 * K))
    most = VARIANT_SAMPLES // count
    rows = []
    for k in random.permutation(K)[:count]:
        members = random.permutation(np.flatnonzero(y == k))
        rows.append(members[: min(most, max(2, round(0.7 * len(members))))])
    drawn = np.sort(np.concatenate(rows))
    return X[drawn], np.unique(y[drawn], return_inverse=True)[1]


def measure_choice(X: np.ndarray, y: np.ndarray, device: str) -> Figures:
    """The stability and the errors of every candidate, and which one is chosen."""
    K = int(y.max()) + 1
    model = clustered(X, K, 0, device)
    # Too few samples to compare partitions of parts: the default takes the data unchanged.
    stability = model.stability_ or {"given": 1.0}
    known = representations(X)
    taken = model.representation_
    # Images in which light does not vary are compared with no other candidate; here they are.
    considered = {c.name for c in create("auto", Recipe(X.shape[1:], K))} | set(stability)
    errors = {
        name: [
            clustering_error(y, clustered(X, K, s, device, representation=name).labels_)
            for s in VARIANT_SEEDS
        ]
        for name in dict.fromkeys((*CANDIDATES, taken))
        if name in stability or name == taken or (name in known and name in considered)
    }
    return {"stability": stability, "errors": errors, "chosen": taken}


def summary_of_choices(draws: dict[str, list[Figures]]) -> Figures:
    """Each rule's mean error over families, compared with the choice by stability."""
    rules = ("chosen", *CANDIDATES, "best")
    errors: dict[str, dict[str, list[float]]] = {rule: {} for rule in rules}
    right = dict.fromkeys(rules, 0)
    for name, records in draws.items():
        for record in records:
            means = {key: statistics.fmean(e) for key, e in record["errors"].items()}
            best = min(means, key=means.__getitem__)
            for rule in rules:
                taken = {"chosen": record["chosen"], "best": best}.get(rule, rule)
                error = means.get(taken, means["given"])  # where there is no such candidate
                errors[rule].setdefault(family(name), []).append(error)
                right[rule] += error == means[best]
    of_rules = {rule: np.array([np.mean(e) for e in errors[rule].values()]) for rule in rules}
    summary: Figures = {"variants": sum(map(len, draws.values()))}
    for rule, values in of_rules.items():
        apart = values - of_rules["chosen"]
        spread = np.std(apart, ddof=1) if len(values) > 1 else 0.0
        summary[rule] = {
            "error": float(values.mean()),
            "difference": float(apart.mean()),
            "standard error": float(spread / np.sqrt(len(values))),
            "right": right[rule],
        }
    return summary


# The number of clusters ---------------------------------------------------------------------

DRAWN = {
    "digits": {10: 1, 3: 3, 5: 3, 7: 3},
    "orl": {40: 1, 10: 3, 20: 3},
    "coil100": {5: 3, 10: 3},
}
WINDOWS = {5: (4, 14, 24), 10: (4, 14, 24), 20: (4,)}


@benchmark
def suggest_k() -> Figures:
    """How often suggest_k is right: random classes of images, windows of faces, synthetic unions.

    Only the suggestion is compared with the number of classes. Beside it stands the textbook rule,
    the K of largest eigengap in the graph made for that K. The rule was chosen on other data, of
    which nothing is here.
    """
    warnings.simplefilter("ignore")
    deep: Figures = {"method": "dcfsc", "weights": weights_path("dsc_eyaleb")}
    rows = {name: [suggested(*p) for p in classes_of(name, DRAWN[name])] for name in DRAWN}
    rows["eyaleb"] = [suggested(*p) for p in people(WINDOWS)]
    rows["synthetic"] = [suggested(*p) for p in unions()]
    few = {k: starts for k, starts in WINDOWS.items() if k < 20}
    rows["eyaleb latents"] = [suggested(*p, **deep) for p in people(few)]
    figures = {name: summary_of_suggestions(found) for name, found in rows.items()}
    images = [row for name, found in rows.items() if name != "synthetic" for row in found]
    figures["all images"] = {**summary_of_suggestions(images), "rows": []}
    return figures


def classes_of(name: str, numbers: dict[int, int]) -> Iterator[tuple[np.ndarray, int]]:
    """Random classes of a set: how many classes, and how often."""
    X, y = samples.SETS[name]()
    rng = np.random.default_rng(1)
    for k, times in numbers.items():
        for _ in range(times):
            chosen = rng.choice(int(y.max()) + 1, k, replace=False)
            yield X[np.isin(y, chosen)], k


def people(sizes: dict[int, tuple[int, ...]]) -> Iterator[tuple[np.ndarray, int]]:
    """Consecutive people of Extended Yale B, from several starts."""
    for k, starts in sizes.items():
        for start in starts:
            yield samples.classes("eyaleb", start, k)[0], k


def unions() -> Iterator[tuple[np.ndarray, int]]:
    for noise in (0.0, 0.1, 0.3, 0.6):
        for k in (3, 6, 10, 20):
            yield synthetic(30 * k, k, 4, 50, noise=noise, random_state=100 + k).X, k


def suggested(X: np.ndarray, k: int, **options: Any) -> Figures:
    seconds, suggestion = timed(lambda: dcfsc.suggest_k(X, random_state=0, **options))
    return {
        "K": k,
        "N": len(X),
        "suggested": suggestion.k,
        "rank": [c.k for c in suggestion].index(k) + 1,
        "clear": clarity(suggestion.to_dict()["candidates"]).startswith("clear"),
        "representation": suggestion.representation,
        "agreement": suggestion[0].agreement,
        "largest_gap": max(suggestion, key=lambda c: c.gap).k,
        "seconds": round(seconds, 2),
    }


def summary_of_suggestions(rows: list[Figures]) -> Figures:
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
