"""The constants of the default, chosen on data that no table of this project is about.

    DCFSC_ELSEWHERE=... python benchmarks/choose_defaults.py grid \\
        --json results/experiments/elsewhere_grid.json
    python benchmarks/choose_defaults.py rule results/experiments/elsewhere_grid.json \\
        --json results/experiments/elsewhere_rule.json

``grid``: the error of the closed form for degrees of freedom m K, k neighbours and a power p, on
the problems of elsewhere.py, with labels, samples as they are (n) and images with their shifts and
mirror images too (sf). ``rule``: the setting of the least mean regret, where the regret of a
setting on a problem is its error less the least error of any setting there, problems counting
alike within a family and families counting alike; and what it is when each family in turn is left
out. ``--shard I/N`` takes every N-th problem; ``rule`` takes any number of files.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import elsewhere
import numpy as np
import torch
from measure import finish, parser

from dcfsc import spectral
from dcfsc.affinity.topk import sparse_symmetric
from dcfsc.errors import InputError
from dcfsc.estimators.stability import stability
from dcfsc.estimators.transformations import AUTO, views_of
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import lam_for_dof
from dcfsc.self_expression.orbit import OrbitForm, orbit_gram

DIMENSIONS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NEIGHBOURS = (4, 6, 8, 12)
POWERS = (1.0, 2.0, 4.0, 8.0)
VIEWS = {"n": "none", "sf": AUTO}
MOST_SAMPLES = 3000  # of a problem: a random part of a larger one


def part(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(X) <= MOST_SAMPLES:
        return X, y
    chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:MOST_SAMPLES])
    return X[chosen], np.unique(y[chosen], return_inverse=True)[1]


def errors(X: np.ndarray, y: np.ndarray, name: str, device: torch.device) -> dict[str, Any]:
    """Errors (m, k, p) of one set of views, and the stability that the default decides by."""
    K = int(y.max()) + 1
    Z = unit_rows(as_float(X, device).reshape(len(X), -1))
    views = views_of(name, Z, X.shape[1:])
    G = orbit_gram(views)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)
    found = np.full((len(DIMENSIONS), len(NEIGHBOURS), len(POWERS)), np.nan)
    rank = int((squares > 1e-10 * squares[-1]).sum())
    for a, m in enumerate(DIMENSIONS):
        # No ridge has more degrees of freedom than the rank; near it nothing is regularised.
        operator = OrbitForm(views, lam_for_dof(squares, min(m * K, 0.95 * rank)), G.clone())
        values, indices = operator.topk_cosine(max(NEIGHBOURS))
        weights = values.to(torch.float64).abs().clamp_max(1.0)
        for b, k in enumerate(NEIGHBOURS):
            for c, power in enumerate(POWERS):
                A = sparse_symmetric(weights[:, :k] ** power, indices[:, :k], operator.n)
                labels = spectral.cluster(A, K, random_state=0).labels
                found[a, b, c] = clustering_error(y, labels)
    return {"errors": found.round(4).tolist(), "stability": stability(views, K)}


def grid(args: Any) -> None:
    device = torch.device(args.device)
    index, count = (int(part) for part in args.shard.split("/"))
    names = args.only.split(";") if args.only else list(elsewhere.PROBLEMS)
    figures: dict[str, Any] = {
        "m": DIMENSIONS,
        "k": NEIGHBOURS,
        "power": POWERS,
        "problems": {},
    }
    for name in names[index::count]:
        start = time.perf_counter()
        try:
            X, y = part(*elsewhere.PROBLEMS[name].load())
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        record: dict[str, Any] = {"N": len(X), "K": int(y.max()) + 1}
        for key, views in VIEWS.items():
            if key == "n" or X.ndim > 2:
                record[key] = errors(X, y, views, device)
        record["seconds"] = time.perf_counter() - start
        figures["problems"][name] = record
        finish(args, "constants on other data, with labels", figures)


def family(name: str) -> str:
    return name.split("-")[0]


def regrets(problems: dict[str, Any], key: str) -> dict[str, np.ndarray]:
    """Problem -> error above the least one, (m, k, p)."""
    found = {}
    for name, record in problems.items():
        if key in record:
            table = np.array(record[key]["errors"])
            found[name] = table - table.min()
    return found


def mean_regret(table: dict[str, np.ndarray], without: str | None = None) -> np.ndarray:
    families: dict[str, list[np.ndarray]] = {}
    for name, regret in table.items():
        if family(name) != without:
            families.setdefault(family(name), []).append(regret)
    return np.mean([np.mean(members, axis=0) for members in families.values()], axis=0)


def least(mean: np.ndarray) -> dict[str, float]:
    a, b, c = (int(i) for i in np.unravel_index(int(mean.argmin()), mean.shape))
    return {"m": DIMENSIONS[a], "k": NEIGHBOURS[b], "power": POWERS[c], "regret": mean[a, b, c]}


def rule(args: Any) -> None:
    problems: dict[str, Any] = {}
    for path in args.files:
        problems.update(json.loads(path.read_text())["figures"]["problems"])
    figures: dict[str, Any] = {"problems": len(problems)}
    for key in VIEWS:
        table = regrets(problems, key)
        if key == "sf":  # only where the changes are changes after which it is the same thing
            table = {
                name: regret
                for name, regret in table.items()
                if np.min(problems[name]["sf"]["errors"]) < np.min(problems[name]["n"]["errors"])
            }
        mean = mean_regret(table)
        families = sorted({family(name) for name in table})
        order = np.argsort(mean, axis=None)[:10]
        ranked = [np.unravel_index(int(i), mean.shape) for i in order]
        figures[key] = {
            "chosen": least(mean),
            "best ten": [
                {
                    "m": DIMENSIONS[a],
                    "k": NEIGHBOURS[b],
                    "power": POWERS[c],
                    "regret": mean[a, b, c],
                }
                for a, b, c in ranked
            ],
            "left out": {f: least(mean_regret(table, without=f)) for f in families},
            "by m": {str(m): mean[a].min() for a, m in enumerate(DIMENSIONS)},
            "by k": {str(k): mean[:, b].min() for b, k in enumerate(NEIGHBOURS)},
            "by power": {str(p): mean[:, :, c].min() for c, p in enumerate(POWERS)},
            "data": sorted(table),
        }
    finish(args, "the setting of least regret on other data", figures)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=("grid", "rule"))
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--shard", default="0/1", metavar="I/N")
    options.add_argument("--device", default="cpu")
    args = options.parse_args()
    {"grid": grid, "rule": rule}[args.what](args)


if __name__ == "__main__":
    main()
