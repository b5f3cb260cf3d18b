"""How large and how many the parts are whose partitions are compared, measured with labels.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_shares.py --json results/experiments/shares.json

The most stable way to see the samples is taken (dcfsc.estimators.stability): here with six parts of
a half to nine tenths of them, and with 12 and 24 parts of four fifths, on the problems of
elsewhere.py, at most 1,500 samples of each. The ways are the default's: as they are, in the metric
of neighbours after two rounds, and pictures by their scattering coefficients. "summary": the mean
error over families of what is chosen, of the best way each time, and how often these are the same.
``--shard I/N`` takes every N-th problem, ``--merge`` puts files together; ``--only`` also takes the
sets of bench_defaults.py, which the summary leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_defaults
import elsewhere
import numpy as np
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
from dcfsc.estimators.pictures import Pictures, mirror_form
from dcfsc.estimators.regularisation import lam_for
from dcfsc.estimators.stability import ASSIGN, TOPK, agreement, enough_samples
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import solve

# share of the samples, number of parts
RULES = {"0.5": (0.5, 6), "0.65": (0.65, 6), "0.8": (0.8, 6), "0.9": (0.9, 6)} | {
    "0.8 x 12": (0.8, 12),
    "0.8 x 24": (0.8, 24),
}


def ways(X: np.ndarray, K: int) -> Iterator[tuple[str, Any]]:
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    yield "none", solve(Z, lam_for(Z, K, None))
    if Z.shape[1] <= MOST_FEATURES:
        yield "metric", solve(in_metric(Z, neighbour_metric(Z, K, 2)), plain_ridge(len(Z)))
    if X.ndim > 2:
        pictures = Pictures.of(Z, X.shape[1:], K)
        yield "scattering", mirror_form(pictures(Z), plain_ridge(len(Z)))


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    found = {}
    for name, operator in ways(X, K):
        labels = spectral.cluster(TOPK(operator, K), K, assign=ASSIGN, random_state=0).labels
        found[name] = {"error": clustering_error(y, labels)}
        if enough_samples(len(X), K):
            for rule, (share, parts) in RULES.items():
                found[name][rule] = agreement(operator, K, share=share, parts=parts)
    return found


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    known = {n: r for n, r in figures.items() if n in elsewhere.PROBLEMS}
    found: dict[str, Any] = {}
    if not known:
        return found
    for share in (*RULES, "best"):
        families: dict[str, list[tuple[float, bool]]] = {}
        for name, record in known.items():
            candidates = list(record.values())
            least = min(way["error"] for way in candidates)
            if share != "best" and all(share in way for way in candidates):
                error = max(candidates, key=lambda way: way[share])["error"]
            else:
                error = least if share == "best" else record["none"]["error"]
            families.setdefault(family(name), []).append((error, error == least))
        means = [np.mean(rows, axis=0) for rows in families.values()]
        right = sum(r for rows in families.values() for _, r in rows)
        found[share] = {"error": float(np.mean(means, axis=0)[0]), "right": int(right)}
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
        finish(args, "shares", {**known, "summary": summary(known)})
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
        figures[name] = measure(X, y)
        print(name, figures[name], flush=True)
        finish(args, "shares", {**figures, "summary": summary(figures)})


if __name__ == "__main__":
    main()
