"""How many eigenvectors of a graph its clusters are read from, measured with labels.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_spectrum.py --json results/experiments/spectrum.json

The graphs of the default on the problems of elsewhere.py: samples as they are (none), in the metric
of neighbours after two rounds (metric-2), and pictures by their scattering coefficients (sum).
k-means on the rows, at length 1, of as many eigenvectors as clusters (K), of more (K + 1, 1.25 K,
1.5 K, 2 K), and of 2 K and 3 K that are filtered (2K_p1): times 1 / (1 + r^p), with
r = (1 - w_j) / (1 - w_K). Five seeds; at most 1,500 samples of a problem.

"summary": mean errors over the families of problems, each compared with K: the difference and its
standard error. ``--only "digits;..."`` also takes the sets of bench_defaults.py, which are left out
of it and of a run without it. ``--shard I/N`` takes every N-th problem, ``--merge`` puts files
together.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_defaults
import elsewhere
import numpy as np
import scipy.sparse as sp
import torch
from choose_defaults import MOST_SAMPLES, family, part
from measure import finish, parser

from dcfsc import spectral
from dcfsc.errors import InputError
from dcfsc.estimators.neighbour_metric import (
    MOST_FEATURES,
    in_metric,
    neighbour_metric,
    plain_ridge,
)
from dcfsc.estimators.pictures import J, enlarged, mirror_form
from dcfsc.estimators.regularisation import lam_for
from dcfsc.estimators.scattering_features import ScatteringFeatures
from dcfsc.estimators.stability import TOPK
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import solve
from dcfsc.spectral.kmeans import kmeans

SEEDS = range(5)
MORE = {"K": 1.0, "K_1": None, "K_125": 1.25, "K_150": 1.5, "K_200": 2.0}
FILTERS = {
    f"{count}K_p{str(power).replace('.', '')}": (count, power)
    for count, power in ((2, 0.5), (2, 1), (2, 2), (2, 4), (3, 0.5), (3, 1), (3, 2))
}


def graphs(X: np.ndarray, K: int) -> Iterator[tuple[str, sp.csr_array]]:
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    lam = plain_ridge(len(Z))
    yield "none", TOPK(solve(Z, lam_for(Z, K, None)), K)
    if Z.shape[1] <= MOST_FEATURES:
        T = neighbour_metric(Z, K, 2)
        yield "metric-2", TOPK(solve(in_metric(Z, T), lam), K)
    if X.ndim > 2:
        x = enlarged(X.astype(np.float32))
        scattering = ScatteringFeatures(J, center=False, device="cpu", verbose=False)
        F = torch.from_numpy(scattering.fit_transform(x))
        mirrored = torch.from_numpy(scattering.transform(np.ascontiguousarray(x[..., ::-1])))
        T = neighbour_metric(F, K)
        both = torch.stack((in_metric(F, T), in_metric(mirrored, T)), dim=1)
        yield "sum", TOPK(mirror_form(both, lam), K)


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
    for name, V, aside in embeddings(A, K):
        length = np.linalg.norm(V, axis=1, keepdims=True)
        rows = torch.from_numpy(V / np.where(length > 0, length, 1.0))[~aside]
        labels = np.zeros((len(SEEDS), len(y)), dtype=np.int64)
        for seed in SEEDS:
            inside = np.asarray(kmeans(rows, K, np.random.RandomState(seed), 10))
            labels[seed] = np.bincount(inside).argmax()  # as the library: to the largest
            labels[seed, ~aside] = inside
        each = [clustering_error(y, row) for row in labels]
        found[name] = {"mean": statistics.fmean(each), "std": statistics.stdev(each)}
    return found


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    """Means over families, of all ways and of each."""
    known = {n: r for n, r in figures.items() if n in elsewhere.PROBLEMS}
    found: dict[str, Any] = {}
    for way in ("all", "none", "metric-2", "sum"):
        families: dict[str, list[list[float]]] = {}
        names: list[str] = []
        for name, record in known.items():
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


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--shard", default="0/1", metavar="I/N")
    options.add_argument("--merge", nargs="+", type=Path, help="only put these files together")
    args = options.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for path in args.merge or ():
        figures |= json.loads(path.read_text())["figures"]
    if args.merge:
        known = {name: figures[name] for name in elsewhere.PROBLEMS if name in figures}
        finish(args, "eigenvectors", {**known, "summary": summary(known)})
        return
    index, count = (int(part) for part in args.shard.split("/"))
    names = args.only.split(";") if args.only else list(elsewhere.PROBLEMS)
    for name in names[index::count]:
        try:
            if name in elsewhere.PROBLEMS:
                X, y = part(*elsewhere.PROBLEMS[name].load(), MOST_SAMPLES)
            else:
                X, y = bench_defaults.PROBLEMS[name]()
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        K = int(y.max()) + 1
        figures[name] = {"N": len(X), "K": K, "ways": {}}
        for way, A in graphs(X, K):
            figures[name]["ways"][way] = errors(A, y)
        print(
            name,
            {
                w: {n: round(e["mean"], 2) for n, e in r.items()}
                for w, r in figures[name]["ways"].items()
            },
            flush=True,
        )
        finish(args, "eigenvectors", {**figures, "summary": summary(figures)})


if __name__ == "__main__":
    main()
