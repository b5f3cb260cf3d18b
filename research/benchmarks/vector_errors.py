"""Errors on the vector problems, and the rule by which a problem is one of them."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import AgglomerativeClustering
from sklearn.preprocessing import normalize, scale

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError, unknown_name
from dcfsc.metrics import clustering_error

from . import vectors as collection
from .measure import Figures, Rows, benchmark
from .peers import scikit_learn
from .vectors import Problem, draw, problems

PEERS = ("k-means", "spectral")
METHODS = ("default", *PEERS)
ADMITTED = 0.85  # of the error of one cluster of everything, at most, for one simple method
JUDGED = 1500  # rows at most
RESAMPLES = 10_000
POINT = 1.0  # families that differ by less are equal


@benchmark
def vectors(
    half: str = "first",
    draws: int = 5,
    jobs: int = 1,
    methods: tuple[str, ...] = METHODS,
    families: tuple[str, ...] = (),
    device: str = "auto",
    cache: str = "",
    write_cache: str = "",
    against: str = "",
) -> Rows:
    """The default beside k-means and spectral clustering on the vector problems of a half.

    vectors.toml lists them. A draw is at most 3,000 random rows of a problem. Only the data and K
    are given; the two of scikit-learn see rows of unit length. Problems come from their packages,
    or from the folder ``--cache``, which ``--write-cache`` writes without measuring. A family has
    one vote. ``--against`` names a results file of another checkout, with which the default is
    compared, family by family. The second half is for one run, after rules and constants are fixed.
    """
    if write_cache:
        collection.write_cache(half, write_cache)
        return
    for name in methods:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    chosen = [p for p in problems(half, cache or None) if not families or p.family in families]
    tasks = (delayed(measured)(p, seed, methods, device) for p in chosen for seed in range(draws))
    results = iter(Parallel(n_jobs=jobs, return_as="generator")(tasks))
    rows: dict[str, Figures] = {}
    for problem in chosen:
        n, d = problem.X.shape
        row: Figures = {"family": problem.family, "N": n, "d": d, "K": problem.k}
        row["draws"] = [next(results) for _ in range(draws)]
        rows[f"{problem.family}/{problem.name}"] = row
        yield f"{problem.family}/{problem.name}", row
    yield "summary", summary(rows, json.loads(Path(against).read_text()) if against else None)


def measured(problem: Problem, seed: int, methods: Iterable[str], device: str = "auto") -> Figures:
    """Error and seconds of every method on a draw."""
    X, y = draw(problem, seed)
    if X.dtype == np.float16:
        X = X.astype(np.float32)
    K = int(y.max()) + 1
    figures: Figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in methods:
            begin = time.perf_counter()
            labels = labels_of(name, X, K, seed, device)
            seconds = round(time.perf_counter() - begin, 3)
            figures[name] = {"error": clustering_error(y, labels), "seconds": seconds}
    return figures


def labels_of(method: str, X: np.ndarray, K: int, seed: int, device: str) -> np.ndarray:
    if method == "default":
        return ClosedFormSubspaceClustering(K, random_state=seed, device=device).fit_predict(X)
    if method == "k-means":
        return scikit_learn("KMeans", n_init=10)(normalize(X), K, seed)
    return _spectral(normalize(X), K, seed)


def _spectral(Z: np.ndarray, K: int, seed: int) -> np.ndarray:
    near: Any = {"affinity": "nearest_neighbors", "n_neighbors": min(10, len(Z))}
    return scikit_learn("SpectralClustering", **near)(Z, K, seed)


def by_family(rows: Mapping[str, Figures], method: str) -> dict[str, float]:
    """Mean error of each family, in which every problem has the same weight."""
    errors: dict[str, list[float]] = {}
    for row in rows.values():
        if all(method in figures for figures in row.get("draws", [{}])):
            mean = np.mean([figures[method]["error"] for figures in row["draws"]])
            errors.setdefault(row["family"], []).append(float(mean))
    return {family: float(np.mean(values)) for family, values in errors.items()}


def summary(rows: Mapping[str, Figures], other: Mapping[str, Any] | None = None) -> Figures:
    """Mean errors over families, the gap to the better peer, and the other record's default."""
    of_methods = {method: by_family(rows, method) for method in METHODS}
    of_methods = {method: errors for method, errors in of_methods.items() if errors}
    names = sorted({row["family"] for row in rows.values()})
    figures: Figures = {
        "families": {f: {m: round(of_methods[m][f], 2) for m in of_methods} for f in names},
        "mean": {m: float(np.mean(list(errors.values()))) for m, errors in of_methods.items()},
    }
    if set(METHODS) <= set(of_methods):
        better = [min(of_methods[peer][f] for peer in PEERS) for f in names]
        gap = np.array(better) - [of_methods["default"][f] for f in names]
        figures["gap to the better peer"] = _mean_and_interval(gap)
        figures["at most a point above"] = float(np.mean(gap >= -POINT))
    if other is not None and "default" in of_methods:
        figures["against"] = compared(rows, other["figures"])
    return figures


def compared(rows: Mapping[str, Figures], others: Mapping[str, Figures]) -> Figures:
    """How much lower the default's error is than in another record, on the problems of both."""
    common = sorted(set(rows) & set(others) - {"summary"})
    if not common:
        raise InputError("the other record has none of these problems")
    ours, theirs = (
        by_family({name: r[name] for name in common}, "default") for r in (rows, others)
    )
    lower = {family: theirs[family] - error for family, error in ours.items()}
    values = np.array(list(lower.values()))
    apart = values[np.abs(values) > POINT]
    return {
        "families": {family: round(value, 2) for family, value in lower.items()},
        "lower by": _mean_and_interval(values),
        "that differ by more than a point": len(apart),
        "lower among them": float(np.mean(apart > 0)) if len(apart) else None,
    }


def _mean_and_interval(values: np.ndarray) -> Figures:
    """The mean over families, and its 95% interval from resampled families."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


# What is a problem --------------------------------------------------------------------------


@benchmark
def vector_admission(half: str = "first", cache: str = "", jobs: int = 1) -> Rows:
    """Whether a simple method can find the classes of each vector problem.

    A problem is admitted when k-means, ten-nearest-neighbor spectral clustering or Ward's method,
    on rows of unit length or standardized columns, has at most 85% of the error of one cluster of
    everything. Neither this rule nor a family's half looks at any method of dcfsc.
    """
    chosen = list(problems(half, cache or None))
    rows = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(admission)(p.X, p.y) for p in chosen
    )
    for problem, row in zip(chosen, rows, strict=True):
        yield f"{problem.family}/{problem.name}", row


def admission(X: np.ndarray, y: np.ndarray) -> Figures:
    """The errors of the simple methods on at most 1,500 rows, and whether one is low enough."""
    rows = np.random.default_rng(0).permutation(len(X))[:JUDGED]
    X, y = X[rows].astype(np.float32), np.unique(y[rows], return_inverse=True)[1]
    K = int(y.max()) + 1
    k_means = scikit_learn("KMeans", n_init=10)
    simple: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "k-means": lambda Z: k_means(Z, K, 0),
        "spectral": lambda Z: _spectral(Z, K, 0),
        "ward": AgglomerativeClustering(K).fit_predict,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        errors = {
            f"{method} on {form}": clustering_error(y, cluster(Z))
            for form, Z in (("unit rows", normalize(X)), ("standardized columns", scale(X)))
            for method, cluster in simple.items()
        }
    trivial = 100.0 * (1.0 - np.bincount(y).max() / len(y))
    admitted = min(errors.values()) <= ADMITTED * trivial
    return {"admitted": bool(admitted), "one cluster": trivial, "errors": errors}
