"""The default on 38 benchmark problems: only the data and K are given, five seeds.

    export DCFSC_PROBLEMS=...
    python -m research.benchmarks.bench_problems --json problems.json
    python -m research.benchmarks.bench_problems --variants 5 --json variants.json

problems.py says what the problems are and how to fetch their files; problems without theirs are
left out. Beside the default, with the same seeds and on the same unit rows: k-means, spectral
clustering of the ten-nearest-neighbor graph, and "two-k", the closed form with tr H = 2 K, five
neighbors and squared weights (``--alone`` leaves these out).

``--variants N`` asks instead how well stability chooses the representation. Every problem is drawn
N times: a random seven tenths of its classes (all of them up to four) and of the samples of each,
at most 1,000. On each draw every candidate is clustered with three seeds. The summary gives the
mean error over families of problems for the choice, for every candidate taken always and for the
best each time; its difference from the choice; and how often it is the best. ``--only`` replaces
the rows of some problems in the file.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.preprocessing import normalize

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.metrics import clustering_error, nmi
from dcfsc.pipeline import Recipe
from dcfsc.representations import create

from .bench_defaults import representations
from .generated_problems import Samples
from .measure import finish_row, parser, timed
from .problems import PROBLEMS, family, part

PEERS = ("k-means", "neighbors", "two-k")
VARIANT_SEEDS, VARIANT_SAMPLES = range(3), 1000
MOST_SAMPLES = 1500  # of a problem, before variants are drawn
CANDIDATES = ("given", "metric-twice", "scattering")


def peers(X: np.ndarray, K: int, device: str) -> dict[str, Callable[[int], np.ndarray]]:
    """Labels by a seed, for each of the methods that stand beside the default."""
    Z = normalize(X.reshape(len(X), -1))

    def two_k(seed: int) -> np.ndarray:
        earlier = {"subspace_dim": 2, "affinity": TopK(k=5, power=2), "assign": "kmeans"}
        return clustered(X, K, seed, device, representation="given", **earlier).labels_

    def neighbors(seed: int) -> np.ndarray:
        near: Any = {"affinity": "nearest_neighbors", "n_neighbors": min(10, len(Z))}
        return SpectralClustering(K, **near, random_state=seed).fit_predict(Z)

    def k_means(seed: int) -> np.ndarray:
        return KMeans(K, n_init=10, random_state=seed).fit_predict(Z)

    return dict(zip(PEERS, (k_means, neighbors, two_k), strict=True))


def scores(y: np.ndarray, partitions: list[np.ndarray]) -> dict[str, Any]:
    errors = [clustering_error(y, labels) for labels in partitions]
    return {
        "mean": statistics.fmean(errors),
        "std": statistics.stdev(errors) if len(errors) > 1 else 0.0,
        "errors": errors,
        "nmi": statistics.fmean(nmi(y, labels) for labels in partitions),
    }


def clustered(X: np.ndarray, K: int, seed: int, device: str, **options: Any) -> Any:
    return ClosedFormSubspaceClustering(K, device=device, random_state=seed, **options).fit(X)


def measure(X: np.ndarray, y: np.ndarray, args: Any) -> dict[str, Any]:
    """The default, and its peers, on a whole problem."""
    K, seeds = int(y.max()) + 1, range(args.seeds)
    seconds, model = timed(lambda: clustered(X, K, seeds[0], args.device))
    # The choice of the representation does not depend on the seed, so it is made once.
    again = {"representation": model.representation_}
    labels = [clustered(X, K, seed, args.device, **again).labels_ for seed in seeds[1:]]
    record = {"N": len(X), "shape": list(X.shape[1:]), "K": K} | scores(y, [model.labels_, *labels])
    record |= {"representation": model.representation_, "stability": model.stability_}
    record["seconds"] = seconds
    for name, cluster in ({} if args.alone else peers(X, K, args.device)).items():
        took, first = timed(partial(cluster, seeds[0]))
        labels = [first] + [cluster(seed) for seed in seeds[1:]]
        record[name] = scores(y, labels) | {"seconds": took}
    return record


def compared_with_peers(figures: dict[str, Any]) -> dict[str, Any]:
    """How often the default is better than each of the peers, and the mean errors."""
    rows = list(figures.values())
    default = [row["mean"] for row in rows]
    summary: dict[str, Any] = {"problems": len(rows), "default": {"mean": np.mean(default)}}
    for peer in PEERS if all(name in row for row in rows for name in PEERS) else ():
        errors = [row[peer]["mean"] for row in rows]
        pairs = list(zip(default, errors, strict=True))
        summary[peer] = {
            "mean": statistics.fmean(errors),
            "default_better": sum(ours < theirs for ours, theirs in pairs),
            "default_worse": sum(ours > theirs for ours, theirs in pairs),
        }
    return summary


# How well stability chooses the representation ----------------------------------------------


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
    kept = np.sort(np.concatenate(rows))
    return X[kept], np.unique(y[kept], return_inverse=True)[1]


def measure_choice(X: np.ndarray, y: np.ndarray, args: Any) -> dict[str, Any]:
    """The stability and the errors of every candidate, and which one is chosen."""
    K = int(y.max()) + 1
    model = clustered(X, K, 0, args.device)
    # Too few samples to compare partitions of parts: the default takes the data unchanged.
    stability = model.stability_ or {"given": 1.0}
    known = representations(X)
    taken = model.representation_
    # Images in which light does not vary are compared with no other candidate; here they are.
    considered = {c.name for c in create("auto", Recipe(X.shape[1:], K))} | set(stability)
    errors = {
        name: [
            clustering_error(y, clustered(X, K, s, args.device, representation=name).labels_)
            for s in VARIANT_SEEDS
        ]
        for name in dict.fromkeys((*CANDIDATES, taken))
        if name == taken or (name in known and (name in considered or not model.stability_))
    }
    return {"stability": stability, "errors": errors, "chosen": taken}


def measure_variants(X: np.ndarray, y: np.ndarray, args: Any) -> dict[str, Any]:
    X, y = part(X, y, MOST_SAMPLES)
    return {str(i): measure_choice(*variant(X, y, i), args) for i in range(args.variants)}


def summary_of_choices(figures: dict[str, Any]) -> dict[str, Any]:
    """Each rule's mean error over families, compared with the choice by stability."""
    rules = ("chosen", *CANDIDATES, "best")
    errors: dict[str, dict[str, list[float]]] = {rule: {} for rule in rules}
    right = dict.fromkeys(rules, 0)
    draws = {name: [v for k, v in row.items() if k.isdigit()] for name, row in figures.items()}
    for name, variants in draws.items():
        for record in variants:
            means = {key: statistics.fmean(e) for key, e in record["errors"].items()}
            best = min(means, key=means.__getitem__)
            for rule in rules:
                taken = {"chosen": record["chosen"], "best": best}.get(rule, rule)
                error = means.get(taken, means["given"])  # where there is no such candidate
                errors[rule].setdefault(family(name), []).append(error)
                right[rule] += error == means[best]
    of_rules = {rule: np.array([np.mean(e) for e in errors[rule].values()]) for rule in rules}
    summary: dict[str, Any] = {"variants": sum(map(len, draws.values()))}
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


def loaded(args: Any) -> Iterator[tuple[str, Samples]]:
    for name in args.only or PROBLEMS:
        try:
            yield name, PROBLEMS[name].load()
        except InputError as error:
            print(f"{name} is left out: {error}")


def main() -> None:
    options = parser(__doc__, device="auto")
    options.add_argument("--only", nargs="+", choices=list(PROBLEMS), metavar="PROBLEM")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--alone", action="store_true", help="without the other methods")
    options.add_argument("--variants", type=int, default=0, help="draws of every problem")
    args = options.parse_args()
    # A peer's graph may be in pieces, and is clustered all the same.
    warnings.filterwarnings("ignore", message="Graph is not fully connected")
    kind, run, summarize = "problems", measure, compared_with_peers
    if args.variants:
        kind, run, summarize = "variants", measure_variants, summary_of_choices
    for name, (X, y) in loaded(args):
        rows = finish_row(args, kind, name, run(X, y, args) | {"source": PROBLEMS[name].source})
        known = {name: rows[name] for name in PROBLEMS if name in rows}
        finish_row(args, kind, "summary", summarize(known))


if __name__ == "__main__":
    main()
