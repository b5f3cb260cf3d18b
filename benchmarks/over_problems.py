"""An experiment on the problems of elsewhere.py, one after the other, for the explore_ scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import bench_defaults
import elsewhere
import numpy as np
import torch
from elsewhere import MOST_SAMPLES, part
from measure import finish, parser

from dcfsc.errors import InputError
from dcfsc.representations.neighbour_metric import (
    MOST_FEATURES,
    in_metric,
    neighbour_metric,
    plain_ridge,
)
from dcfsc.representations.scattering import Pictures, mirror_form
from dcfsc.estimators.regularisation import lam_for
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.self_expression import solve

Figures = dict[str, Any]


def default_ways(X: np.ndarray, K: int) -> Iterator[tuple[str, Any]]:
    """The ways that the default chooses from, each as the coefficients that it clusters."""
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    lam = plain_ridge(len(Z))
    yield "none", solve(Z, lam_for(Z, K, None))
    if Z.shape[1] <= MOST_FEATURES:
        yield "metric", solve(in_metric(Z, neighbour_metric(Z, K, 2)), lam)
    if X.ndim > 2:
        yield "scattering", mirror_form(Pictures.of(Z, X.shape[1:], K)(Z), lam)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A problem from elsewhere, at most ``MOST_SAMPLES`` of it, or a set of bench_defaults.py."""
    if name in elsewhere.PROBLEMS:
        return part(*elsewhere.PROBLEMS[name].load(), MOST_SAMPLES)
    return bench_defaults.PROBLEMS[name]()


def run(
    title: str,
    description: str | None,
    measure: Callable[[np.ndarray, np.ndarray], Figures],
    summary: Callable[[Figures], Figures],
    problems: Sequence[str] = (),
) -> None:
    """``measure`` and ``summary`` for the problems, those from elsewhere unless given.

    On the command line others may be asked for, which the summary leaves out.
    """
    problems = problems or list(elsewhere.PROBLEMS)
    options = parser(description)
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--shard", default="0/1", metavar="I/N")
    options.add_argument("--merge", nargs="+", type=Path, help="only put these files together")
    args = options.parse_args()
    torch.set_num_threads(1)
    figures: Figures = {}

    def save() -> None:
        known = {n: figures[n] for n in problems if n in figures}
        others = {n: r for n, r in figures.items() if n not in known and n != "summary"}
        finish(args, title, {**known, **others, "summary": summary(known) if known else {}})

    for path in args.merge or ():
        figures |= json.loads(path.read_text())["figures"]
    if args.merge:
        save()
        return
    index, count = (int(number) for number in args.shard.split("/"))
    names = args.only.split(";") if args.only else problems
    for name in names[index::count]:
        try:
            X, y = load(name)
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        figures[name] = measure(X, y)
        print(name, flush=True)
        save()
