"""Hopkins-155: every method on the trajectories of 155 sequences, by the number of motions.

A method runs at the setting that its authors give for motion segmentation, as methods.toml has it.
The library's default is told the number of motions and nothing else.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch

from dcfsc.metrics import score
from research.data.motions import NAME, sequences

from .cells import Cell, CellStore, Problem, Record
from .methods import SETTINGS, estimator_named
from .pipeline import Session, parameters
from .tables import Row, table

METHODS = SETTINGS["motion"]
PROBLEMS = tuple(Problem(f"{NAME}/{sequence}", K) for sequence, K in sequences().items())
DEFAULTS = "no setting published for motion; the estimator's defaults"


def homogeneous(X: np.ndarray) -> np.ndarray:
    return np.concatenate([X, np.ones((len(X), 1), X.dtype)], axis=1)


def principal(X: np.ndarray, dim: int = 12) -> np.ndarray:
    """The first principal coordinates, the mean not subtracted."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    return np.ascontiguousarray(U[:, :dim] * s[:dim])


FEATURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "trajectories": lambda X: X,
    "homogeneous": homogeneous,
    "principal": principal,
}


def measure(cell: Cell, session: Session) -> Record:
    samples, method = session.samples(cell.problem), METHODS[cell.method]
    K = cell.problem.n_clusters
    features = FEATURES[method.get("features", "trajectories")](samples.X.astype(np.float64))
    start = time.perf_counter()
    build = estimator_named(method["estimator"])
    common = {"device": session.device, "random_state": cell.seed}
    estimator = build(K, **method.get("settings", {}), **common).fit(features)
    if session.device.type == "cuda":
        torch.cuda.synchronize(session.device)
    return {
        "n": len(samples.X),
        "parameters": parameters(estimator),
        "representation": getattr(estimator, "representation_", None),
        **score(samples.y, estimator.labels_),
        "chosen_with_labels": method.get("chosen_with_labels", []),
        "seconds": round(time.perf_counter() - start, 4),
    }


def rows(records: list[Record], failed: dict[str, int]) -> list[Row]:
    """A row a method: mean and median error over two motions, three, and all."""
    lines = []
    for name, method in METHODS.items():
        own = [r for r in records if r["method"] == name]
        if not own:
            continue
        row: Row = {"method": name, "title": method["title"]}
        for K, group in ((2, "two"), (3, "three"), (0, "all")):
            errors = [r["error"] for r in own if K in (0, r["K"])]
            printed = method.get("printed", {}).get(group)
            row[f"{group}_mean"] = statistics.fmean(errors) if errors else None
            row[f"{group}_median"] = statistics.median(errors) if errors else None
            row[f"{group}_paper"] = printed[0] if printed else None
        row |= {
            "sequences": len(own),
            "failed": failed.get(name, 0),
            "nmi_mean": statistics.fmean(r["nmi"] for r in own),
            "seconds": sum(r["seconds"] for r in own),
            "setting": method.get("note", DEFAULTS),
            "chosen_with_labels": " ".join(method.get("chosen_with_labels", [])),
        }
        lines.append(row)
    return lines


def rows_of(store: CellStore) -> list[Row]:
    return rows(store.records(), Counter(r["method"] for r in store.failures()))


TABLE = table("hopkins155", rows_of)
