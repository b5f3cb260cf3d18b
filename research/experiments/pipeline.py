"""One clustering cell from samples to record: fit, score, and the critique's references beside it.

Haeffele, You and Vidal (ICLR 2021) show that post-processing and the starting latents explain much
of what deep subspace clustering reports. So a record holds, beside the protocol's score: ``plain``,
the same coefficients without post-processing; ``raw`` and ``start``, the closed form on raw pixels
and on the starting latents through the same pipeline; the effective lambda and the latents' rank.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import metrics, spectral
from dcfsc.errors import InputError
from dcfsc.io import Dataset
from dcfsc.machine import machine, resolve_device
from dcfsc.pipeline.samples import as_float
from dcfsc.self_expression import squared_singular_values
from research import data as datasets
from research.machine import PeakMemory, versions

from .cells import Cell, CellStore, Problem, Record, one_line
from .methods import METHODS, Method
from .protocols import PROTOCOLS, Task

PLAIN_AFFINITY = "symmetric"


@dataclass
class Samples:
    X: np.ndarray
    y: np.ndarray  # from 0, n_clusters classes
    notes: str


@dataclass
class Fitted:
    """A fitted method: its coefficients, and the affinities made from them so far."""

    estimator: Any
    features: Record  # what the estimator saw: how it was made, shape, rank
    seconds: float
    memory: Record
    affinities: dict[str, Any] = field(default_factory=dict)
    embeddings: dict[Any, Any] = field(default_factory=dict)  # of the last affinity and seed

    def affinity_matrix(self, affinity: Any, n_clusters: int) -> Any:
        name = repr(affinity)
        if name not in self.affinities:
            make = affinities.get(affinity, n_clusters)
            self.affinities[name] = make(self.estimator.coefficients_, n_clusters)
        return self.affinities[name]


class Session:
    """What one process keeps from cell to cell: samples, the last seed-free fit, references."""

    def __init__(self, store: CellStore, device: Any = "auto", force: bool = False):
        self.store = store
        self.force = force
        self.device = resolve_device(device)
        self._datasets: dict[str, Dataset] = {}
        self._last: dict[str, tuple[Any, Fitted]] = {}
        self._references: dict[str, Record | None] = {}

    def dataset(self, name: str) -> Dataset:
        if name not in self._datasets:
            self._datasets[name] = datasets.load(name)
        return self._datasets[name]

    def samples(self, problem: Problem) -> Samples:
        return select(self.dataset(problem.dataset), problem)

    def fit(self, cell: Cell, samples: Samples) -> tuple[Fitted, bool]:
        """The fitted method of a cell, and whether it was fitted for an earlier seed.

        Coefficients that no seed touches are computed once; trials then differ by the spectral
        step alone, as they would if everything were computed again.
        """
        method = METHODS[cell.method]
        task = Task(cell.problem, cell.seed, self.device, cell.lam)
        if not method.seed_free:
            return fit(method, task, samples.X), False
        slot = cell.method if method.reference else "method"
        wanted = (cell.method, cell.problem, cell.lam)
        kept = self._last.get(slot)
        if kept is not None and kept[0] == wanted:
            return kept[1], True
        self._last.pop(slot, None)  # before the next fit: both may be N x N
        fitted = fit(method, task, samples.X)
        self._last[slot] = (wanted, fitted)
        return fitted, False

    def reference(self, cell: Cell) -> Record | None:
        """The record of a reference cell, from memory, from disk or computed; None if it failed."""
        if cell.name not in self._references:
            record = None if self.force else self.store.load(cell)
            if record is None:
                start = time.perf_counter()
                try:
                    record = measure(cell, self)
                except Exception as error:  # the cell that cites it stands without it
                    self.store.fail(cell, one_line(error), time.perf_counter() - start)
                else:
                    self.save(cell, record)
            self._references[cell.name] = record
        return self._references[cell.name]

    def save(self, cell: Cell, record: Record) -> None:
        self.store.save(cell, {**record, "versions": versions(), "machine": machine(self.device)})

    def release(self) -> None:
        """Let go of large matrices, after a cell that may have run out of memory."""
        self._last.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def measure(cell: Cell, session: Session) -> Record:
    samples = session.samples(cell.problem)
    method = METHODS[cell.method]
    fitted, reused = session.fit(cell, samples)
    protocol = PROTOCOLS[cell.problem.dataset]
    affinity = method.affinity(cell.problem)
    assign = method.assignment(cell.problem.dataset)
    if method.seed_free:
        scored = score(fitted, affinity, method, cell, samples.y)
    else:  # the estimator was fitted with this cell's seed
        labels, K = fitted.estimator.labels_, cell.problem.n_clusters
        scored = compare(samples.y, labels, affinity, assign, K)
    record: Record = {
        **cell.identity(),
        "n": len(samples.X),
        "parameters": parameters(fitted.estimator),
        "features": fitted.features,
        "protocol": scored,
        **{
            name: score(fitted, affinity, method, cell, samples.y, assign=name)
            for name in ("kmeans", "discretize")
        },
        "plain": score(fitted, PLAIN_AFFINITY, method, cell, samples.y),
    }
    if not method.reference:
        record["raw"] = _cited(session.reference(cell.reference("raw")))
        start = method.start(cell.problem.dataset)
        record["start"] = _cited(session.reference(cell.reference(start))) if start else None
    return {
        **record,
        "chosen_with_labels": list(method.chosen_with_labels) if protocol.tuned else [],
        **self_expression(fitted.estimator, fitted.features),
        "seconds": round(fitted.seconds, 4),
        "fit_reused": reused,
        "memory": fitted.memory,
        "notes": "; ".join(filter(None, (samples.notes, protocol.note))),
    }


def select(data: Dataset, problem: Problem) -> Samples:
    if data.y is None:
        raise InputError(f"the dataset {data.name!r} has no labels, so nothing can be scored.")
    first = problem.window or 0
    found = int(data.y.max()) + 1
    if first + problem.n_clusters > found:
        raise InputError(
            f"{data.name} has {found} classes, not the {first + problem.n_clusters} that this "
            "experiment needs; put the complete dataset into the data folder."
        )
    chosen = (data.y >= first) & (data.y < first + problem.n_clusters)
    if problem.per_class is not None:
        for label in range(first, first + problem.n_clusters):
            chosen[np.flatnonzero(data.y == label)[problem.per_class :]] = False
    return Samples(np.ascontiguousarray(data.X[chosen]), data.y[chosen] - first, data.notes)


def fit(method: Method, task: Task, X: np.ndarray) -> Fitted:
    """Features, then the estimator; time and peak memory of both."""
    with PeakMemory(task.device) as memory:
        start = time.perf_counter()
        features, how = method.features(task, X)
        estimator = method.build(task, features).fit(features)
        if task.device.type == "cuda":
            torch.cuda.synchronize(task.device)
        seconds = time.perf_counter() - start
    seen = getattr(estimator, "latents_", features)
    Z = as_float(seen, task.device).reshape(len(seen), -1)
    fitted = Fitted(estimator, {"made_by": how, **spectrum(Z)}, seconds, memory.record())
    # The estimator has paid for this one already.
    fitted.affinities[repr(method.affinity(task.problem))] = on_device(
        estimator.affinity_matrix_, task.device
    )
    return fitted


def score(
    fitted: Fitted,
    affinity: Any,
    method: Method,
    cell: Cell,
    y: np.ndarray,
    assign: str | None = None,
) -> dict[str, Any]:
    """Cluster the coefficients under an affinity and compare with the classes."""
    K, assign = cell.problem.n_clusters, assign or method.assignment(cell.problem.dataset)
    matrix = fitted.affinity_matrix(affinity, K)
    place = repr(affinity), cell.seed
    if place not in fitted.embeddings:
        random = np.random.RandomState(cell.seed)
        fitted.embeddings = {place: (spectral.embed(matrix, K, random_state=random), random)}
    embedding, random = fitted.embeddings[place]
    # From where the embedding left the generator, as if each assignment had followed it alone.
    labels = spectral.assign(embedding, K, method=assign, random_state=copy.deepcopy(random))
    return compare(y, labels, affinity, assign, K)


def compare(
    y: np.ndarray, labels: np.ndarray, affinity: Any, assign: str, n_clusters: int
) -> dict[str, Any]:
    scores = metrics.score(y, labels)
    return {
        **{name: scores[name] for name in ("error", "nmi", "ari")},
        "clusters": scores["n_clusters"],
        "assign": assign,
        "affinity": to_json(affinities.get(affinity, n_clusters)),
    }


def spectrum(Z: Tensor) -> Record:
    """Shape, scale and ranks of the features Z (N, d).

    ``rank`` counts singular values above the rounding of single precision,
    s > s_1 max(N, d) eps; ``stable_rank`` is |Z|_F^2 / s_1^2, which a few large directions lower.
    """
    n, d = Z.shape
    squares = squared_singular_values(Z)
    largest, total = float(squares.max()), float(squares.sum())
    floor = largest * (max(n, d) * torch.finfo(torch.float32).eps) ** 2
    return {
        "dim": d,
        "rank": int((squares > floor).sum()) if largest > 0 else 0,
        "stable_rank": total / largest if largest > 0 else 0.0,
        "mean_squared_norm": total / n,
    }


def self_expression(estimator: Any, features: Record) -> Record:
    """lam over the mean squared row norm, and tr H, where the method is the closed form."""
    lam = getattr(estimator, "lam_", None)
    dof = getattr(estimator, "effective_dof_", None)
    if lam is None or dof is None:
        return {"effective_lambda": None, "effective_dof": None}
    scale = features["mean_squared_norm"]
    if getattr(estimator, "normalize", False):
        scale = 1.0
    return {
        "effective_lambda": float(lam) / scale if scale > 0 else None,
        "effective_dof": float(dof),
    }


def parameters(estimator: Any) -> Record:
    given = estimator.get_params(deep=False)
    return {"estimator": type(estimator).__name__, **{k: to_json(v) for k, v in given.items()}}


def to_json(value: Any) -> Any:
    """A parameter as JSON; an object that is no plain value is named by its class."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, Path):
        return value.stem  # published weights, by their name
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__, **asdict(value)}
    return type(value).__name__


def on_device(matrix: Any, device: torch.device) -> Any:
    """A dense affinity back on the device that it was made on; a sparse one as it is."""
    return torch.from_numpy(matrix).to(device) if isinstance(matrix, np.ndarray) else matrix


def _cited(record: Record | None) -> Record | None:
    """What a cell repeats of its reference's record."""
    if record is None:
        return None
    return {
        **record["protocol"],
        "method": record["method"],
        "lam": record["parameters"]["lam"],
        "effective_lambda": record["effective_lambda"],
        "plain_error": record["plain"]["error"],
    }
