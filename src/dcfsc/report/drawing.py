"""What is drawn of a clustering, as plain arrays: blocks, spectrum, map, path and curves.

The page draws them as SVG (:mod:`dcfsc.report.charts`), the functions ``plot_*`` with matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from colorsys import hls_to_rgb
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

MOST_BLOCKS = 400
MOST_RULES = 24  # between clusters; more would hide the picture
DARKEST = 0.9  # quantile of the positive affinities that is drawn as the darkest
# Distinct on light and on dark ground; further clusters take their hues by the golden angle.
COLORS = (
    *("#3b7fb6", "#d9822b", "#4f9d69", "#c8534f", "#8a6fb3"),
    *("#a07850", "#d07fae", "#6f7d88", "#a8a23a", "#38a3ad"),
)


def cluster_colors(n_clusters: int) -> list[str]:
    """A color of its own for each cluster, as #rrggbb."""
    if n_clusters <= len(COLORS):
        return list(COLORS[:n_clusters])
    return [
        "#" + "".join(f"{round(255 * c):02x}" for c in hls_to_rgb(*_golden(i)))
        for i in range(n_clusters)
    ]


def _golden(i: int) -> tuple[float, float, float]:
    """Hue, lightness and saturation of the i-th of many colors."""
    return i * 137.508 % 360 / 360, (0.50, 0.43, 0.57)[i // 3 % 3], (0.52, 0.38, 0.58)[i % 3]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Mean affinities (b, b) of the samples ordered by cluster, and the clusters' ``sizes``."""

    means: np.ndarray
    sizes: np.ndarray

    @property
    def top(self) -> float:
        """The affinity that is drawn as the darkest."""
        positive = self.means[self.means > 0]
        return float(np.quantile(positive, DARKEST)) if len(positive) else 1.0

    @property
    def shades(self) -> np.ndarray:
        """The means as shares of the darkest one."""
        return np.minimum(self.means / self.top, 1.0)

    @property
    def edges(self) -> np.ndarray:
        """Where clusters begin and end among the ordered samples, (K + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def rules(self) -> np.ndarray:
        """The edges to draw: all of them, or of many clusters the outer two."""
        return self.edges if len(self.sizes) <= MOST_RULES else self.edges[[0, -1]]

    @property
    def names(self) -> list[str]:
        """The numbers of the clusters that have samples."""
        return [str(k) for k in np.flatnonzero(self.sizes)]

    @property
    def centers(self) -> np.ndarray:
        """The middle of each of these clusters."""
        return ((self.edges[:-1] + self.edges[1:]) / 2)[self.sizes > 0]


@dataclass(frozen=True, eq=False)
class LambdaPath:
    """Effective degrees of freedom and leave-one-out errors along lam, all (p,).

    ``used`` is the position of the lam of the fit, None where it is not known.
    """

    lam: np.ndarray
    dof: np.ndarray
    error: np.ndarray
    used: int | None

    @classmethod
    def of(cls, rows: np.ndarray, lam: float | None) -> LambdaPath:
        grid, dof, error = rows.T
        used = None if lam is None else int(np.abs(np.log(grid / lam)).argmin())
        return cls(grid, dof, error, used)

    @property
    def has_error(self) -> bool:
        return bool(np.isfinite(self.error).all())


def curves(history: Iterable[Mapping[str, Any]], column: str = "loss") -> dict[str, np.ndarray]:
    """Steps and values (2, p) of a column of the training's history, for each phase that has it."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in history:
        if row.get(column) is not None:
            points.setdefault(row.get("phase", "train"), []).append((row["step"], row[column]))
    return {phase: np.array(rows, np.float64).T for phase, rows in points.items()}


def cluster_mass(A: Any, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """m_ic = sum of A_ij over the samples j != i of cluster c; A (N, N), m (N, K)."""
    n = len(labels)
    one_hot = sp.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, n_clusters))
    product = A @ one_hot
    mass = product.toarray() if sp.issparse(product) else np.array(product, np.float64)
    mass[np.arange(n), labels] -= A.diagonal()
    return np.maximum(mass, 0.0)  # the subtraction rounds


def block_means(A: Any, order: np.ndarray) -> np.ndarray:
    """Means of A (N, N), rows and columns in ``order``, over at most 400 x 400 equal blocks."""
    n = len(order)
    b = min(MOST_BLOCKS, n)
    block = np.empty(n, np.int64)
    block[order] = np.arange(n) * b // n
    if sp.issparse(A):
        coo = A.tocoo()
        flat = np.bincount(block[coo.row] * b + block[coo.col], weights=coo.data, minlength=b * b)
        sums = flat.reshape(b, b)
    else:
        indicator = sp.csr_array((np.ones(n), (block, np.arange(n))), shape=(b, n))
        sums = indicator @ (indicator @ A).T
    counts = np.bincount(block, minlength=b)
    return (sums / np.outer(counts, counts)).astype(np.float32)


def plane_view(vectors: np.ndarray, labels: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """A view (N, 2) of the spectral embedding (N, k) with the clusters around a circle.

    K clusters sit near the corners of a simplex in K dimensions, which no two principal
    components show. So the unit rows R (N, K) are given memberships B = R W by ridge regression
    of the clusters' indicators Y,

        min_W  sum_i |r_i W - y_i|^2 / size(label(i)) + eps |W|^2,

    and sample i lies at  sum_c b_ic a_c / sum_c b_ic  with places a_c on the unit circle, in an
    order that makes neighbors of clusters with much affinity. A sample between two clusters lies
    between their places, one without a row in the middle. Two clusters leave the second axis
    free: it shows the leading eigenvector, which grows with the degree.
    """
    n, K = mass.shape
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    R = vectors / np.where(norm > 0, norm, 1.0)
    angle = np.empty(K)
    angle[_circular_order(mass, labels)] = 2.0 * np.pi * np.arange(K) / K
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    weight = 1.0 / np.bincount(labels, minlength=K)[labels]
    G = R.T @ (R * weight[:, None])
    G[np.diag_indices_from(G)] += 1e-3 * np.trace(G) / len(G)
    indicator = sp.csr_array((weight, labels, np.arange(n + 1)), shape=(n, K))
    B = R @ np.linalg.solve(G, (indicator.T @ R).T)
    # unit rows have memberships of sum 1 to sqrt(K); the bound only holds for stray ones
    view = B @ places / np.maximum(B.sum(axis=1, keepdims=True), 0.5)
    if K == 2:
        first = vectors[:, 0]
        view[:, 1] = np.clip((first - first.mean()) / max(3.0 * first.std(), 1e-30), -1.0, 1.0)
    return view


def _circular_order(mass: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A tour of the clusters (K,) that always goes on to the one of largest mean affinity."""
    K = mass.shape[1]
    size = np.maximum(np.bincount(labels, minlength=K), 1)
    one_hot = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    between = np.zeros((K, K))
    between[: one_hot.shape[0]] = one_hot @ mass
    between /= np.outer(size, size)
    tour, left = [0], set(range(1, K))
    while left:
        tour.append(max(sorted(left), key=lambda c: between[tour[-1], c]))
        left.remove(tour[-1])
    return np.array(tour)
