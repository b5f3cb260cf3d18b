"""What makes the deep part add something over the closed form on pixels: short experiments.

    DCFSC_DATA=... python benchmarks/explore_deep.py run --device cuda --shard 1/8 --json part1.json
    python benchmarks/explore_deep.py merge part*.json --json results/experiments/deep.json

``run``: the ideas of deep_ideas.py on raw pixels, five seeds, nothing chosen by labels: they are
only counted against in the end. A row has the error at the library's m for such features, and on
up to 5,000 images also at both m = 1.5 and 3, with the adjusted Rand index between the two
partitions (``agreement``), which needs no labels. ``losses`` has each part of the loss at the first
and the last step. Networks that start alike share their start. The file is written after each row,
and the first seed is done on everything before the second. Processes share the work by
``--shard I/N``, I from 1 to N.

``merge``: the rows of several files as one, with mean and standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from bench_defaults import Samples, classes, whole
from deep_ideas import IDEAS, Problem, Settings, Trainer, partitions, started, trained_on, views
from measure import machine

from dcfsc.errors import unknown_name
from dcfsc.estimators.validation import resolve_device
from dcfsc.files import write_json
from dcfsc.metrics import ari, clustering_error
from dcfsc.training import History

BOTH_DIMS = (1.5, 3.0)
NO_LOSSES = ("phase", "step", "seconds", "lam", "effective_dof")
MOST_FOR_BOTH = 5000  # a partition of all of COIL-100 takes as long as its training


def some_mnist() -> Samples:
    X, y = whole("mnist")
    chosen = np.sort(np.random.default_rng(1).permutation(len(X))[:5000])
    return X[chosen], y[chosen]


PROBLEMS: dict[str, Callable[[], Samples]] = {
    "orl": lambda: whole("orl"),
    "digits": lambda: whole("digits"),
    "eyaleb-10": lambda: classes("eyaleb", 0, 10),
    "coil100-20": lambda: classes("coil100", 0, 20),
    "eyaleb": lambda: whole("eyaleb"),
    "mnist-5000": some_mnist,
    "coil100": lambda: whole("coil100"),
}
# What the processes' shares are measured in: seconds of a partition, of a training, of a start.
COST = {
    "orl": (0.4, 1.0, 0.7),
    "digits": (0.4, 1.0, 2.0),
    "eyaleb-10": (0.3, 1.0, 0.7),
    "coil100-20": (0.8, 1.0, 1.5),
    "eyaleb": (2.4, 1.5, 3.0),
    "mnist-5000": (1.0, 1.5, 6.0),
    "coil100": (6.0, 2.5, 9.0),
}


class Task(NamedTuple):
    """The ideas that share a start, on one dataset with one seed."""

    data: str
    seed: int
    start: str
    ideas: tuple[str, ...]

    @property
    def trainings(self) -> set[str]:
        return {IDEAS[name].training for name in self.ideas}

    @property
    def seconds(self) -> float:
        """A guess, for sharing."""
        partition, training, start = COST[self.data]
        refreshes = 5 if "pseudo-labels" in self.trainings else 0
        started = self.start not in ("pixels", "untrained")
        return (
            partition * (len(self.ideas) + 0.5 * refreshes)
            + training * len(self.trainings - {"none"})
            + start * started
        )


def chosen(names: str | None, known: dict[str, Any], kind: str) -> list[str]:
    """Some of the known names, separated by semicolons, or all of them."""
    if names is None:
        return list(known)
    for name in names.split(";"):
        if name not in known:
            raise unknown_name(kind, name, known)
    return names.split(";")


def tasks(args: argparse.Namespace) -> list[Task]:
    """This process's share: the longest task first goes to whoever has least to do."""
    ideas = chosen(args.ideas, IDEAS, "idea")
    starts = dict.fromkeys(IDEAS[name].start for name in ideas)
    every = [
        Task(data, seed, start, tuple(name for name in ideas if IDEAS[name].start == start))
        for seed, data, start in product(
            range(args.seeds), chosen(args.only, PROBLEMS, "problem"), starts
        )
    ]
    index, count = (int(part) for part in args.shard.split("/"))
    if not 1 <= index <= count:
        raise SystemExit(f"--shard {args.shard}: I of I/N goes from 1 to N.")
    shares: list[list[Task]] = [[] for _ in range(count)]
    for task in sorted(every, key=lambda task: -task.seconds):
        min(shares, key=lambda share: sum(t.seconds for t in share)).append(task)
    return [task for task in every if task in shares[index - 1]]


def measure(task: Task, problem: Problem, settings: Settings) -> Iterator[dict[str, Any]]:
    """One row an idea; ``seconds_training`` is without the start that it shares."""
    begin = time.perf_counter()
    network = None
    if task.start != "pixels":
        network = started(task.start, problem, task.seed, settings)
    seconds_start = time.perf_counter() - begin
    trainer = Trainer(problem, task.seed, settings)
    trained: dict[str, tuple[Any, dict[str, Any], float]] = {"none": (network, {}, 0.0)}
    for name in task.ideas:
        idea = IDEAS[name]
        if idea.training not in trained:
            begin = time.perf_counter()
            result, history = trained_on(network, idea, trainer)
            trained[idea.training] = result, losses(history), time.perf_counter() - begin
        result, ends, seconds_training = trained[idea.training]
        begin = time.perf_counter()
        row = errors(views(result, idea, problem.X), idea.subspace_dim, problem, task.seed)
        yield {
            "data": task.data,
            "idea": name,
            "seed": task.seed,
            **row,
            "losses": ends,
            "seconds_start": seconds_start,
            "seconds_training": seconds_training,
            "seconds_partition": time.perf_counter() - begin,
        }


def losses(history: History) -> dict[str, Any]:
    """The loss and its parts at the first and last step: a term that stays put says nothing."""
    parts = [name for name in history[0] if name not in NO_LOSSES]
    return {name: [history[0][name], history[-1][name]] for name in parts}


def errors(
    features: Sequence[torch.Tensor], m: float, problem: Problem, seed: int
) -> dict[str, Any]:
    if len(problem.X) > MOST_FOR_BOTH:
        (labels,) = partitions(features, problem.n_clusters, (m,), seed)
        return {"error": clustering_error(problem.y, labels), "m": m}
    found = partitions(features, problem.n_clusters, BOTH_DIMS, seed)
    by_dim = [clustering_error(problem.y, labels) for labels in found]
    return {
        "error": by_dim[BOTH_DIMS.index(m)],
        "m": m,
        "errors": {f"m={dim:g}": error for dim, error in zip(BOTH_DIMS, by_dim, strict=True)},
        "agreement": ari(found[0], found[1]),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """data -> idea -> mean, standard deviation and errors by seed."""
    figures: dict[str, Any] = {}
    for data, idea in product(PROBLEMS, IDEAS):
        own = sorted((r for r in rows if (r["data"], r["idea"]) == (data, idea)), key=_seed)
        if not own:
            continue
        found = [row["error"] for row in own]
        figures.setdefault(data, {})[idea] = {
            "mean": statistics.fmean(found),
            "std": statistics.stdev(found) if len(found) > 1 else None,
            "errors": found,
            "seeds": [row["seed"] for row in own],
            "agreement": _mean(row.get("agreement") for row in own),
            "by_m": {
                key: statistics.fmean(row["errors"][key] for row in own)
                for key in own[0].get("errors", {})
            },
        }
    return figures


def _seed(row: dict[str, Any]) -> int:
    return row["seed"]


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def run(args: argparse.Namespace) -> None:
    device = resolve_device(args.device)
    settings = Settings(epochs=args.epochs, steps=args.steps)
    origin = {"settings": asdict(settings), "machine": machine()}
    own = tasks(args)
    print(f"{len(own)} starts, {sum(len(task.ideas) for task in own)} rows", flush=True)
    problems: dict[str, Problem] = {}
    rows: list[dict[str, Any]] = []
    for task in own:
        if task.data not in problems:
            problems[task.data] = Problem(*PROBLEMS[task.data](), device)
        for row in measure(task, problems[task.data], settings):
            rows.append(row)
            print(f"{row['data']} {row['idea']} {row['seed']}: {row['error']:.2f}", flush=True)
            write(args.json, rows, origin)  # after each: a run may be stopped


def merge(args: argparse.Namespace) -> None:
    records = [json.loads(path.read_text()) for path in args.files]
    rows = {
        (row["data"], row["idea"], row["seed"]): row for record in records for row in record["rows"]
    }
    shared = {key: records[0][key] for key in ("settings", "machine")}
    if any(record["settings"] != shared["settings"] for record in records):
        raise SystemExit("the files were made with different settings.")
    shared["commands"] = [record["command"] for record in records]
    write(args.json, list(rows.values()), shared)
    for data, ideas in summary(list(rows.values())).items():
        print(data)
        for idea, figure in ideas.items():
            spread = "" if figure["std"] is None else f" +- {figure['std']:.2f}"
            print(f"  {idea:20s} {figure['mean']:6.2f}{spread} (seeds {figure['seeds']})")


def write(path: Path | None, rows: list[dict[str, Any]], origin: dict[str, Any]) -> None:
    if path is None:
        return
    record = {
        "benchmark": "deep ideas",
        "command": f"python benchmarks/{Path(sys.argv[0]).name} " + " ".join(sys.argv[1:]),
        **origin,
        "figures": summary(rows),
        "rows": rows,
    }
    write_json(path, record)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    commands = options.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--only", help="some of the problems, separated by semicolons")
    running.add_argument("--ideas", help="some of the ideas, separated by semicolons")
    running.add_argument("--seeds", type=int, default=5)
    running.add_argument("--epochs", type=int, default=Settings.epochs)
    running.add_argument("--steps", type=int, default=Settings.steps)
    running.add_argument("--shard", default="1/1", help="I/N: the I-th of N processes")
    running.add_argument("--device", default="auto")
    running.add_argument("--json", type=Path)
    running.set_defaults(command=run)
    merging = commands.add_parser("merge")
    merging.add_argument("files", type=Path, nargs="+")
    merging.add_argument("--json", type=Path)
    merging.set_defaults(command=merge)
    args = options.parse_args()
    args.command(args)


if __name__ == "__main__":
    main()
