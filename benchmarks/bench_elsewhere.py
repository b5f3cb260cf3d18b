"""The default on data from elsewhere: only the data and K are given, five seeds.

    DCFSC_ELSEWHERE=... python benchmarks/bench_elsewhere.py --json elsewhere.json

elsewhere.py says what the problems are and how their files are fetched; those without theirs are
left out. Beside the default, with the same seeds and on the same samples of unit length: k-means,
spectral clustering of the graph of ten nearest neighbours, and "two-k", the closed form with
tr H = 2 K, five neighbours and squared weights, without transformations.
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_defaults import chosen
from elsewhere import Problem, problems
from generated import Samples
from measure import finish, parser
from sklearn.cluster import KMeans, SpectralClustering

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.errors import InputError, unknown_name
from dcfsc.files import write_json
from dcfsc.metrics import clustering_error, nmi

Cluster = Callable[[int], np.ndarray]
CHOICES = ("features", "transformations", "metric", "stability")
OTHERS = ("k-means", "neighbours", "two-k")


def unit_rows(X: np.ndarray) -> np.ndarray:
    Z = X.reshape(len(X), -1)
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(lengths > 0, lengths, 1)


def others(X: np.ndarray, K: int, device: str) -> dict[str, Cluster]:
    """Labels by a seed, for each of the methods that stand beside the default."""
    Z = unit_rows(X)

    def two_k(seed: int) -> np.ndarray:
        return ClosedFormSubspaceClustering(
            K,
            subspace_dim=2,
            affinity=TopK(k=5, power=2),
            transformations="none",
            assign="kmeans",
            device=device,
            random_state=seed,
        ).fit_predict(X)

    def neighbours(seed: int) -> np.ndarray:
        with warnings.catch_warnings():
            # The graph may be in pieces, and is clustered all the same.
            warnings.filterwarnings("ignore", message="Graph is not fully connected")
            return SpectralClustering(
                K, affinity="nearest_neighbors", n_neighbors=min(10, len(Z)), random_state=seed
            ).fit_predict(Z)

    return {
        "k-means": lambda seed: KMeans(K, n_init=10, random_state=seed).fit_predict(Z),
        "neighbours": neighbours,
        "two-k": two_k,
    }


def summary(y: np.ndarray, labels: list[np.ndarray]) -> dict[str, Any]:
    errors = [clustering_error(y, found) for found in labels]
    return {
        "mean": statistics.fmean(errors),
        "std": statistics.stdev(errors) if len(errors) > 1 else 0.0,
        "errors": errors,
        "nmi": statistics.fmean(nmi(y, found) for found in labels),
    }


def measure(X: np.ndarray, y: np.ndarray, device: str, seeds: range, alone: bool) -> dict[str, Any]:
    K = int(y.max()) + 1
    start = time.perf_counter()
    model = ClosedFormSubspaceClustering(K, device=device, random_state=seeds[0]).fit(X)
    seconds = time.perf_counter() - start
    # What the data choose does not depend on the seed, so it is chosen once.
    labels = [model.labels_]
    for seed in seeds[1:]:
        again = ClosedFormSubspaceClustering(
            K,
            **chosen(model),
            device=device,
            random_state=seed,
        )
        labels.append(again.fit_predict(X))
    record: dict[str, Any] = {"N": len(X), "shape": list(X.shape[1:]), "K": K}
    record |= summary(y, labels)
    record |= {name: getattr(model, f"{name}_") for name in CHOICES} | {"seconds": seconds}
    for name, cluster in ({} if alone else others(X, K, device)).items():
        start = time.perf_counter()
        first = cluster(seeds[0])
        took = time.perf_counter() - start
        labels = [first] + [cluster(seed) for seed in seeds[1:]]
        record[name] = summary(y, labels) | {"seconds": took}
    return record


def chosen_problems(args: Any) -> Iterator[tuple[Problem, Samples]]:
    known = problems(args.folder)
    names = args.only.split(";") if args.only else list(known)
    for name in names:
        if name not in known:
            raise unknown_name("problem", name, known)
    for name in names:
        try:
            X, y = known[name].load()
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        if args.largest and len(X) > args.largest:
            print(f"{name} is left out: {len(X)} samples")
            continue
        yield known[name], (X, y)


def compared(figures: dict[str, Any]) -> dict[str, Any]:
    """How often the default is at least as good as each of the others, and the mean errors."""
    rows = [r for name, r in figures.items() if name != "summary"]
    found: dict[str, Any] = {"problems": len(rows)}
    found["default"] = {"mean": statistics.fmean(r["mean"] for r in rows)}
    for other in OTHERS if all(other in r for r in rows for other in OTHERS) else ():
        better = [r["mean"] < r[other]["mean"] for r in rows]
        worse = [r["mean"] > r[other]["mean"] for r in rows]
        mean = statistics.fmean(r[other]["mean"] for r in rows)
        found[other] = {"mean": mean, "default_better": sum(better), "default_worse": sum(worse)}
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--summarise", type=Path, help="only add the summary to this file")
    options.add_argument("--device", default="auto")
    options.add_argument("--folder", type=Path, help="of the files, if not DCFSC_ELSEWHERE")
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--largest", type=int, help="leave out what has more samples")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--alone", action="store_true", help="without the other methods")
    args = options.parse_args()
    if args.summarise:
        record = json.loads(args.summarise.read_text())
        record["figures"]["summary"] = compared(record["figures"])
        write_json(args.summarise, record)
        return
    figures: dict[str, Any] = {}
    for problem, (X, y) in chosen_problems(args):
        record = measure(X, y, args.device, range(args.seeds), args.alone)
        figures[problem.name] = {"kind": problem.kind, "source": problem.source} | record
        known = [name for name in OTHERS if name in record]
        beside = ", ".join(f"{name} {record[name]['mean']:.2f}" for name in known)
        print(f"{problem.name}: {record['mean']:.2f} +- {record['std']:.2f} ({beside})", flush=True)
        # After each: a long run may be stopped.
        finish(args, "elsewhere", {**figures, "summary": compared(figures)})


if __name__ == "__main__":
    main()
