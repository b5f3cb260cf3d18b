"""Dense self-expression (EDSC, Ji, Salzmann and Li): least squares, with or without outliers.

Rows are samples: Z is (N, d), the coefficients C are (N, N) and Z ~ C Z. The paper puts samples in
columns; its matrices are the transposes of these. Whatever the precision of Z, the computation is
in double precision and the result is in that of Z.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as functional
from torch import Tensor

from .explicit import ExplicitCoefficients
from .operator import Solution
from .sparse import check_matrix, check_positive


@torch.no_grad()
def dense_self_expression(
    Z: Tensor,
    l1: float = 100.0,
    l2: float | None = None,
    *,
    outliers: bool = True,
    rho: float = 3.0,
    mu: float = 1e-6,
    max_mu: float = 1e10,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Solution:
    r"""Efficient dense subspace clustering: the code of least Frobenius norm.

    Without ``outliers``, a ridge regression of the samples on themselves, in closed form:

        min 1/2 |C|_F^2 + l1/2 |Z - C Z|_F^2,     C = l1 Z Z' (I + l1 Z Z')^-1

    With them, for clean samples D and sparse errors E that are both unknown:

        min 1/2 |C|_F^2 + l1/2 |Z - D - E|_F^2 + l2 |E|_1   subject to  D = C D

    Choose the first when speed matters (C is symmetric, its diagonal is not zero), the second when
    some entries are grossly wrong (shadows, occlusions).

    Parameters
    ----------
    Z : samples in rows, (N, d), float32 or float64.
    l1 : price of noise; Z -> s Z with l1 -> l1 / s^2, l2 -> l2 / s leaves C as it is. The
        authors take (l1, l2) = (0.06, 0.01) for faces scaled to a maximum of one.
    l2 : price of outliers, by default l1 / 2. An entry is one where |Z - D| > l2 / l1.
    outliers : which of the two problems.
    rho, mu, max_mu : growth, first value and bound of the penalty (the authors' eta, rho and
        max_rho), for Z scaled to a largest entry of one.
    tol : bound on the entries of D - C D, for Z scaled likewise.
    max_iter : at most so many iterations.

    Returns
    -------
    Solution
        With outliers ``clean`` is D, ``error`` is E and ``residual`` the largest entry of D - C D,
        relative to that of Z.

    Notes
    -----
    What the second problem asks for: the C of least norm with D = C D is the projector on the
    column space of D, at the price rank(D) / 2. So it is robust principal component analysis
    with a penalty on the rank, and not convex. The algorithm, the authors' augmented
    Lagrangian, minimizes exactly over D, over C and over E in turn while the penalty grows.
    Where it stops, C is optimal for D (that projector), and (D, E) for C, a convex problem, up
    to about 1e-6 of the value; the rank and the column space depend on the path, and no global
    minimum is promised. On faces, rho = 1.1 and ten times the iterations ended up to 4% lower
    than the authors' rho = 3, level with alternating exact minimization over (D, C) and E.
    The growing penalty meets the tolerance by itself: ``converged`` says that D = C D holds,
    not that the value is least.

    With G = D'D the C-step and the multiplier's are one, Y <- (Y + mu D) (I + mu G)^-1 and
    C = Y D', so C is formed once, at the end. The D-step is a system of order N with the matrix
    l1 I + mu (I - C)'(I - C), which is l1 + mu off the columns of Y and D: a system of order
    2d where that is smaller. Flops per iteration: 3 N^3 + 12 N^2 d, or 40 N d^2 for N > 2d.
    The closed form: one eigendecomposition of order min(N, d), and N^2 min(N, d) for C.

    References
    ----------
    P. Ji, M. Salzmann, H. Li. Efficient dense subspace clustering. IEEE Winter Conference on
    Applications of Computer Vision, 2014.
    """
    check_matrix(Z, "Z")
    check_positive(l1=l1, l2=l2, rho=rho, mu=mu, max_mu=max_mu, tol=tol, max_iter=max_iter)
    if not outliers:
        return _ridge(Z, l1)
    l2 = l2 or l1 / 2
    scale = float(Z.abs().max()) or 1.0
    X, l1, l2 = Z.double() / scale, l1 * scale**2, l2 * scale
    D, Y, E = torch.zeros_like(X), torch.zeros_like(X), torch.zeros_like(X)
    n_iter, residual = 0, math.inf
    while residual > tol and n_iter < max_iter:
        n_iter += 1
        D = _clean_step(l1 * (X - E), Y, D, l1, mu)
        previous, Y = Y, _multiplier_step(Y, D, mu)
        E = functional.softshrink(X - D, l2 / l1)
        residual = float((Y - previous).abs().max()) / mu  # D - C D
        mu = min(max_mu, rho * mu)
    C = Y @ D.T
    noise = float((X - D - E).square().sum())
    objective = (float(C.square().sum()) + l1 * noise) / 2 + l2 * float(E.abs().sum())
    C, D, E = C.to(Z.dtype), (scale * D).to(Z.dtype), (scale * E).to(Z.dtype)
    operator, converged = ExplicitCoefficients(C), residual <= tol
    return Solution(operator, n_iter, residual, converged, objective, clean=D, error=E)


def _ridge(Z: Tensor, l1: float) -> Solution:
    """C = K (K + I / l1)^-1 for K = Z Z', through the smaller of Z'Z and Z Z'."""
    X = Z.double()
    by_samples = X.shape[0] <= X.shape[1]
    g, B = torch.linalg.eigh(X @ X.T if by_samples else X.T @ X)
    # Round-off in a zero eigenvalue must not become a share of one in C where l1 is huge.
    keep = g > len(g) * torch.finfo(g.dtype).eps * g[-1]
    g, B = g[keep], B[:, keep]
    F = B * (g / (g + 1 / l1)).sqrt() if by_samples else X @ (B * (g + 1 / l1).rsqrt())
    C = F @ F.T
    # At the minimum |C|^2 + l1 |Z - C Z|^2 = tr C, the effective degrees of freedom.
    return Solution(ExplicitCoefficients(C.to(Z.dtype)), 0, objective=float(C.trace()) / 2)


def _clean_step(target: Tensor, Y: Tensor, D: Tensor, l1: float, mu: float) -> Tensor:
    """Solves (l1 I + mu M'M) X = target - M'Y for X (N, d), where M = I - C and C = Y D'."""
    n, d = Y.shape
    if n <= 2 * d:
        M = -(Y @ D.T)
        M.diagonal().add_(1)
        return _solve_positive(mu * (M.T @ M), l1, target - M.T @ Y)
    right = target - Y + D @ (Y.T @ Y)
    # M is the identity on the complement of the columns of Y and D.
    Q = torch.linalg.qr(torch.cat([Y, D], 1)).Q  # (N, 2d)
    M = -(Q.T @ Y) @ (Q.T @ D).T
    M.diagonal().add_(1)
    inside = Q.T @ right
    off = right / (l1 + mu)
    return off + Q @ (_solve_positive(mu * (M.T @ M), l1, inside) - inside / (l1 + mu))


def _multiplier_step(Y: Tensor, D: Tensor, mu: float) -> Tensor:
    """(Y + mu D) (I + mu D'D)^-1, through the smaller of D'D and D D'."""
    n, d = D.shape
    if d <= n:
        return _solve_positive(mu * (D.T @ D), 1.0, (Y + mu * D).T).T
    shrunk = mu * _solve_positive(mu * (D @ D.T), 1.0, D)
    return Y + shrunk - (Y @ D.T) @ shrunk


def _solve_positive(A: Tensor, ridge: float, right: Tensor) -> Tensor:
    """(A + ridge I)^-1 right for a positive semi-definite A, which is overwritten."""
    A.diagonal().add_(ridge)
    L, info = torch.linalg.cholesky_ex(A)
    if int(info) != 0:  # the ridge is lost in rounding beside A
        return torch.linalg.solve(A, right)
    return torch.cholesky_solve(right, L)
