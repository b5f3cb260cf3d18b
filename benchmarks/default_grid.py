"""The error and the stability of every way to see a problem's samples, for a grid of constants.

choose_defaults.py runs it and says what the ways are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import elsewhere
import numpy as np
import torch
from earlier import SPARE, agreement
from elsewhere import MOST_SAMPLES, part
from torch import Tensor

from dcfsc import spectral
from dcfsc.affinity import TopK
from dcfsc.representations.neighbour_metric import (
    MOST_FEATURES,
    in_metric,
    metric_rounds,
    plain_ridge,
)
from dcfsc.representations.scattering import ENLARGED_SIDE, SMALLEST_SIDE, enlarged, mirror_form
from dcfsc.estimators.scattering_features import ScatteringFeatures
from dcfsc.representations.stability import ASSIGN, SHARE
from dcfsc.representations.orbits import ALL, views_of
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import lam_for_dof, solve, squared_singular_values
from dcfsc.self_expression.orbit import OrbitForm, orbit_gram

SCATTERINGS = {f"J{J}{'-centred' * c}": (J, bool(c)) for J in (2, 3) for c in (0, 1)}


@dataclass(frozen=True)
class Axes:
    """The constants tried, m the slowest and power the fastest, and how embeddings are cut."""

    m: tuple[float, ...] = (1.5, 2.0, 3.0)
    k: tuple[int, ...] = (4, 6, 8, 12)
    power: tuple[float, ...] = (2.0, 4.0, 8.0)
    orbit: tuple[float, ...] = (1.0, 1.5, 2.0)  # in place of m, with shifts and mirror images
    assign: str = ASSIGN

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.m), len(self.k), len(self.power)

    def affinities(self) -> Iterator[TopK]:
        return (TopK(k, power) for k, power in product(self.k, self.power))

    def measured(self, operator: Any, affinity: TopK, y: np.ndarray) -> tuple[float, float]:
        """Error, and stability where there are samples enough to tell it."""
        K, n = int(y.max()) + 1, len(y)
        A = affinity(operator, K)
        labels = spectral.cluster(A, K, assign=self.assign, random_state=0).labels
        enough = n > max(2 * K, SPARE * affinity.k) / SHARE
        parts = agreement(operator, K, affinity, self.assign) if enough else float("nan")
        return round(clustering_error(y, labels), 3), round(parts, 4)


Row = tuple[str, float, float]  # way, error, stability
Table = dict[str, dict[str, list[Any]]]  # way -> errors and parts, by m, k and p


def lam_of(squares: Tensor, m: float, K: int) -> float:
    # No ridge has more degrees of freedom than the rank; near it nothing is regularised.
    rank = int((squares > 1e-10 * squares.max()).sum())
    return lam_for_dof(squares, min(m * K, 0.95 * rank))


def pixels(X: np.ndarray, y: np.ndarray, axes: Axes) -> Iterator[Row]:
    K = int(y.max()) + 1
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    squares = squared_singular_values(Z)
    for m in axes.m:
        operator = solve(Z, lam_of(squares, m, K))
        for affinity in axes.affinities():
            yield "none", *axes.measured(operator, affinity, y)
            if Z.shape[1] > MOST_FEATURES:
                continue
            found = metric_rounds(Z, K, affinity=affinity, first=operator)
            for rounds, (_, seen) in enumerate(islice(found, 2), 1):
                yield f"metric-{rounds}", *axes.measured(seen, affinity, y)


def orbits(X: np.ndarray, y: np.ndarray, axes: Axes) -> Iterator[Row]:
    K = int(y.max()) + 1
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    views = views_of(ALL, Z, X.shape[1:])
    G = orbit_gram(views)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)
    for m in axes.orbit:
        operator = OrbitForm(views, lam_of(squares, m, K), G.clone())
        for affinity in axes.affinities():
            yield "orbit", *axes.measured(operator, affinity, y)


def scattered(X: np.ndarray, y: np.ndarray, axes: Axes, way: str, direct: bool) -> Iterator[Row]:
    K, (J, center) = int(y.max()) + 1, SCATTERINGS[way]
    x = enlarged(X.astype(np.float32))
    scattering = ScatteringFeatures(J, center=center, device="cpu", verbose=False)
    F = torch.from_numpy(scattering.fit_transform(x))
    mirrored = torch.from_numpy(scattering.transform(np.ascontiguousarray(x[..., ::-1])))
    squares = squared_singular_values(F)
    for m in axes.m:
        operator = solve(F, lam_of(squares, m, K))
        for affinity in axes.affinities():
            T = next(metric_rounds(F, K, affinity=affinity, first=operator))[0]
            both = torch.stack((in_metric(F, T), in_metric(mirrored, T)), dim=1)
            ways = mirror_form(both, plain_ridge(len(F)))
            yield f"{way} sum", *axes.measured(ways, affinity, y)
            if direct:
                yield f"{way} direct", *axes.measured(ways.ways[0], affinity, y)


def work(name: str, group: str, axes: Axes, direct: bool) -> tuple[str, str, dict[str, Any], Table]:
    torch.set_num_threads(1)
    start = time.perf_counter()
    X, y = part(*elsewhere.PROBLEMS[name].load(), MOST_SAMPLES)
    if group == "pixels":
        rows = pixels(X, y, axes)
    elif group == "orbit":
        rows = orbits(X, y, axes)
    else:
        rows = scattered(X, y, axes, group, direct)
    columns: dict[str, list[tuple[float, float]]] = {}
    for way, *figures in rows:
        columns.setdefault(way, []).append((figures[0], figures[1]))
    table = {}
    for way, pairs in columns.items():
        errors, parts = np.array(pairs).T.reshape(2, *axes.shape)
        known = np.isfinite(parts).all()  # with every k, or a default could not choose
        table[way] = {"errors": errors.tolist(), "parts": parts.tolist() if known else []}
    small = X.ndim > 2 and min(X.shape[-2:]) < ENLARGED_SIDE
    about = {"N": len(X), "K": int(y.max()) + 1, "small": small}
    about["seconds"] = {group: time.perf_counter() - start}
    return name, group, about, table


def groups(name: str) -> list[str]:
    X, _ = elsewhere.PROBLEMS[name].load()
    if X.ndim < 3:
        return ["pixels"]
    found = ["pixels", *SCATTERINGS]
    small = SMALLEST_SIDE <= min(X.shape[-2:]) < ENLARGED_SIDE
    return [*found, "orbit"] if small else found
