"""Eigenpairs of the normalized affinity:  S V = V diag(w),  V'V = I,  w the k largest, descending.

Three solvers with one signature. `eigh` factors S whole. `arpack` is the implicitly restarted
Lanczos method, one product at a time. `block` is a block Chebyshev-Davidson method: the spectrum
lies in [-1, 1], so a Chebyshev polynomial of S that is small on [-1, a] and grows fast on (a, 1]
turns a block of products into a strong push towards the wanted end, and a block wider than k
cannot overlook copies of an eigenvalue, as one Lanczos vector can. It is written in torch and
runs where S lives. `components` is for the one case that needs no solver.

A solver returns None where it does not apply or breaks down; whether a result is good enough is
for the caller to judge, by `residual`.

References: Y. Zhou and Y. Saad, "A Chebyshev-Davidson algorithm for large symmetric
eigenproblems", SIAM J. Matrix Anal. Appl. 29 (2007); Y. Zhou, "A block Chebyshev-Davidson method
with inner-outer restart for large eigenvalue problems", J. Comput. Phys. 229 (2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse.linalg as spla
import torch
from torch import Tensor

from dcfsc.graphs.graph import DenseAffinity, NormalizedAffinity, SparseAffinity

Eigenpairs: TypeAlias = tuple[Tensor, Tensor]  # values (k,) descending, vectors (n, k)
Solver: TypeAlias = Callable[[NormalizedAffinity, int, float, np.ndarray], "Eigenpairs | None"]

FILTER_DEGREE = 24
MAX_OUTER = 150
# Columns whose Gram matrix has a Cholesky factor with a smaller pivot lose more than half their
# digits in one round of it, which a second round could not repair.
SINGULAR = 1e-6
# A sparse S is written out for `eigh` only below this size (1.8 GiB in float64).
DENSE_LIMIT = 15_000
# While a residual is above this, `block` filters in float32: measured, its rounding leaves the
# convergence as it is down to about 3e-7, and stops it at 1e-7.
SINGLE_RESIDUAL = 1e-6
# And only while the filter lifts the eigenvalue 1 by no more than this over its interval: what
# rounding leaves of a vector found before is lifted too, and would drown the ones still wanted.
SINGLE_GAIN = 1e7


def eigh(S: NormalizedAffinity, k: int, tol: float, start: np.ndarray) -> Eigenpairs | None:
    """All of S by one dense symmetric factorization, n^3; exact to rounding."""
    if not isinstance(S, DenseAffinity) and S.n > DENSE_LIMIT:
        return None
    try:
        values, vectors = torch.linalg.eigh(S.dense())
    except torch.linalg.LinAlgError:
        return None
    return values[-k:].flip(0), vectors[:, -k:].flip(1).contiguous()


def arpack(S: NormalizedAffinity, k: int, tol: float, start: np.ndarray) -> Eigenpairs | None:
    """Implicitly restarted Lanczos for the largest eigenvalues from the vector ``start`` (n,).

    One Lanczos vector can overlook a member of a tight cluster of eigenvalues near 1. Asking for
    a few pairs more than k guards against that but waits for pairs inside the bulk, which doubled
    the time or worse; `_overlooked` looks for the missing member instead.
    """
    if k >= S.n:
        return None
    operator = spla.LinearOperator((S.n, S.n), matvec=S.matvec, dtype=np.float64)
    if isinstance(S, SparseAffinity) and S.tau == 0:
        operator = S.B
    elif isinstance(S, DenseAffinity) and S.device.type == "cpu":
        operator = S.S.numpy()
    ncv = min(S.n, max(2 * k + 1, k + 20))
    try:
        w, V = spla.eigsh(operator, k=k, which="LA", v0=start, ncv=ncv, maxiter=300, tol=tol)
    except (spla.ArpackError, RuntimeError):
        return None
    order = np.argsort(w)[::-1]
    values = torch.from_numpy(w[order]).to(S.device)
    vectors = torch.from_numpy(np.ascontiguousarray(V[:, order])).to(S.device)
    return None if _overlooked(S, values, vectors, start) else (values, vectors)


def block(S: NormalizedAffinity, k: int, tol: float, start: np.ndarray) -> Eigenpairs | None:
    """Block Chebyshev-Davidson: filter the unconverged Ritz vectors, add them to an orthonormal
    basis V, solve the projected problem V'SV, restart from the best Ritz vectors when V is full.

    Nearly all of the time goes into the filter's products. They only have to point the right way,
    so at first they are done in float32; the basis, the projected problem and the residuals are in
    float64 throughout.
    """
    width = k + max(4, k // 4)
    room = 3 * width
    if room > S.n:
        return None
    V = torch.empty((S.n, room), dtype=torch.float64, device=S.device)
    H = torch.zeros((room, room), dtype=torch.float64, device=S.device)  # V' S V
    W = _random_block(start, width, S.device)
    m = 0
    for _ in range(MAX_OUTER):
        W = _orthonormal_against(V[:, :m], W)
        end = m + W.shape[1]
        V[:, m:end] = W
        H[:end, m:end] = V[:, :end].T @ S.apply(W)
        H[m:end, :m] = H[:m, m:end].T
        m = end
        theta, Y = torch.linalg.eigh((H[:m, :m] + H[:m, :m].T) / 2)
        theta, Y = theta.flip(0), Y.flip(1)
        X = V[:, :m] @ Y[:, :width]  # Ritz vectors (n, width)
        R = S.apply(X[:, :k].contiguous()) - X[:, :k] * theta[:k]
        residuals = torch.linalg.vector_norm(R, dim=0)
        unconverged = (residuals > tol).nonzero()
        if len(unconverged) == 0:
            break
        if m + width > room:
            V[:, :width] = X
            H.zero_()
            H.diagonal()[:width] = theta[:width]
            m = width
        first = int(unconverged[0, 0])
        edge = float(theta[width - 1])
        coarse = float(residuals.max()) > SINGLE_RESIDUAL and _gain(edge) < SINGLE_GAIN
        W = X[:, first:].to(torch.float32 if coarse and S.has_single else V.dtype).contiguous()
        W = _chebyshev_filter(S, W, FILTER_DEGREE, edge).to(V.dtype)
    return theta[:k].clone(), X[:, :k].contiguous()


def components(component: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvectors for the value 1 of S without regularization, known without iteration.

    v_c = D^1/2 1_c / |D^1/2 1_c| for the indicator 1_c of a connected component c: as many as there
    are components, each of which owns the value 1 once. ``component`` (n,) numbers the components
    of n points of positive ``degrees``; returns values (k,) and vectors (n, k).
    """
    numbers, c = np.unique(component, return_inverse=True)
    total = np.bincount(c, weights=degrees)
    vectors = np.zeros((len(c), len(numbers)))
    vectors[np.arange(len(c)), c] = np.sqrt(degrees / total[c])
    return np.ones(len(numbers)), vectors


SOLVERS: dict[str, Solver] = {"eigh": eigh, "arpack": arpack, "block": block}


def residual(S: NormalizedAffinity, values: Tensor, vectors: Tensor) -> float:
    """max_j |S v_j - w_j v_j|, infinite where anything is not finite."""
    R = S.apply(vectors) - vectors * values
    worst = float(torch.linalg.vector_norm(R, dim=0).max())
    return worst if np.isfinite(worst) else float("inf")


def _overlooked(S: NormalizedAffinity, values: Tensor, vectors: Tensor, start: np.ndarray) -> bool:
    """Whether an eigenvalue clearly above the smallest of ``values`` was missed.

    Random vectors orthogonal to the found ones are filtered for the interval above that value;
    if something lives there, their Ritz values show it. A near-tie at the boundary may pass, and
    does no harm: either vector is as good.
    """
    b = min(4, S.n - vectors.shape[1])
    smallest = float(values[-1])
    X = _orthonormal_against(vectors, _random_block(start, b, S.device))
    X = _chebyshev_filter(S, X, 40, smallest)
    X = _orthonormal_against(vectors, X)
    ritz = torch.linalg.eigvalsh(X.T @ S.apply(X))
    return float(ritz[-1]) > smallest + 1e-6


def _random_block(start: np.ndarray, width: int, device: torch.device) -> Tensor:
    """Random vectors (n, width) that depend on ``start`` alone, equal on every device."""
    generator = np.random.default_rng(start[:8].view(np.uint64))
    uniform = generator.random((len(start), width), dtype=np.float32)
    return torch.from_numpy(uniform).to(device).double() - 0.5


def _chebyshev_filter(S: NormalizedAffinity, X: Tensor, degree: int, a: float) -> Tensor:
    """T_degree(S) X (n x b) after the linear map that sends [-1, a] to [-1, 1].

    The three-term recurrence is scaled by its value at eigenvalue 1, so that no degree overflows.
    """
    a = min(max(a, -0.9), 1.0 - 1e-8)
    half, center = (a + 1.0) / 2.0, (a - 1.0) / 2.0
    first = sigma = half / (1.0 - center)
    previous, current = X, (S.apply(X) - center * X) * (sigma / half)
    for _ in range(degree - 1):
        following = 1.0 / (2.0 / first - sigma)
        product = S.apply(current)
        product -= center * current
        product *= 2.0 * following / half
        product -= (sigma * following) * previous
        previous, current, sigma = current, product, following
    return current


def _gain(a: float, degree: int = FILTER_DEGREE) -> float:
    """The unscaled filter at eigenvalue 1, T_degree((3 - a) / (1 + a)); at most 1 on [-1, a]."""
    a = min(max(a, -0.9), 1.0 - 1e-8)
    exponent = degree * math.acosh((3.0 - a) / (1.0 + a))
    return math.cosh(exponent) if exponent < 700.0 else math.inf


def _orthonormal_against(V: Tensor, W: Tensor) -> Tensor:
    """An orthonormal basis of W's columns made orthogonal to V's (both n x .).

    Two rounds are enough for independent columns, and then Cholesky factors of W'W do, at a
    fraction of what QR costs for many rows. Otherwise QR does the rounds, and a third repairs what
    it fills in where the columns of W were dependent.
    """
    W = W / torch.linalg.vector_norm(W, dim=0).clamp_min(torch.finfo(W.dtype).tiny)
    quick = _cholesky_round(V, W)
    if quick is not None:
        quick = _cholesky_round(V, quick)
    if quick is not None:
        return quick
    for _ in range(3):
        W = torch.linalg.qr(W - V @ (V.T @ W)).Q
    return W


def _cholesky_round(V: Tensor, W: Tensor) -> Tensor | None:
    """W - V V'W times R^-1 with R'R its Gram matrix; None where that is too near to singular."""
    W = W - V @ (V.T @ W)
    L, info = torch.linalg.cholesky_ex(W.T @ W)
    diagonal = L.diagonal()
    if not bool((info == 0) & (diagonal.min() >= SINGULAR * diagonal.max())):
        return None
    return torch.linalg.solve_triangular(L.T, W, upper=True, left=False)
