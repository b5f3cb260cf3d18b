"""Eigenpairs of the normalized affinity:  S V = V diag(w),  V'V = I,  w the k largest, descending.

Four solvers with one signature. `eigh` factors S whole. `arpack` is the implicitly restarted
Lanczos method, one product at a time. `block` is a block Chebyshev-Davidson method: the spectrum
lies in [-1, 1], so a Chebyshev polynomial of S that is small on [-1, a] and grows fast on (a, 1]
turns a block of products into a strong push towards the wanted end, and a block wider than k
cannot overlook copies of an eigenvalue, as one Lanczos vector can. `subspace` iterates with the
same filter in the memory of one block in float32, for tolerances that this allows. Both are written
in torch and run where S lives. `components` is for the one case that needs no solver.

A solver returns None where it does not apply or breaks down; whether a result is good enough is
for the caller to judge, by `residuals`.

References: Y. Zhou and Y. Saad, "A Chebyshev-Davidson algorithm for large symmetric
eigenproblems", SIAM J. Matrix Anal. Appl. 29 (2007); Y. Zhou, "A block Chebyshev-Davidson method
with inner-outer restart for large eigenvalue problems", J. Comput. Phys. 229 (2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as spla
import torch
from torch import Tensor

from dcfsc.graphs.graph import ROUNDING, DenseAffinity, NormalizedAffinity, SparseAffinity
from dcfsc.spectral.descent import chunks

Eigenpairs: TypeAlias = tuple[Tensor, Tensor]  # values (k,) descending, vectors (n, k)
Tolerance: TypeAlias = float | Tensor  # one for all, or one for each (k,)
Solver: TypeAlias = Callable[[NormalizedAffinity, int, Tolerance, np.ndarray], "Eigenpairs | None"]

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
# Random vectors hold all eigenvectors alike, and their sums lose what is lifted less than others.
RANDOM_GAIN = 1e5
LEAST_DEGREE, LANCZOS_STEPS = 8, 60
# A block is multiplied by so many elements at a time, and no fewer columns; products with all of
# its columns are quicker with more.
LEAST_COLUMNS, RITZ_COLUMNS = 16, 64
_PART_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}


def eigh(S: NormalizedAffinity, k: int, tol: Tolerance, start: np.ndarray) -> Eigenpairs | None:
    """All of S by one dense symmetric factorization, n^3; exact to rounding."""
    if not isinstance(S, DenseAffinity) and S.n > DENSE_LIMIT:
        return None
    try:
        values, vectors = torch.linalg.eigh(S.dense())
    except torch.linalg.LinAlgError:
        return None
    return values[-k:].flip(0), vectors[:, -k:].flip(1).contiguous()


def arpack(S: NormalizedAffinity, k: int, tol: Tolerance, start: np.ndarray) -> Eigenpairs | None:
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
    least = float(torch.as_tensor(tol).min())
    ncv = min(S.n, max(2 * k + 1, k + 20))
    try:
        w, V = spla.eigsh(operator, k=k, which="LA", v0=start, ncv=ncv, maxiter=300, tol=least)
    except (spla.ArpackError, RuntimeError):
        return None
    order = np.argsort(w)[::-1]
    values = torch.from_numpy(w[order]).to(S.device)
    vectors = torch.from_numpy(np.ascontiguousarray(V[:, order])).to(S.device)
    return None if _overlooked(S, values, vectors, start) else (values, vectors)


def block(S: NormalizedAffinity, k: int, tol: Tolerance, start: np.ndarray) -> Eigenpairs | None:
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
        W = X[:, first:].to(torch.float32 if coarse and S.has_single else V.dtype, copy=True)
        W = _chebyshev_filter(S, W, FILTER_DEGREE, edge).to(V.dtype)
    return theta[:k].clone(), X[:, :k].contiguous()


def subspace(S: NormalizedAffinity, k: int, tol: Tolerance, start: np.ndarray) -> Eigenpairs | None:
    """Subspace iteration on one block X (n x width) in float32: filter the columns that have not
    converged, take the Ritz vectors of all.

    Gram matrices, their eigenproblems and residuals are in float64, a few rows or columns at a
    time. A Lanczos run gives the filter's interval. The degree is what the last residual needs to
    fall to its tolerance, but lifts no more than float32 bears.
    """
    least = torch.as_tensor(tol, dtype=torch.float64, device=S.device).expand(k)
    width = k + max(4, k // 24)
    if not S.has_single or 3 * width > S.n or float(least.min()) < SINGLE_RESIDUAL:
        return None
    X = _scattered_block(start, width, S)
    edge = _edge(S, 2 * width, start)
    taken = torch.arange(width, device=S.device)
    degree = _degree(RANDOM_GAIN, _growth(edge))
    for _ in range(MAX_OUTER):
        for part in columns(S, len(taken)):
            X[:, taken[part]] = _chebyshev_filter(S, X[:, taken[part]], degree, edge)
        theta = _rayleigh_ritz(S, X)
        found = residuals(S, theta[:k], X[:, :k])
        over = (found / least).cpu()
        unconverged = (over > 1.0).nonzero()[:, 0]
        if len(unconverged) == 0:
            break
        # The columns beyond k take up what lies between the k-th eigenvalue and the interval.
        taken = torch.cat([unconverged, torch.arange(k, width)]).to(S.device)
        edge = max(edge, float(theta[-1]))
        missing = zip(over[unconverged].tolist(), theta.cpu()[unconverged].tolist(), strict=True)
        needed = max(_degree(2.0 * ratio, _growth(edge, w)) for ratio, w in missing)
        degree = min(needed, _degree(SINGLE_GAIN, _growth(edge)))
    return theta[:k].clone(), X[:, :k].contiguous()


def _degree(gain: float, growth: float) -> int:
    """The degree at which a filter that grows so lifts by ``gain``."""
    return max(LEAST_DEGREE, math.ceil(math.log(2.0 * gain) / max(growth, 1e-3)))


def _edge(S: NormalizedAffinity, count: int, start: np.ndarray) -> float:
    """About the eigenvalue of S that ``count`` others exceed: n times a Gauss quadrature's weight
    is the number of eigenvalues that its node stands for."""
    q = torch.from_numpy(start).to(S.device)[:, None]
    q, previous = q / q.norm(), torch.zeros_like(q)
    diagonal, beside = [], [0.0]
    for _ in range(min(LANCZOS_STEPS, S.n)):
        product = S.apply(q).sub_(previous, alpha=beside[-1])
        diagonal.append(float((product * q).sum()))
        product.sub_(q, alpha=diagonal[-1])
        beside.append(float(product.norm()))
        if beside[-1] < ROUNDING**0.5:
            break
        previous, q = q, product / beside[-1]
    theta, Y = scipy.linalg.eigh_tridiagonal(diagonal, beside[1:-1])
    exceeded = np.cumsum(S.n * Y[0, ::-1] ** 2)
    return float(theta[::-1][min(np.searchsorted(exceeded, count), len(theta) - 1)])


def _rayleigh_ritz(S: NormalizedAffinity, X: Tensor) -> Tensor:
    """Ritz values (b,), descending, of the span of X (n x b), whose columns become their vectors.

    Directions that are only rounding get Ritz values near 0.
    """
    b = X.shape[1]
    G, H = torch.zeros(2, b, b, dtype=torch.float64, device=S.device)
    for part in columns(S, b, RITZ_COLUMNS):
        product = S.apply(X[:, part].contiguous())
        for rows in chunks(S.n, b, S.device):
            x = X[rows].double()
            H[:, part] += x.T @ product[rows].double()
            if part.start == 0:
                G += x.T @ x
    scale = G.diagonal().clamp_min(torch.finfo(G.dtype).tiny).rsqrt()
    lengths, U = torch.linalg.eigh(scale[:, None] * G * scale)
    U = scale[:, None] * U * lengths.clamp_min(ROUNDING**0.75 * float(lengths[-1])).rsqrt()
    projected = U.T @ H @ U
    theta, Y = torch.linalg.eigh((projected + projected.T) / 2)
    Y = U @ Y.flip(1)
    for rows in chunks(S.n, b, S.device):
        X[rows] = (X[rows].double() @ Y).to(X.dtype)
    return theta.flip(0)


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


SOLVERS: dict[str, Solver] = {"eigh": eigh, "arpack": arpack, "block": block, "subspace": subspace}


def residuals(S: NormalizedAffinity, values: Tensor, vectors: Tensor) -> Tensor:
    """|S v_j - w_j v_j| (k,) in float64, infinite where anything is not finite."""
    found = torch.empty_like(values)
    for part in columns(S, len(values)):
        V = vectors[:, part].to(torch.float64, memory_format=torch.contiguous_format)
        found[part] = torch.linalg.vector_norm(S.apply(V) - V * values[part], dim=0)
    return found.nan_to_num_(torch.inf, torch.inf)


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


def _scattered_block(start: np.ndarray, width: int, S: NormalizedAffinity) -> Tensor:
    """Like `_random_block`, in float32 and made on the device: the last digits of multiples."""
    generator = np.random.default_rng(start[:8].view(np.uint64))
    times = torch.from_numpy(2.0 * generator.integers(1 << 20, 1 << 28, width) + 1.0).to(S.device)
    seeds = torch.from_numpy(start).to(S.device)[:, None]
    X = torch.empty((S.n, width), device=S.device)
    for part in columns(S, width):
        X[:, part] = (seeds * times[part]).frac_().abs_() - 0.5
    return X


def _chebyshev_filter(S: NormalizedAffinity, X: Tensor, degree: int, a: float) -> Tensor:
    """T_degree(S) X (n x b) in place of X, after the map that sends [-1, a] to [-1, 1].

    The three-term recurrence is scaled by its value at eigenvalue 1, so that no degree overflows.
    It takes some columns at a time, so that what it holds beside X is small and stays in a cache.
    """
    a = min(max(a, -0.9), 1.0 - 1e-8)
    half, center = (a + 1.0) / 2.0, (a - 1.0) / 2.0
    first = half / (1.0 - center)
    for part in columns(S, X.shape[1]):
        previous = X[:, part].clone(memory_format=torch.contiguous_format)
        sigma, current = first, previous * (-center * first / half)
        S.accumulate(current, previous, first / half, 1.0)
        for _ in range(degree - 1):
            following = 1.0 / (2.0 / first - sigma)
            step = 2.0 * following / half
            S.accumulate(previous, current, step, -sigma * following)
            previous.add_(current, alpha=-center * step)
            previous, current, sigma = current, previous, following
        X[:, part] = current
    return X


def columns(S: NormalizedAffinity, k: int, least: int = 0) -> Iterator[slice]:
    """Slices of the k columns of a block (n x k), of a bounded number of elements each."""
    step = max(least, LEAST_COLUMNS, _PART_ELEMENTS.get(S.device.type, 1 << 20) // S.n)
    for begin in range(0, k, step):
        yield slice(begin, min(begin + step, k))


def _gain(a: float, degree: int = FILTER_DEGREE) -> float:
    """The unscaled filter at eigenvalue 1, T_degree((3 - a) / (1 + a)); at most 1 on [-1, a]."""
    exponent = degree * _growth(a)
    return math.cosh(exponent) if exponent < 700.0 else math.inf


def _growth(a: float, w: float = 1.0) -> float:
    """By how much a degree adds to the logarithm of the filter at an eigenvalue w; 0 on [-1, a]."""
    a = min(max(a, -0.9), 1.0 - 1e-8)
    return math.acosh(max(1.0, (2.0 * w + 1.0 - a) / (1.0 + a)))


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
