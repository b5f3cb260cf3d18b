"""Synthetic unions of subspaces, where the right answer is known."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.dataset import Dataset

ROWS_AT_ONCE = 1 << 16  # bounds the working memory beside X itself


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
    _check(n_samples, n_clusters, subspace_dim, ambient_dim, noise, overlap, affine, unbalanced)
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise InputError(f"dtype is {dtype}; use float32 or float64.")
    rng = _generator(random_state)
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


def _generator(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if random_state is None or (isinstance(random_state, Integral) and random_state >= 0):
        return np.random.default_rng(None if random_state is None else int(random_state))
    raise InputError(
        f"random_state is {random_state!r}; use None, an integer from 0 or a Generator."
    )


def _check(
    n_samples: int,
    n_clusters: int,
    subspace_dim: int,
    ambient_dim: int,
    noise: float,
    overlap: float,
    affine: bool,
    unbalanced: float,
) -> None:
    counts = {
        "n_samples": n_samples,
        "n_clusters": n_clusters,
        "subspace_dim": subspace_dim,
        "ambient_dim": ambient_dim,
    }
    for name, value in counts.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} is {value!r}; use an integer from 1.")
    if n_samples < n_clusters:
        raise InputError(f"n_samples is {n_samples}; {n_clusters} clusters need at least as many.")
    room = ambient_dim - 1 if affine else ambient_dim
    if subspace_dim > room:
        kind = "affine subspace" if affine else "subspace"
        raise InputError(
            f"subspace_dim is {subspace_dim}; a {kind} of R^{ambient_dim} has at most {room}."
        )
    if not isinstance(noise, Real) or not 0 <= noise < math.inf:
        raise InputError(f"noise is {noise!r}; use a number from 0 (0.1: a tenth of the signal).")
    for name, share in {"overlap": overlap, "unbalanced": unbalanced}.items():
        if not isinstance(share, Real) or not 0 <= share < 1:
            raise InputError(f"{name} is {share!r}; use a number from 0 up to but not including 1.")
