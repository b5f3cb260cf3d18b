"""The experiment "views": what training on views gives, and what each part of it adds.

Every method but the first trains the same encoder for as many steps, on the changes that the first
one has chosen for the same dataset and seed; they differ in what the closed form contributes.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.cluster import KMeans

from dcfsc import metrics
from dcfsc.estimators import ClosedFormSubspaceClustering, ViewClustering
from research.machine import PeakMemory

from .cells import Cell, CellStore, Record
from .pipeline import Session
from .tables import Row, deviation, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANGES = "geometry", "crop", "light", "mirror", "color"  # whose strengths differ between datasets
# Titles, and the options of WithLosses; None is the closed form of the samples.
VIEW_METHODS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "views": ("views, the default", {}),
    "views-alone": ("views alone", {"losses": {"contrastive": 1.0}, "positives": 0}),
    "views-layer": (
        "views, the layer's residual in the loss",
        {"losses": {"contrastive": 1.0, "self_expression": 1.0}, "positives": 0},
    ),
    "closed-form": ("no training", None),
}


class WithLosses(ViewClustering):
    """ViewClustering with losses of its own; None are the default ones."""

    losses: Any = None

    def _options(self, device: Any, n: float) -> Any:
        return replace(super()._options(device, n), losses=self.losses)


def measure_views(cell: Cell, session: Session) -> Record:
    """Fit and score one method on one dataset with one seed.

    Training goes on where a run that was stopped has left it; its seconds count.
    """
    samples = session.samples(cell.problem)
    options = VIEW_METHODS[cell.method][1]
    common: dict[str, Any] = {"device": session.device, "random_state": cell.seed}
    K = cell.problem.n_clusters
    checkpoint = session.store.cells / f"{cell.method}-{cell.key}.checkpoint"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    rows_here: list[Row] = []
    with PeakMemory(session.device) as memory:
        start = time.perf_counter()
        model: Any
        if options is None:
            model = ClosedFormSubspaceClustering(K, **common).fit(samples.X)
        else:
            gpu = session.device.type == "cuda"
            common |= {"compile": gpu, "effort": "full" if gpu else "quick", "verbose": False}
            common |= {"checkpoint": checkpoint, "callbacks": [rows_here.append]}
            common["augmentations"] = _augmentations(cell, session.store)
            model = WithLosses(K, positives=options.get("positives", 3), **common)
            model.losses = options.get("losses")
            model.fit(samples.X)
        seconds = time.perf_counter() - start
    checkpoint.unlink(missing_ok=True)
    fitted = vars(model)
    history = fitted.get("history_", [])
    rows = fitted.get("latents_", samples.X.reshape(len(samples.X), -1))
    plain = KMeans(K, n_init=3, random_state=cell.seed).fit_predict(rows)
    return {
        **metrics.score(samples.y, model.labels_),
        "with_kmeans": metrics.clustering_error(samples.y, plain),
        "n": len(samples.X),
        "steps": history[-1]["step"] if history else 0,
        "seconds": seconds + _seconds_of(history[: len(history) - len(rows_here)]),
        "memory": memory.record(),
        "strengths": fitted.get("augmentations_"),
        "consistency": fitted.get("consistency_"),
        "representation": fitted.get("representation_"),
        "stability": fitted.get("stability_"),
        "cuts": fitted.get("_cuts"),
        "notes": samples.notes,
    }


def _seconds_of(history: list[Row]) -> float:
    """What the steps of a history took; a row may stand for several of them."""
    steps = [0, *(row["step"] for row in history)]
    return sum(
        (b - a) * row["seconds"] for a, b, row in zip(steps, steps[1:], history, strict=False)
    )


def _augmentations(cell: Cell, store: CellStore) -> Any:
    """The augmentations that the whole method has chosen, where it is not the one to choose."""
    record = None if cell.method == "views" else store.load(cell.reference("views"))
    return "auto" if record is None else record["strengths"]


def view_rows(store: CellStore) -> list[Row]:
    """One row for each dataset, device and method: means over its seeds."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in store.records():
        device = record["machine"]["gpu"] or f"{record['machine']['cpus']} CPUs"
        groups.setdefault((record["dataset"], device, record["method"]), []).append(record)
    rows = [
        {
            "dataset": dataset,
            "method": method,
            "title": VIEW_METHODS[method][0],
            "error_mean": statistics.fmean(r["error"] for r in records),
            "error_std": deviation([r["error"] for r in records]),
            "kmeans_mean": statistics.fmean(r["with_kmeans"] for r in records),
            "nmi_mean": statistics.fmean(r["nmi"] for r in records),
            "seeds": len(records),
            "steps": records[0]["steps"],
            "seconds": statistics.median(r["seconds"] for r in records),
            "peak_mib": statistics.median(r["memory"]["peak_bytes"] for r in records) / 2**20,
            **{name: _strength(records, name) for name in CHANGES},
            "device": device,
        }
        for (dataset, device, method), records in groups.items()
    ]
    sets = ["orl", "eyaleb", "coil100", "mnist", "fashion-mnist", "cifar10", "digits"]
    methods = list(VIEW_METHODS)
    order = [(sets.index(r["dataset"]), r["device"], methods.index(r["method"])) for r in rows]
    return [row for _, row in sorted(zip(order, rows, strict=True), key=lambda pair: pair[0])]


def _strength(records: list[Record], name: str) -> float | None:
    taken = [r["strengths"].get(name, 0.0) for r in records if r["strengths"]]
    return statistics.fmean(taken) if taken else None


def _changes_of(row: Row) -> str:
    return ", ".join(f"{name} {row[name]:.2g}" for name in CHANGES if row[name])


VIEWS = table("views", view_rows, changes=_changes_of)


def draw_views(axes: Axes, rows: list[Row]) -> None:
    """A group of bars for each dataset and device, a bar for each training that it has."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["dataset"], row["device"]), []).append(row)
    methods = [m for m in VIEW_METHODS if any(r["method"] == m for r in rows)]
    width = 0.8 / len(methods)
    for method in methods:
        own, places = [], []
        for middle, group in enumerate(groups.values()):
            for number, row in enumerate(group):
                if row["method"] == method:
                    own.append(row)
                    places.append(middle + (number - (len(group) - 1) / 2) * width)
        spread = [r["error_std"] or 0.0 for r in own]
        errors = [r["error_mean"] for r in own]
        bars = axes.bar(places, errors, width, yerr=spread, label=VIEW_METHODS[method][0])
        axes.bar_label(bars, fmt="%.1f", fontsize=7)
    several = len({device for _, device in groups}) > 1
    names = [f"{d}\n{where}" if several else d for d, where in groups]
    axes.set_xticks(range(len(groups)), names)
    axes.set_ylabel("clustering error (%)")
    axes.margins(y=0.3)  # the legend stands above the bars
    axes.legend(frameon=False, loc="upper left")
