"""Synthetic unions of subspaces, where the right answer is known."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.dataset import Dataset
from dcfsc.parameters import NONE, Kind, instance_of, real, table, whole

ROWS_AT_ONCE = 1 << 16  # bounds the working memory beside X itself
BELOW_ONE = Kind(
    lambda v: isinstance(v, Real) and 0 <= float(v) < 1, "a number from 0 up to but not including 1"
)
PARAMETERS = table(
    n_samples=whole(1),
    n_clusters=whole(1),
    subspace_dim=whole(1),
    ambient_dim=whole(1),
    noise=real(0),
    overlap=BELOW_ONE,
    unbalanced=BELOW_ONE,
    random_state=whole(0)
    | NONE
    | instance_of((np.random.Generator, np.random.RandomState), "a generator of NumPy"),
)


def synthetic(
    n_samples: int = 1000,
    n_clusters: int = 5,
    subspace_dim: int = 5,
    ambient_dim: int = 50,
    noise: float = 0.0,
    overlap: float = 0.0,
    affine: bool = False,
    unbalanced: float = 0.0,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    dtype: type | np.dtype = np.float32,
) -> Dataset:
    """Sample a union of K random m-dimensional subspaces of R^D.

    A point of cluster k is  x = U_k a + c_k + e  with

    - U_k (D x m) an orthonormal basis: ``round(overlap * m)`` columns (at most m - 1) are common
      to all clusters, the others are drawn uniformly from the complement of the common ones.
      So any two subspaces have exactly that many zero principal angles, and with ``overlap=0``
      and K m <= D the subspaces are independent;
    - a ~ N(0, I / m), so that E |U_k a|^2 = 1;
    - c_k = 0, or with ``affine`` a unit vector orthogonal to U_k;
    - e isotropic Gaussian with  E |e| = noise * |x - e|  for every point.

    Parameters
    ----------
    n_samples : int
        Points in all, in random order.
    unbalanced : float in [0, 1)
        Cluster sizes fall geometrically and the smallest is 1 - unbalanced times the largest,
        up to rounding; 0 gives equal sizes.
    random_state : int, Generator, RandomState or None
        The same seed gives the same data.
    dtype : float32 or float64
    """
    _check(locals())
    dtype = np.dtype(dtype)
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31 - 1)
    rng = np.random.default_rng(random_state)
    sizes = _cluster_sizes(n_samples, n_clusters, unbalanced)
    shared = min(round(overlap * subspace_dim), subspace_dim - 1)
    common = _complete(np.empty((ambient_dim, 0)), shared, rng)  # (D, shared)
    place = rng.permutation(n_samples)
    X = np.empty((n_samples, ambient_dim), dtype)
    y = np.empty(n_samples, np.int64)
    end = 0
    for k, size in enumerate(sizes):
        basis = _complete(common, subspace_dim - shared, rng)  # (D, m)
        offset = _complete(basis, 1, rng)[:, -1] if affine else np.zeros(ambient_dim)
        start, end = end, end + size
        y[place[start:end]] = k
        for first in range(start, end, ROWS_AT_ONCE):
            rows = place[first : min(first + ROWS_AT_ONCE, end)]
            X[rows] = _points(len(rows), basis.astype(dtype), offset.astype(dtype), noise, rng)
    notes = (
        f"union of {n_clusters} {'affine ' if affine else ''}subspaces of dimension "
        f"{subspace_dim} in R^{ambient_dim}, {shared} dimensions common, noise {noise:g}"
    )
    return Dataset("synthetic", X, y, notes=notes)


def _check(values: dict[str, Any]) -> None:
    for name, kind in PARAMETERS.items():
        kind.check(name, values[name])
    n, n_clusters, m = values["n_samples"], values["n_clusters"], values["subspace_dim"]
    if n < n_clusters:
        raise InputError(f"n_samples={n}; {n_clusters} clusters need at least as many.")
    most = values["ambient_dim"] - bool(values["affine"])
    if m > most:
        kind_of_subspace = "an affine" if values["affine"] else "a"
        raise InputError(
            f"subspace_dim={m}; {kind_of_subspace} subspace of R^{values['ambient_dim']} has at "
            f"most {most}."
        )
    dtype = np.dtype(values["dtype"])
    if dtype not in (np.float32, np.float64):
        raise InputError(f"dtype={dtype}; use float32 or float64.")


def _points(
    n: int, basis: np.ndarray, offset: np.ndarray, noise: float, rng: np.random.Generator
) -> np.ndarray:
    """n points  U a + c + e  (n, D) in the type of the basis U (D, m)."""
    D, m = basis.shape
    dtype = basis.dtype
    a = rng.standard_normal((n, m), dtype=dtype) / math.sqrt(m)
    x = a @ basis.T + offset
    if noise > 0:
        # E|g| of a standard Gaussian in R^D; sqrt(D) would be E|g|^2's root, larger by 1/(4D)
        mean_norm = math.sqrt(2) * math.exp(math.lgamma((D + 1) / 2) - math.lgamma(D / 2))
        e = rng.standard_normal((n, D), dtype=dtype)
        e *= np.linalg.norm(x, axis=1, keepdims=True) * (noise / mean_norm)
        x += e
    return x


def _complete(basis: np.ndarray, extra: int, rng: np.random.Generator) -> np.ndarray:
    """Add ``extra`` random orthonormal columns, orthogonal to those of ``basis`` (D, s)."""
    G = rng.standard_normal((len(basis), extra))
    # Householder QR keeps the first columns' span, so the common part stays exactly common.
    Q, _ = np.linalg.qr(np.hstack([basis, G]))
    return np.hstack([basis, Q[:, basis.shape[1] :]])


def _cluster_sizes(n_samples: int, n_clusters: int, unbalanced: float) -> list[int]:
    """n_samples split in geometrically falling shares, each at least 1."""
    steps = np.arange(n_clusters) / max(n_clusters - 1, 1)
    shares = (1.0 - unbalanced) ** steps
    exact = shares / shares.sum() * (n_samples - n_clusters)
    sizes = 1 + np.floor(exact).astype(int)
    # the largest fractions get the points that rounding down left over
    left = n_samples - int(sizes.sum())
    sizes[np.argsort(-(exact % 1), kind="stable")[:left]] += 1
    return [int(s) for s in sizes]
