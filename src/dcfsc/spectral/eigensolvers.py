"""Eigenpairs of the normalised affinity:  S V = V diag(w),  V'V = I,  w the k largest, descending.

Three solvers with one signature. `eigh` factors S whole. `arpack` is the implicitly restarted
Lanczos method, one product at a time. `block` is a block Chebyshev-Davidson method: it knows
that the spectrum lies in [-1, 1], so a Chebyshev polynomial of S that is small on [-1, a] and
grows fast on (a, 1] turns every block of products into a strong push towards the wanted end,
and a block at least as wide as k cannot overlook copies of an eigenvalue, as one Lanczos
vector can. It is written in torch and runs where S lives.

References: Y. Zhou and Y. Saad, "A Chebyshev-Davidson algorithm for large symmetric
eigenproblems", SIAM J. Matrix Anal. Appl. 29 (2007); Y. Zhou, "A block Chebyshev-Davidson method
with inner-outer restart for large eigenvalue problems", J. Comput. Phys. 229 (2010).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse.linalg as spla
import torch
from torch import Tensor

from dcfsc.spectral.graph import DenseAffinity, NormalizedAffinity, SparseAffinity

Eigenpairs: TypeAlias = tuple[Tensor, Tensor]  # values (k,) descending, vectors (n, k)
Solver: TypeAlias = Callable[
    [NormalizedAffinity, int, float, np.random.RandomState], "Eigenpairs | None"
]

GUARD = 4  # vectors computed beyond k: the last wanted pair converges with its neighbours


def eigh(
    S: NormalizedAffinity, k: int, tol: float, random: np.random.RandomState
) -> Eigenpairs | None:
    """All of S by one dense symmetric factorisation, n^3; exact to rounding."""
    del tol, random
    try:
        values, vectors = torch.linalg.eigh(S.dense())
    except torch.linalg.LinAlgError:
        return None
    return values[-k:].flip(0), vectors[:, -k:].flip(1).contiguous()


def arpack(
    S: NormalizedAffinity, k: int, tol: float, random: np.random.RandomState
) -> Eigenpairs | None:
    """Implicitly restarted Lanczos for the largest eigenvalues; a few more than k are asked for
    because a tight cluster of eigenvalues near 1 can hide one of its members."""
    asked = min(k + GUARD, S.n - 1)
    if asked < k:
        return None
    operator = spla.LinearOperator((S.n, S.n), matvec=S.matvec, dtype=np.float64)
    if isinstance(S, SparseAffinity) and S.tau == 0:
        operator = S.B
    elif isinstance(S, DenseAffinity) and S.device.type == "cpu":
        operator = S.S.numpy()
    try:
        values, vectors = spla.eigsh(
            operator,
            k=asked,
            which="LA",
            v0=random.standard_normal(S.n),
            ncv=min(S.n, max(2 * asked + 1, asked + 20)),
            maxiter=300,
            tol=tol,
        )
    except (spla.ArpackError, RuntimeError):
        return None
    order = np.argsort(values)[::-1][:k]
    w = torch.from_numpy(np.ascontiguousarray(values[order])).to(S.device)
    V = torch.from_numpy(np.ascontiguousarray(vectors[:, order])).to(S.device)
    return w, V


def block(
    S: NormalizedAffinity, k: int, tol: float, random: np.random.RandomState
) -> Eigenpairs | None:
    """Block Chebyshev-Davidson: filter the unconverged Ritz vectors, add them to an orthonormal
    basis, solve the projected problem, restart from the best Ritz vectors when it is full."""
    width = k + max(GUARD, k // 4)
    room = 3 * width
    if room > S.n:
        return None
    degree = DEGREE_DENSE if isinstance(S, DenseAffinity) else DEGREE_SPARSE
    start = random.standard_normal((S.n, width))
    V = torch.empty((S.n, room), dtype=torch.float64, device=S.device)  # basis (n, m <= room)
    H = torch.zeros((room, room), dtype=torch.float64, device=S.device)  # V' S V
    W = torch.from_numpy(start).to(S.device)
    m = 0
    for _ in range(MAX_OUTER):
        W = _orthonormal_against(V[:, :m], W)
        b = W.shape[1]
        V[:, m : m + b] = W
        column = V[:, : m + b].T @ S.apply(W)
        H[: m + b, m : m + b] = column
        H[m : m + b, : m + b] = column.T
        m += b
        theta, Y = torch.linalg.eigh((H[:m, :m] + H[:m, :m].T) / 2)
        theta, Y = theta.flip(0), Y.flip(1)
        X = V[:, :m] @ Y[:, :width]
        R = S.apply(X[:, :k]) - X[:, :k] * theta[:k]
        open_pairs = (torch.linalg.vector_norm(R, dim=0) > tol).nonzero()[:, 0]
        if len(open_pairs) == 0:
            return theta[:k].clone(), X[:, :k].contiguous()
        if m + width > room:
            V[:, :width] = X
            H.zero_()
            H.diagonal()[:width] = theta[:width]
            m = width
        first = int(open_pairs[0])
        W = _chebyshev_filter(S, X[:, first:], degree, float(theta[width - 1]))
    return theta[:k].clone(), X[:, :k].contiguous()


DEGREE_SPARSE = 16
DEGREE_DENSE = 8
MAX_OUTER = 200


def _chebyshev_filter(S: NormalizedAffinity, X: Tensor, degree: int, a: float) -> Tensor:
    """T_degree of S after the map that sends [-1, a] to [-1, 1], applied to X (n x b).

    The recurrence is scaled by T_j(at eigenvalue 1), so nothing overflows for any degree.
    """
    a = min(max(a, -0.9), 1.0 - 1e-8)
    half, centre = (a + 1.0) / 2.0, (a - 1.0) / 2.0
    sigma = first = half / (1.0 - centre)
    previous, current = X, (S.apply(X) - centre * X) * (sigma / half)
    for _ in range(degree - 1):
        following = 1.0 / (2.0 / first - sigma)
        product = S.apply(current)
        product -= centre * current
        product *= 2.0 * following / half
        product -= (sigma * following) * previous
        previous, current, sigma = current, product, following
    return current


def _orthonormal_against(V: Tensor, W: Tensor) -> Tensor:
    """An orthonormal basis of W's columns made orthogonal to V's (both n x .).

    Twice is enough for the projections; the last one repairs what QR fills in where W's columns
    were dependent.
    """
    W = W / torch.linalg.vector_norm(W, dim=0).clamp_min(torch.finfo(W.dtype).tiny)
    for _ in range(3):
        if V.shape[1]:
            W = W - V @ (V.T @ W)
        W = torch.linalg.qr(W).Q
    return W
