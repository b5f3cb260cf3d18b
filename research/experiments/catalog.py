"""The experiments by name: which cells each consists of, and how one cell is measured."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError, unknown_name

from . import figures, hopkins, paper, tables
from .cells import Cell, Problem, Record
from .methods import METHODS
from .networks_table import measure_network
from .pipeline import Session, measure
from .step_memory import measure_step
from .tables import Table
from .views_table import VIEW_METHODS, VIEWS, draw_views, measure_views

PEOPLE = 38  # Extended Yale B
_CLUSTERING = tuple(name for name in METHODS if not METHODS[name].reference)


@dataclass(frozen=True)
class Experiment:
    """A named grid of cells: methods, problems, values of lam and seeds, in this order.

    ``methods`` are the default ones, ``known`` those that may be asked for; ``options`` says which
    of "trials", "clusters" and "datasets" apply, and ``trials`` how many seeds there are by
    default.
    """

    name: str
    title: str
    problems: tuple[Problem, ...]
    measure: Callable[[Cell, Session], Record] = measure
    methods: tuple[str, ...] = paper.METHODS
    known: tuple[str, ...] = _CLUSTERING
    options: tuple[str, ...] = ("trials",)
    trials: int = 10
    clusters: tuple[int, ...] | None = None  # the default ones; None: all
    lams: tuple[float | None, ...] = (None,)  # of every method but DSC, which has none
    needs_data: bool = True
    table: Table = tables.CLUSTERING
    draw: figures.Draw | None = figures.draw_bars

    def plan(self, methods: Sequence[str] | None = None, **options: Any) -> list[Cell]:
        """The cells that these methods and options select, in the order in which they run."""
        chosen = tuple(dict.fromkeys(methods)) if methods else self.methods
        for method in chosen:
            if method not in self.known:
                raise unknown_name(f"method of the experiment {self.name!r}", method, self.known)
        asked: dict[str, Any] = {"clusters": self.clusters} if self.clusters else {}
        asked |= {option: value for option, value in options.items() if value is not None}
        for option in asked:
            if option not in self.options:
                raise InputError(f"the experiment {self.name!r} has no {option} to choose.")
        trials = asked.get("trials", self.trials)
        if trials < 1:
            raise InputError(f"trials must be at least 1; got {trials}.")
        is_trial = "trials" in self.options and "clusters" not in self.options
        return [
            Cell(
                self.name,
                method,
                problem,
                seed,
                trial=seed if is_trial else None,
                lam=lam,
                named="datasets" in self.options,
            )
            for method in chosen
            for problem in self.chosen(asked.get("clusters"), asked.get("datasets"))
            for lam in ((None,) if method == "dsc" else self.lams)
            for seed in range(trials)
        ]

    def chosen(
        self, clusters: Sequence[int] | None, datasets: Sequence[str] | None
    ) -> list[Problem]:
        for K in clusters or ():
            if not 2 <= K <= PEOPLE:
                raise InputError(f"clusters must lie between 2 and {PEOPLE}; got {K}.")
        known = [problem.dataset for problem in self.problems]
        for name in datasets or ():
            if name not in known:
                raise unknown_name(f"dataset of the experiment {self.name!r}", name, known)
        return [
            problem
            for problem in self.problems
            if problem.n_clusters in (clusters or (problem.n_clusters,))
            and problem.dataset in (datasets or known)
        ]


_TRAINED, _TRACKED = tuple(VIEW_METHODS), tuple(hopkins.METHODS)
_FUNCTIONS: dict[str, dict[str, Any]] = {
    "eyaleb": {"clusters": paper.CLUSTERS, "draw": figures.draw_error_by_clusters},
    "lambda": {"lams": paper.LAMBDAS, "draw": figures.draw_lambda_curve},
    "parameters": {"measure": measure_network, "table": tables.PARAMETERS, "draw": None},
    "memory": {"measure": measure_step, "table": tables.MEMORY, "draw": figures.draw_memory},
    "hopkins155": {"measure": hopkins.measure, "table": hopkins.TABLE, "draw": None}
    | {"methods": _TRACKED, "known": _TRACKED},
    "views": {"measure": measure_views, "table": VIEWS, "draw": draw_views}
    | {"methods": _TRAINED, "known": _TRAINED},
}


def _experiment(
    name: str, problems: dict[str, int], per_class: int | None = None, **given: Any
) -> Experiment:
    """An experiment as experiments.toml has it."""
    cells = tuple(Problem(dataset, K, per_class=per_class) for dataset, K in problems.items())
    if name == "eyaleb":  # windows of consecutive people
        sizes = range(2, PEOPLE + 1)
        cells = tuple(Problem(name, K, first) for K in sizes for first in range(PEOPLE + 1 - K))
    if name == "hopkins155":
        cells = hopkins.PROBLEMS
    options = dict(_FUNCTIONS.get(name, {}))
    options |= {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    return Experiment(name, problems=cells, **options)


_TABLES = tomllib.loads(Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8"))
EXPERIMENTS: dict[str, Experiment] = {
    name: _experiment(name, **given) for name, given in _TABLES.items()
}


def names() -> list[str]:
    return list(EXPERIMENTS)


def get(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def unit(cell: Cell) -> tuple[Any, ...]:
    """What one process should do in one piece: all seeds of a fit that no seed touches."""
    if cell.experiment == "hopkins155":
        return (cell.method, cell.key)
    if cell.method in METHODS and METHODS[cell.method].seed_free:
        return (cell.method, cell.problem, cell.lam)
    return (cell.method, cell.key)
