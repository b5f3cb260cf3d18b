"""The constants of the default, judged on data that they were not chosen on.

    DCFSC_ELSEWHERE=... python benchmarks/choose_defaults.py grid \\
        --json results/experiments/elsewhere_grid.json
    python benchmarks/choose_defaults.py judge results/experiments/elsewhere_grid.json \\
        --json results/experiments/elsewhere_constants.json

``grid``: the error of the closed form for degrees of freedom m K, k neighbours and a power p, on
the problems of elsewhere.py, with labels, samples as they are (n) and images with their shifts and
mirror images too (sf). ``--shard I/N`` takes every N-th problem; ``merge`` puts files together.
``judge``: the regret of a setting on a problem is its error less the least error of any setting
there; its mean counts problems alike within a family, and families alike. The default's is compared
with that of the best setting, and with the cross-validated one: on every family, the setting that
is best on all other families.
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
from dcfsc.affinity import TopK
from dcfsc.affinity.topk import sparse_symmetric
from dcfsc.errors import InputError
from dcfsc.estimators.regularisation import DEFAULT_SUBSPACE_DIM, ORBIT_SUBSPACE_DIM
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
    """Errors (m, k, p) of one set of views."""
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
    return {"errors": found.round(4).tolist()}


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


def by_family(table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    families: dict[str, list[np.ndarray]] = {}
    for name, regret in table.items():
        families.setdefault(family(name), []).append(regret)
    return {name: np.mean(members, axis=0) for name, members in families.items()}


def setting(place: tuple[int, ...]) -> dict[str, float]:
    a, b, c = place
    return {"m": DIMENSIONS[a], "k": NEIGHBOURS[b], "power": POWERS[c]}


def least(mean: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(mean.argmin()), mean.shape))


def compare(table: dict[str, np.ndarray], m: float) -> dict[str, Any]:
    """The default's mean regret beside the best setting's and the cross-validated one."""
    default = DIMENSIONS.index(m), NEIGHBOURS.index(TopK.k), POWERS.index(TopK.power)
    families = by_family(table)
    stack = np.stack(list(families.values()))
    mean = stack.mean(0)
    figures: dict[str, Any] = {
        "families": len(families),
        "problems": sorted(table),
        "default": {**setting(default), "regret": mean[default]},
        "default_is_number": int((mean < mean[default]).sum()) + 1,
        "of_settings": mean.size,
        "best": {**setting(least(mean)), "regret": mean.min()},
        "by m": {str(m): mean[a].min() for a, m in enumerate(DIMENSIONS)},
        "by k": {str(k): mean[:, b].min() for b, k in enumerate(NEIGHBOURS)},
        "by power": {str(p): mean[:, :, c].min() for c, p in enumerate(POWERS)},
    }
    if len(families) > 2:
        places = [least(np.delete(stack, i, axis=0).mean(0)) for i in range(len(stack))]
        held_out = np.array([regret[place] for regret, place in zip(stack, places, strict=True)])
        difference = np.array([regret[default] for regret in stack]) - held_out
        figures["cross-validated"] = {
            "regret": held_out.mean(),
            "default_less_this": difference.mean(),
            "standard_error": difference.std(ddof=1) / len(difference) ** 0.5,
            "chosen": {name: setting(p) for name, p in zip(families, places, strict=True)},
        }
    return figures


def merged(files: list[Path]) -> dict[str, Any]:
    problems: dict[str, Any] = {}
    for path in files:
        problems.update(json.loads(path.read_text())["figures"]["problems"])
    for record in problems.values():
        for key in VIEWS.keys() & record.keys():
            record[key] = {"errors": record[key]["errors"]}
    return {"m": DIMENSIONS, "k": NEIGHBOURS, "power": POWERS, "problems": problems}


def merge(args: Any) -> None:
    finish(args, "constants on other data, with labels", merged(args.files))


def judge(args: Any) -> None:
    problems = merged(args.files)["problems"]
    # Transformations count only where they are changes after which it is the same thing.
    helped = {
        name: record
        for name, record in problems.items()
        if "sf" in record and np.min(record["sf"]["errors"]) < np.min(record["n"]["errors"])
    }
    figures = {
        "n": compare(regrets(problems, "n"), DEFAULT_SUBSPACE_DIM),
        "sf": compare(regrets(helped, "sf"), ORBIT_SUBSPACE_DIM),
    }
    finish(args, "the default's constants on other data", figures)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=("grid", "merge", "judge"))
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--shard", default="0/1", metavar="I/N")
    options.add_argument("--device", default="cpu")
    args = options.parse_args()
    {"grid": grid, "merge": merge, "judge": judge}[args.what](args)


if __name__ == "__main__":
    main()
