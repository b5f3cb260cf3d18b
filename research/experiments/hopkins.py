"""Hopkins-155: every method on the trajectories of 155 sequences, by the number of motions.

A method runs at the setting that its authors give for motion segmentation. ``note`` says so, or
that they give none and the estimator's defaults are taken. The library's default is told the number
of motions and nothing else.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dcfsc import estimators
from dcfsc.machine import machine
from dcfsc.metrics import ari, clustering_error, nmi
from research.data.motions import NAME, sequences
from research.machine import versions

from .augmented_lagrangian import AuthorsLRR
from .cells import Cell, Problem, Record
from .paper import Printed
from .pipeline import Session, parameters

DEFAULTS = "no setting published for motion; the estimator's defaults"


@dataclass(frozen=True)
class MotionMethod:
    """A row of the table: an estimator for K motions, and what it is given of X (N, 2F)."""

    title: str
    build: Callable[..., Any]
    note: str
    features: Callable[[np.ndarray], np.ndarray] = lambda X: X
    chosen_with_labels: tuple[str, ...] = ()
    printed: dict[int, Printed] | None = None  # by the number of motions, and 0 for all


def homogeneous(X: np.ndarray) -> np.ndarray:
    """(x, 1) for every row x."""
    return np.concatenate([X, np.ones((len(X), 1), X.dtype)], axis=1)


def principal(dim: int) -> Callable[[np.ndarray], np.ndarray]:
    """The first ``dim`` principal coordinates, the mean not subtracted."""

    def project(X: np.ndarray) -> np.ndarray:
        U, s, _ = np.linalg.svd(X, full_matrices=False)
        return np.ascontiguousarray(U[:, :dim] * s[:dim])

    return project


def _with(estimator: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    return lambda K, **common: estimator(K, **settings, **common)


METHODS: dict[str, MotionMethod] = {
    "ssc": MotionMethod(
        "SSC",
        _with(estimators.SSC, alpha=800.0, outliers=False, affine=True, affinity="ssc-motion"),
        "the authors' setting for motion: affine, alpha 800, the largest coefficients up to 0.7",
        chosen_with_labels=("alpha", "share"),
        printed={2: Printed(1.52, 0.0), 3: Printed(4.40, 0.56), 0: Printed(2.18, 0.0)},
    ),
    "lrr": MotionMethod(
        "LRR",
        _with(AuthorsLRR, lam=4.0, scale="none"),
        "the authors' setting for motion: lam 4 on homogeneous coordinates",
        homogeneous,
        ("lam", "power"),
    ),
    "lrsc": MotionMethod("LRSC", estimators.LRSC, DEFAULTS),
    "edsc": MotionMethod("EDSC", estimators.EDSC, DEFAULTS),
    "kssc": MotionMethod("KSSC", estimators.KernelSSC, DEFAULTS),
    "ssc-omp": MotionMethod("SSC-OMP", estimators.SSCOMP, DEFAULTS),
    "lsr": MotionMethod(
        "LSR",
        _with(estimators.LSR, lam=0.0048, scale="none", affinity="magnitude"),
        "the authors' setting for motion: lam 0.0048 on twelve principal coordinates",
        principal(12),
        ("lam",),
    ),
    "ensc": MotionMethod("EnSC", estimators.EnSC, DEFAULTS),
    "a-dssc": MotionMethod("A-DSSC", estimators.ADSSC, DEFAULTS),
    "given": MotionMethod(
        "closed form on the trajectories as given",
        _with(estimators.ClosedFormSubspaceClustering, representation="given"),
        "the closed form with K m degrees of freedom, no homogeneous coordinate",
    ),
    "closed-form": MotionMethod(
        "library defaults",
        estimators.ClosedFormSubspaceClustering,
        "only the number of motions is given",
        chosen_with_labels=("distortion",),
    ),
}


def cells(experiment: str) -> Callable[[Any], list[Cell]]:
    def planned(grid: Any) -> list[Cell]:
        return [
            Cell(experiment, method, Problem(f"{NAME}/{sequence}", K))
            for method in grid.methods
            for sequence, K in sequences().items()
        ]

    return planned


def measure(cell: Cell, session: Session) -> Record:
    """Cluster the trajectories of one sequence by one method."""
    samples, method = session.samples(cell.problem), METHODS[cell.method]
    K = cell.problem.n_clusters
    features = method.features(samples.X.astype(np.float64))
    start = time.perf_counter()
    estimator = method.build(K, device=session.device, random_state=cell.seed).fit(features)
    if session.device.type == "cuda":
        torch.cuda.synchronize(session.device)
    labels = estimator.labels_
    return {
        **cell.identity(),
        "n": len(samples.X),
        "parameters": parameters(estimator),
        "representation": getattr(estimator, "representation_", None),
        "error": clustering_error(samples.y, labels),
        "nmi": nmi(samples.y, labels),
        "ari": ari(samples.y, labels),
        "chosen_with_labels": list(method.chosen_with_labels),
        "seconds": round(time.perf_counter() - start, 4),
        "versions": versions(),
        "machine": machine(session.device),
    }


def rows(records: list[Record], failed: dict[str, int]) -> list[dict[str, Any]]:
    """A row a method: mean and median error over two motions, three, and all."""
    table = []
    for name, method in METHODS.items():
        mine = [r for r in records if r["method"] == name]
        if not mine:
            continue
        row: dict[str, Any] = {"method": name, "title": method.title}
        for K, group in ((2, "two"), (3, "three"), (0, "all")):
            errors = [r["error"] for r in mine if K in (0, r["K"])]
            printed = (method.printed or {}).get(K)
            row[f"{group}_mean"] = statistics.fmean(errors) if errors else None
            row[f"{group}_median"] = statistics.median(errors) if errors else None
            row[f"{group}_paper"] = printed.mean if printed else None
        table.append(
            {
                **row,
                "sequences": len(mine),
                "failed": failed.get(name, 0),
                "nmi_mean": statistics.fmean(r["nmi"] for r in mine),
                "seconds": sum(r["seconds"] for r in mine),
                "setting": method.note,
                "chosen_with_labels": " ".join(method.chosen_with_labels),
            }
        )
    return table
