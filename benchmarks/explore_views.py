"""Should images be seen with their shifts and mirror images? Two judges without labels, compared.

    DCFSC_DATA=... DCFSC_ELSEWHERE=... python benchmarks/explore_views.py \\
        --json results/experiments/views.json

For each set, as it is (n) and with shifts and mirror images (sf): the error of the default's graph,
and how stable the partitions are, by "parts" (random parts of the samples, what the library decides
by) and along the "path" (six partitions over three degrees of freedom and two numbers of
neighbours, what it decided by before). ``--shard I/N`` takes every N-th set, ``--merge`` puts files
together and adds, for each judge, how often it chose the way of the smaller error and the mean
error of what it chose.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import bench_defaults
import earlier
import elsewhere
import numpy as np
import torch
from measure import finish, parser

from dcfsc import spectral
from dcfsc.affinity.topk import sparse_symmetric
from dcfsc.errors import InputError
from dcfsc.representations.orbits import ALL, views_of
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import ari, clustering_error
from dcfsc.self_expression import lam_for_dof
from dcfsc.self_expression.orbit import OrbitForm, orbit_gram

Samples = tuple[np.ndarray, np.ndarray]
MOST_SAMPLES = 3000
PATH = ((1.5, 2.0, 3.0), (5, 7))
ELSEWHERE = ("turntable", "glyphs", "lambertian-alike", "lambertian", "fashion-4", "fashion-raw")


def sets() -> dict[str, Callable[[], Samples]]:
    classes = bench_defaults.classes
    found: dict[str, Callable[[], Samples]] = {
        "orl": lambda: bench_defaults.whole("orl"),
        "digits": lambda: bench_defaults.whole("digits"),
        "orl-20 from 0": lambda: classes("orl", 0, 20),
        "orl-20 from 20": lambda: classes("orl", 20, 20),
        "mnist-raw": bench_defaults.raw_mnist,
    }
    for first in range(0, 30, 5):
        found[f"eyaleb-10 from {first}"] = lambda first=first: classes("eyaleb", first, 10)
    for first in (0, 18):
        found[f"eyaleb-20 from {first}"] = lambda first=first: classes("eyaleb", first, 20)
    for first in range(0, 100, 20):
        found[f"coil100-20 from {first}"] = lambda first=first: classes("coil100", first, 20)
    return found | {name: elsewhere.PROBLEMS[name].load for name in ELSEWHERE}


def judge(X: np.ndarray, y: np.ndarray, name: str, device: torch.device) -> dict[str, float]:
    K = int(y.max()) + 1
    Z = unit_rows(as_float(X, device).reshape(len(X), -1))
    views = views_of(name, Z, X.shape[1:])
    G = orbit_gram(views)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)

    def partitions(m: float, sizes: tuple[int, ...]) -> list[np.ndarray]:
        operator = OrbitForm(views, lam_for_dof(squares, m * K), G.clone())
        values, indices = operator.topk_cosine(max(sizes))
        weights = values.to(torch.float64).abs().clamp_max(1.0) ** earlier.AFFINITY.power
        graphs = [sparse_symmetric(weights[:, :k], indices[:, :k], operator.n) for k in sizes]
        return [spectral.cluster(A, K, random_state=0).labels for A in graphs]

    default = earlier.subspace_dim(views)
    along = [labels for m in PATH[0] for labels in partitions(m, PATH[1])]
    return {
        "error": clustering_error(y, partitions(default, (earlier.AFFINITY.k,))[0]),
        "parts": earlier.stability(views, K),
        "path": statistics.fmean(ari(a, b) for a, b in combinations(along, 2)),
    }


def verdicts(figures: dict[str, Any]) -> dict[str, Any]:
    """How good each judge's choices are, and both fixed choices beside them."""
    rows = [r for name, r in figures.items() if name != "judges"]
    found: dict[str, Any] = {}
    for by in ("parts", "path"):
        chosen = ["sf" if r["sf"][by] > r["n"][by] else "n" for r in rows]
        errors = [r[c]["error"] for r, c in zip(rows, chosen, strict=True)]
        best = [min(r["n"]["error"], r["sf"]["error"]) for r in rows]
        right = sum(e == b for e, b in zip(errors, best, strict=True))
        found[by] = {"right": right, "of": len(rows), "error": statistics.fmean(errors)}
    for key in ("n", "sf"):
        found[f"always {key}"] = {"error": statistics.fmean(r[key]["error"] for r in rows)}
    found["the better of both"] = {"error": statistics.fmean(best)}
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--merge", nargs="+", type=Path, help="files of shards")
    options.add_argument("--shard", default="0/1", metavar="I/N")
    options.add_argument("--only", help="some of the sets, separated by semicolons")
    options.add_argument("--device", default="cpu")
    args = options.parse_args()
    figures: dict[str, Any] = {}
    for path in args.merge or ():
        figures.update(json.loads(path.read_text())["figures"])
    index, count = (int(part) for part in args.shard.split("/"))
    names = [] if args.merge else [n for n in sets() if not args.only or n in args.only.split(";")]
    for name in names[index::count]:
        try:
            X, y = sets()[name]()
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        if len(X) > MOST_SAMPLES:
            chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:MOST_SAMPLES])
            X, y = X[chosen], y[chosen]
        ways = {"n": "none", "sf": ALL}
        figures[name] = {
            key: judge(X, y, way, torch.device(args.device)) for key, way in ways.items()
        }
        finish(args, "views", figures)
    figures.pop("judges", None)
    finish(args, "views", {**figures, "judges": verdicts(figures)})


if __name__ == "__main__":
    main()
