"""The trail behind the remarks on the paper's table: settings of the baselines, WITH labels.

    DCFSC_DATA=... python benchmarks/explore_baselines.py --json results/experiments/baselines.json
    DCFSC_DATA=... python benchmarks/explore_baselines.py --only lrsc

On the CPU, on Extended Yale B as the experiments select it; ``--only`` computes one part alone.
``kernel_ssc``: the error of KSSC over kernels, scales and alpha, windows 0, 9 and 20 of ten people
(scale "max" is pixels over 255). ``ssc``: SSC with its outlier term on the same windows. ``lrsc``:
LRSC with the published tau there, and the rank of its C. ``lrr``: where the two schemes for LRR end
on window 0, the authors' at two scales of the pixels. ``share``: the threshold's share rounded and
exact, through the closed form of the starting latents of twenty people, ten starts of discretize.
``orl_starts``: DCFSC on ORL, labels from one start of discretize and from the best of ten.
``dcfsc_seconds``: what the stored cells of DCFSC say of their time; nothing is computed.
"""

from __future__ import annotations

import copy
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from measure import finish, parser

from dcfsc import datasets, spectral
from dcfsc.experiments import pipeline
from dcfsc.experiments.cells import CellStore, Problem
from dcfsc.experiments.methods import get_method
from dcfsc.experiments.protocols import PROTOCOLS, Task, pixels
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import low_rank_representation, low_rank_subspace

RESULTS = Path(__file__).resolve().parents[1] / "results"
CPU = torch.device("cpu")
WINDOWS = (0, 9, 20)  # of ten people
SHARE_WINDOWS = (0, 6, 12, 18)  # of twenty people
SEEDS = range(10)
LRR_LAM = 0.18  # the authors', here for pixels from 0 to 1

Setting = dict[str, Any]


def polynomial(degree: int, coef0: float, scale: str = "unit") -> Setting:
    return {"kernel": "polynomial", "degree": degree, "coef0": coef0, "scale": scale}


def linear(scale: str = "unit") -> Setting:
    return {"kernel": "linear", "scale": scale}


def rbf(gamma: float | None = None) -> Setting:
    return {"kernel": "rbf", "gamma": gamma, "scale": "unit"}


LIGHT = (
    polynomial(2, 12.0),
    polynomial(3, 1.0),
    polynomial(2, 1.0, "max"),
    polynomial(2, 12.0, "max"),
    rbf(1.0),
    linear(),
    linear("max"),
)
KERNELS = (
    {**polynomial(2, 1.0), "alpha": 20.0},
    {**polynomial(3, 0.0), "alpha": 20.0},
    {**polynomial(2, 0.0), "alpha": 20.0},
    {**rbf(), "alpha": 20.0},
    {**polynomial(2, 1.0), "alpha": 100.0},
    {**polynomial(2, 1.0), "alpha": 800.0},
    {**linear(), "alpha": 100.0},
    *({**setting, "alpha": alpha} for alpha in (3.0, 10.0) for setting in LIGHT),
)


@cache
def dataset(name: str) -> datasets.Dataset:
    return datasets.load(name)


def problem(window: int, K: int = 10) -> tuple[Task, pipeline.Samples]:
    task = Task(Problem("eyaleb", K, window), 0, CPU)
    return task, pipeline.select(dataset("eyaleb"), task.problem)


def rows_of(window: int) -> np.ndarray:
    """Pixels from 0 to 255, (640, 2016)."""
    task, samples = problem(window)
    return pixels(task, samples.X)[0]


def shallow(name: str, **setting: Any) -> Setting:
    """A method of the tables with other settings: its errors on the three windows."""
    errors, iterations = [], []
    for window in WINDOWS:
        task, samples = problem(window)
        Z = rows_of(window)
        estimator = get_method(name).build(task, Z).set_params(**setting).fit(Z)
        errors.append(clustering_error(samples.y, estimator.labels_))
        iterations.append(estimator.n_iter_)
    return {"errors": errors, "mean": statistics.fmean(errors), "iterations": iterations}


def kernel_ssc() -> Setting:
    rows = [{**setting, **shallow("kssc", **setting)} for setting in KERNELS]
    return {"K": 10, "windows": list(WINDOWS), "rows": rows}


def ssc() -> Setting:
    return {"K": 10, "windows": list(WINDOWS), "alpha": 20.0, **shallow("ssc")}


def lrsc() -> Setting:
    """tau = 100 / |Z|_2^2 and alpha = tau / 2, which None stands for."""
    ranks = [low_rank_subspace(torch.from_numpy(rows_of(window))).rank for window in WINDOWS]
    found = shallow("lrsc", tau=None, alpha=None)
    return {"K": 10, "windows": list(WINDOWS), "ranks": ranks, **found}


def lrr() -> list[Setting]:
    """lam |E| is the same at both scales, so all three minimise the same objective."""
    Z = torch.from_numpy(rows_of(0)).double() / 255
    rows = []
    runs: tuple[tuple[Literal["admm", "alm"], int], ...] = (("admm", 1), ("alm", 1), ("alm", 255))
    for solver, largest in runs:
        lam = LRR_LAM / largest
        end = low_rank_representation(Z * largest, lam, method=solver)
        row = {"solver": solver, "largest_pixel": largest, "lam": lam, "objective": end.objective}
        rows.append({**row, "gap": end.gap, "iterations": end.n_iter, "rank": end.rank})
    return rows


def discretized(matrix: Any, y: np.ndarray, seed: int, starts: tuple[int, ...]) -> list[float]:
    """The error of discretize for each number of starts, all from the same embedding."""
    K = int(y.max()) + 1
    random = np.random.RandomState(seed)
    embedding = spectral.embed(matrix, K, random_state=random)
    return [
        clustering_error(
            y,
            spectral.assign(
                embedding,
                K,
                method="discretize",
                n_restarts=count,
                random_state=copy.deepcopy(random),
            ),
        )
        for count in starts
    ]


def share() -> Setting:
    """Mean error over ten single starts, a window at a time; lam as in DCFSC's protocol."""
    K, protocol = 20, PROTOCOLS["eyaleb"]
    lam = protocol.dcfsc(K)["lam"]
    reference = get_method("start")
    method = replace(reference, build=lambda task, Z: reference.build(task, Z).set_params(lam=lam))
    found: dict[str, list[float]] = {"rounded": [], "exact": []}
    for window in SHARE_WINDOWS:
        task, samples = problem(window, K)
        fitted = pipeline.fit(method, task, samples.X)
        for name, affinity in (("rounded", protocol.dsc_affinity), ("exact", protocol.affinity)):
            matrix = fitted.affinity_matrix(affinity, K)
            errors = [discretized(matrix, samples.y, seed, (1,))[0] for seed in SEEDS]
            found[name].append(statistics.fmean(errors))
    higher = [a - b for a, b in zip(found["rounded"], found["exact"], strict=True)]
    means = {f"mean_{name}": statistics.fmean(errors) for name, errors in found.items()}
    return {"K": K, "windows": list(SHARE_WINDOWS), "lam": lam, **found, **means, "higher": higher}


def orl_starts() -> Setting:
    """One training: from published weights no seed enters it."""
    task = Task(Problem("orl", 40), 0, CPU)
    samples = pipeline.select(dataset("orl"), task.problem)
    fitted = pipeline.fit(get_method("dcfsc"), task, samples.X)
    matrix = fitted.affinity_matrix(PROTOCOLS["orl"].affinity, task.K)
    found = [discretized(matrix, samples.y, seed, (1, 10)) for seed in SEEDS]
    one, ten = ([errors[column] for errors in found] for column in (0, 1))
    return {
        "one": {"errors": one, "mean": statistics.fmean(one), "std": statistics.stdev(one)},
        "best_of_ten": {"errors": ten, "mean": statistics.fmean(ten), "std": statistics.stdev(ten)},
    }


def dcfsc_seconds() -> Setting:
    cells = [r for r in CellStore(RESULTS, "eyaleb").records() if r["method"] == "dcfsc"]
    return {
        "windows": len(cells),
        "cell_seconds": sum(cell["cell_seconds"] for cell in cells),
        "gpus": sorted({str(cell["machine"]["gpu"]) for cell in cells}),
    }


PARTS = {
    part.__name__: part for part in (kernel_ssc, ssc, lrsc, lrr, share, orl_starts, dcfsc_seconds)
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    args = options.parse_args()
    figures: dict[str, Any] = {}
    for name in [args.only] if args.only else PARTS:
        figures[name] = PARTS[name]()
        finish(args, "settings of the baselines, chosen with labels", figures)


if __name__ == "__main__":
    main()
