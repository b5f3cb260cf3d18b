"""The experiments by name: which cells each consists of, and how one cell is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dcfsc.errors import InputError, unknown_name

from . import figures, hopkins, paper, tables
from .cells import Cell, CellStore, Problem, Record
from .methods import METHODS
from .networks_table import measure_network
from .pipeline import Session, measure
from .step_memory import measure_step
from .tables import Row, Table
from .views_table import (
    VIEW_METHODS,
    VIEW_PROBLEMS,
    VIEW_TRIALS,
    VIEWS,
    draw_views,
    measure_views,
)

PEOPLE = 38  # Extended Yale B
TRIALS = 10
_CLUSTERING = tuple(name for name in METHODS if not METHODS[name].reference)


@dataclass(frozen=True)
class Grid:
    """What part of an experiment is asked for; None is all of it."""

    methods: tuple[str, ...]
    trials: int | None = None
    clusters: tuple[int, ...] | None = None
    datasets: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Experiment:
    """A named grid of cells.

    ``methods`` are the default ones, ``known`` those that may be asked for; ``options`` says which
    of "trials", "clusters" and "datasets" apply.
    """

    name: str
    title: str
    cells: Callable[[Grid], list[Cell]]
    measure: Callable[[Cell, Session], Record] = measure
    methods: tuple[str, ...] = paper.METHODS
    known: tuple[str, ...] = _CLUSTERING
    options: tuple[str, ...] = ("trials",)
    needs_data: bool = True
    table: Table = tables.CLUSTERING
    draw: figures.Draw | None = figures.draw_bars

    def plan(
        self,
        methods: Sequence[str] | None = None,
        trials: int | None = None,
        clusters: Sequence[int] | None = None,
        datasets: Sequence[str] | None = None,
    ) -> list[Cell]:
        """The cells that these options select, in the order in which they run."""
        chosen = tuple(dict.fromkeys(methods)) if methods else self.methods
        for method in chosen:
            if method not in self.known:
                raise unknown_name(f"method of the experiment {self.name!r}", method, self.known)
        asked = {"trials": trials, "clusters": clusters, "datasets": datasets}
        for option, value in asked.items():
            if value is not None and option not in self.options:
                raise InputError(f"the experiment {self.name!r} has no {option} to choose.")
        if trials is not None and trials < 1:
            raise InputError(f"trials must be at least 1; got {trials}.")
        some_clusters = tuple(clusters) if clusters else None
        some_datasets = tuple(datasets) if datasets else None
        return self.cells(Grid(chosen, trials, some_clusters, some_datasets))


def eyaleb_cells(grid: Grid) -> list[Cell]:
    """Every window of K consecutive people, for every K; a trial is one seed for all windows."""
    clusters = grid.clusters or paper.CLUSTERS
    for K in clusters:
        if not 2 <= K <= PEOPLE:
            raise InputError(f"clusters must lie between 2 and {PEOPLE}; got {K}.")
    return [
        Cell("eyaleb", method, Problem("eyaleb", K, window), seed)
        for method in grid.methods
        for K in clusters
        for window in range(PEOPLE + 1 - K)
        for seed in range(grid.trials or 1)
    ]


def trial_cells(
    experiment: str, problem: Problem, trials: int = TRIALS
) -> Callable[[Grid], list[Cell]]:
    """All classes at once, seeds 0, 1, ..."""

    def cells(grid: Grid) -> list[Cell]:
        return [
            Cell(experiment, method, problem, seed, trial=seed)
            for method in grid.methods
            for seed in range(grid.trials or trials)
        ]

    return cells


def lambda_cells(grid: Grid) -> list[Cell]:
    """DCFSC over lam, and DSC as the line to stay under."""
    return [
        Cell("lambda", method, Problem("coil100", 100), seed, seed, lam)
        for method in grid.methods
        for lam in ((None,) if method == "dsc" else paper.LAMBDAS)
        for seed in range(grid.trials or TRIALS)
    ]


def dataset_cells(experiment: str, *problems: Problem) -> Callable[[Grid], list[Cell]]:
    def cells(grid: Grid) -> list[Cell]:
        return [Cell(experiment, method, p) for method in grid.methods for p in problems]

    return cells


def view_cells(grid: Grid) -> list[Cell]:
    """Every dataset, all seeds of it, all methods of a seed: the first chooses the views."""
    chosen = grid.datasets or tuple(VIEW_PROBLEMS)
    for name in chosen:
        if name not in VIEW_PROBLEMS:
            raise unknown_name("dataset of the experiment 'views'", name, VIEW_PROBLEMS)
    return [
        Cell("views", method, VIEW_PROBLEMS[name], seed, trial=seed, named=True)
        for name in chosen
        for seed in range(grid.trials or VIEW_TRIALS)
        for method in grid.methods
    ]


_ORL, _EYALEB, _COIL100 = Problem("orl", 40), Problem("eyaleb", PEOPLE), Problem("coil100", 100)
_STEPS = ("dsc", "dcfsc-inverse", "dcfsc", "dcfsc-fast", "dcfsc-low-memory")

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "eyaleb",
            "Clustering error on Extended Yale B",
            eyaleb_cells,
            options=("trials", "clusters"),
            draw=figures.draw_error_by_clusters,
        ),
        Experiment("orl", "Clustering error on ORL", trial_cells("orl", _ORL)),
        Experiment(
            "coil100",
            "Clustering error on COIL-100",
            trial_cells("coil100", _COIL100),
            methods=(*paper.METHODS, "dcfsc-fast"),
        ),
        Experiment(
            "lambda",
            "Effect of lambda on COIL-100",
            lambda_cells,
            methods=("dcfsc-fast", "dsc"),
            known=("dcfsc", "dcfsc-fast", "dsc"),
            draw=figures.draw_lambda_curve,
        ),
        Experiment(
            "parameters",
            "Parameters of the networks",
            dataset_cells("parameters", _EYALEB, _ORL, _COIL100),
            measure_network,
            methods=("dsc", "dcfsc"),
            known=("dsc", "dcfsc"),
            options=(),
            needs_data=False,
            table=tables.PARAMETERS,
            draw=None,
        ),
        Experiment(
            "memory",
            "Peak memory and seconds of a training step",
            dataset_cells("memory", _ORL, _EYALEB, _COIL100),
            measure_step,
            methods=_STEPS,
            known=_STEPS,
            options=(),
            table=tables.MEMORY,
            draw=figures.draw_memory,
        ),
        Experiment(
            "hopkins155",
            "Motion segmentation: clustering error on Hopkins-155",
            hopkins.cells,
            hopkins.measure,
            methods=tuple(hopkins.METHODS),
            known=tuple(hopkins.METHODS),
            options=(),
            table=hopkins.TABLE,
            draw=None,
        ),
        Experiment(
            "views",
            "Clustering error of encoders that learn from views",
            view_cells,
            measure_views,
            methods=tuple(VIEW_METHODS),
            known=tuple(VIEW_METHODS),
            options=("trials", "datasets"),
            table=VIEWS,
            draw=draw_views,
        ),
        Experiment(
            "smoke",
            "A few seconds on three digits, to try the machinery",
            trial_cells("smoke", Problem("digits", 3, per_class=30), trials=2),
            methods=("closed-form", "dcfsc"),
        ),
    )
}


def names() -> list[str]:
    return list(EXPERIMENTS)


def get(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def summarize(store: CellStore) -> list[Row]:
    """The rows of an experiment's table."""
    return get(store.experiment).table.rows(store)


def unit(cell: Cell) -> tuple[Any, ...]:
    """What one process should do in one piece: all seeds of a fit that no seed touches."""
    if cell.experiment == "hopkins155":
        return (cell.method, cell.key)
    if cell.method in METHODS and METHODS[cell.method].seed_free:
        return (cell.method, cell.problem, cell.lam)
    return (cell.method, cell.key)
