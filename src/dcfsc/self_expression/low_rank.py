"""Low-rank self-expression: LRR (Liu et al.) and LRSC (Vidal and Favaro).

Rows are samples: Z is (N, d), the coefficients C are (N, N) and Z ~ C Z. The papers put samples in
columns; their matrices are the transposes of these. Whatever the precision of Z, the computation is
in double precision and the result is in that of Z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from dcfsc.errors import unknown_name

from .explicit import ExplicitCoefficients
from .operator import Solution
from .sparse import check_matrix, check_positive

ErrorNorm = Literal["l21", "l1"]

_CHECK_EVERY = 10  # a duality gap costs about half an iteration
_PENALTY, _RELAXATION = 3.0, 1.6  # for a program scaled by _balanced_scale


@torch.no_grad()
def low_rank_representation(
    Z: Tensor,
    lam: float = 0.18,
    *,
    norm: ErrorNorm = "l21",
    gap: float = 1e-4,
    max_iter: int = 2000,
) -> Solution:
    r"""Low-rank representation: the code of lowest nuclear norm, up to errors in a few samples.

        min |C|_* + lam |E|   subject to  Z = C Z + E

    with |E| = sum_i |e_i|_2 over the samples (``norm="l21"``) or sum_ij |E_ij| ("l1"). The problem
    is convex. Without errors (lam = inf) the answer is C = V V', V the left singular vectors of Z:
    block diagonal for independent subspaces. Choose it when whole samples ("l21") or some entries
    ("l1") are grossly wrong, and N and the rank of Z allow an eigendecomposition per iteration;
    :func:`low_rank_subspace` needs only one for all, with Gaussian noise in place of gross errors.

    Parameters
    ----------
    Z : samples in rows, (N, d), float32 or float64.
    lam : price of the errors; Z -> s Z with lam -> lam / s leaves C as it is. The authors take
        0.18 for Extended Yale B. ``math.inf`` asks for the code without errors.
    norm : which errors are expected.
    gap : relative duality gap at which it stops.
    max_iter : at most so many iterations.

    Returns
    -------
    Solution
        ``residual`` is a certified bound on (objective - optimum) / objective, from a feasible dual
        point; ``error`` is E, whose rows ("l21") or entries ("l1") far from zero are corrupted.

    Notes
    -----
    ADMM over two blocks at a fixed penalty, which converges to the optimum whatever the scale
    of Z. With Z = V S U' of rank r, C = J V' for some J (N, r), so every matrix is N x r, not
    N x N; the l21 norm is invariant to U, so those errors are N x r too and Z is the diagonal
    S. An iteration is one eigendecomposition of order r: 4 N r^2 + 9 r^3 flops, and 4 N r d
    more with "l1".

    References
    ----------
    G. Liu, Z. Lin, S. Yan, J. Sun, Y. Yu, Y. Ma. Robust recovery of subspace structures by
    low-rank representation. IEEE Trans. Pattern Analysis and Machine Intelligence 35(1), 2013.
    """
    check_matrix(Z, "Z")
    if norm not in get_args(ErrorNorm):
        raise unknown_name("norm", norm, get_args(ErrorNorm))
    check_positive(lam=None if lam == math.inf else lam, gap=gap, max_iter=max_iter)
    X = Z.double()
    V, S, Ut = torch.linalg.svd(X, full_matrices=False)
    negligible = max(Z.shape) * torch.finfo(Z.dtype).eps * float(S[0])
    r = int((negligible < S).sum())
    V, S, Ut = V[:, :r].contiguous(), S[:r], Ut[:r]
    if lam == math.inf or r == 0:
        C = (V @ V.T).to(Z.dtype)
        return Solution(ExplicitCoefficients(C), 0, objective=float(r), error=Z - C @ Z)
    scale = _balanced_scale(X, lam, norm)
    target, directions = (V * S, None) if norm == "l21" else (X, Ut)
    program = _Program(target / scale, S / scale, directions, lam * scale)
    J, n_iter, residual, objective = _admm(program, gap, max_iter)
    E = (X - J @ (V.T @ X)).to(Z.dtype)
    C = ExplicitCoefficients((J @ V.T).to(Z.dtype))
    return Solution(C, n_iter, residual, residual <= gap, objective, error=E)


@dataclass(frozen=True, eq=False)
class _Program:
    """min |J|_* + lam |E|  subject to  T = J B + E,  B = diag(spectrum) or diag(spectrum) U'."""

    target: Tensor  # T, (N, r) for l21 and (N, d) for l1
    spectrum: Tensor  # (r,), descending
    directions: Tensor | None  # U', (r, d) for l1; for l21 everything is rotated by U
    lam: float

    def times(self, J: Tensor) -> Tensor:
        """J B, shaped as the target."""
        scaled = J * self.spectrum
        return scaled if self.directions is None else scaled @ self.directions

    def adjoint(self, E: Tensor) -> Tensor:
        """E B', (N, r)."""
        return (E if self.directions is None else E @ self.directions.T) * self.spectrum

    def shrink(self, E: Tensor, threshold: float) -> Tensor:
        """The proximal map of threshold times the norm of the errors."""
        if self.directions is None:
            size = torch.linalg.vector_norm(E, dim=1, keepdim=True)
            return E * (1 - threshold / size.clamp_min(threshold))
        return torch.nn.functional.softshrink(E, threshold)

    def norm(self, E: Tensor) -> float:
        """|E|, the sum over rows (l21) or entries (l1)."""
        if self.directions is None:
            return float(torch.linalg.vector_norm(E, dim=1).sum())
        return float(E.abs().sum())

    def lower_bound(self, Y: Tensor) -> float:
        """The dual max <Y, T>, |Y B'|_2 <= 1, |Y|^dual <= lam, at Y scaled until it is feasible."""
        image = self.adjoint(Y)
        spectral = float(torch.linalg.eigvalsh(image.T @ image)[-1].clamp_min(0).sqrt())
        rows = torch.linalg.vector_norm(Y, dim=1) if self.directions is None else Y.abs()
        excess = max(1.0, spectral, float(rows.max()) / self.lam)
        return float((Y * self.target).sum()) / excess


def _admm(program: _Program, gap: float, max_iter: int) -> tuple[Tensor, int, float, float]:
    """J (N, r), the iterations, the gap and the objective.

    Two blocks, (J, E) and C = J, at a fixed penalty and over-relaxed; W are scaled multipliers.
    J and E do not meet in any term, so they are one block and the classical proof holds. After
    each step the multiplier of C = J is W_E B', hence W_E alone gives the dual point.
    """
    mu, relax, T = _PENALTY, _RELAXATION, program.target
    weight = program.spectrum.square() + 1
    W_J = T.new_zeros(len(T), len(weight))
    C, W_E, fit = torch.zeros_like(W_J), torch.zeros_like(T), torch.zeros_like(T)
    bound, n_iter, reached = 0.0, 0, math.inf
    while reached > gap and n_iter < max_iter:
        n_iter += 1
        J, singular = shrink_singular_values(C + W_J, 1 / mu)
        E = program.shrink(T - fit + W_E, program.lam / mu)
        mixed_J = torch.lerp(C, J, relax)
        mixed_E = torch.lerp(T - fit, E, relax)
        C = (program.adjoint(T - mixed_E + W_E) + mixed_J - W_J) / weight
        fit = program.times(C)
        W_E += T - fit - mixed_E
        W_J += C - mixed_J
        if n_iter % _CHECK_EVERY == 0 or n_iter == max_iter:
            objective = float(singular.sum()) + program.lam * program.norm(T - program.times(J))
            bound = max(bound, program.lower_bound(mu * W_E))
            reached = (objective - bound) / objective
    return J, n_iter, max(reached, 0.0), objective


def shrink_singular_values(M: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """argmin_J threshold |J|_* + 1/2 |J - M|^2 for M (N, r), and J's positive singular values."""
    size = float(torch.linalg.matrix_norm(M))
    if size <= threshold:
        return torch.zeros_like(M), M.new_zeros(0)
    # Squaring leaves an error of round-off * size^2 / threshold in the values that matter.
    if threshold > 1e-6 * size:
        squares, W = torch.linalg.eigh(M.T @ M)
        keep = squares > threshold**2
        s, W = squares[keep].sqrt(), W[:, keep]
        return ((M @ W) * (1 - threshold / s)) @ W.T, s - threshold
    U, s, Wt = torch.linalg.svd(M, full_matrices=False)
    keep = s > threshold
    s = s[keep] - threshold
    return (U[:, keep] * s) @ Wt[keep], s


def _balanced_scale(Z: Tensor, lam: float, norm: ErrorNorm) -> float:
    """The s for which the samples of Z / s are as large as the price lam s of their errors.

    So are the singular values of C and the bound of its multiplier, both one at most: one penalty
    of order one then suits both constraints.
    """
    size = torch.linalg.vector_norm(Z, dim=1) if norm == "l21" else Z.abs()
    return math.sqrt(float(size.mean()) / lam)


@torch.no_grad()
def low_rank_subspace(Z: Tensor, tau: float | None = None, alpha: float | None = None) -> Solution:
    r"""Low-rank subspace clustering: clean data and its low-rank code, both in closed form.

        min |C|_* + tau/2 |A - C A|_F^2 + alpha/2 |Z - A|_F^2    over A and C = C'

    Choose it for Gaussian noise: one singular value decomposition, no iteration, nothing to tune
    but two scales. For grossly wrong samples see :func:`low_rank_representation`.

    Parameters
    ----------
    Z : samples in rows, (N, d), float32 or float64.
    tau : price of an imperfect code; by default 100 / |Z|_2^2, |Z|_2 the largest singular value,
        as in the authors' code. C is then free of the scale of Z.
    alpha : price of the noise Z - A; by default tau / 2. ``math.inf`` fixes A = Z.

    Returns
    -------
    Solution
        C = C', of eigenvalues in [0, 1); ``clean`` is A, ``n_iter`` the Newton steps for the roots
        of the polynomial and ``residual`` the largest relative defect of a root.

    Notes
    -----
    With Z = V diag(sigma) U', the minimum is C = V diag(1 - 1/u^2)_+ V' and sqrt(tau) A =
    V diag(u) U', where each u minimizes, for x = sqrt(tau) sigma and a = alpha / tau,

        a/2 (x - u)^2 + phi(u),   phi(u) = u^2 / 2 if u <= 1, else 1 - 1 / (2 u^2).

    phi is what the best C pays for a singular value of A. A minimizer is u = a x / (a + 1) with
    no part in C, or the largest root of u + 1 / (a u^3) = x; the cheaper is taken. The problem
    in (A, C) is not convex, yet this is its global minimum: given the singular values of A,
    |Z - A| is least when A shares the singular vectors of Z. For a < 3, u jumps where both cost
    the same; alpha = inf (u = x) is convex and keeps sigma > 1/sqrt(tau). Cost: N d min(N, d)
    for the decomposition, N^2 rank for C.

    References
    ----------
    R. Vidal, P. Favaro. Low rank subspace clustering (LRSC). Pattern Recognition Letters, 2014.
    """
    check_matrix(Z, "Z")
    check_positive(tau=tau, alpha=None if alpha == math.inf else alpha)
    V, sigma, Ut = torch.linalg.svd(Z.double(), full_matrices=False)
    tau = tau or 100 / (float(sigma[0]) ** 2 or 1.0)
    alpha = alpha or tau / 2
    x, a = math.sqrt(tau) * sigma, alpha / tau
    if alpha == math.inf:
        u, n_iter, residual, clean, noise = x, 0, 0.0, Z, 0.0
    else:
        u, n_iter, residual = _polynomial_shrinkage(x, a)
        clean = ((V * (u / math.sqrt(tau))) @ Ut).to(Z.dtype)
        noise = a / 2 * float((x - u).square().sum())
    rank = int((u > 1).sum())  # u does not decrease with x, so the kept values come first
    C = ((V[:, :rank] * (1 - u[:rank] ** -2)) @ V[:, :rank].T).to(Z.dtype)
    cost = float(_code_price(u).sum()) + noise
    operator, exact = ExplicitCoefficients(C), residual < 1e-12
    return Solution(operator, n_iter, residual, exact, cost, clean, Z - clean)


def _code_price(u: Tensor) -> Tensor:
    """min_c |c| + (1 - c)^2 u^2 / 2, at c = 1 - 1/u^2 where that is positive."""
    return torch.where(u > 1, 1 - 0.5 / u.clamp_min(1).square(), u.square() / 2)


def _polynomial_shrinkage(x: Tensor, a: float) -> tuple[Tensor, int, float]:
    """argmin_u a/2 (x - u)^2 + phi(u) for each x; the Newton steps and the largest defect."""
    small = a / (a + 1) * x
    low = max(1.0, (3 / a) ** 0.25)  # u + 1 / (a u^3) increases and is convex from here on
    exists = x >= low + 1 / (a * low**3)
    u = torch.where(exists, x, 2 * low)
    goal = torch.where(exists, x, 2 * low + 1 / (a * (2 * low) ** 3))
    n_iter, defect = 0, math.inf
    # From the right of the largest root Newton's steps decrease towards it.
    while defect > 1e-15 and n_iter < 60:
        n_iter += 1
        slope = (1 - 3 / (a * u**4)).clamp_min(1e-12)
        u = (u - (u + 1 / (a * u**3) - goal) / slope).clamp_min(low)
        defect = float(((u + 1 / (a * u**3) - goal) / goal).abs().max())
    price = a / 2 * (goal - u).square() + _code_price(u)
    cheaper = exists & (price <= a / 2 * (x - small).square() + small.square() / 2)
    return torch.where(cheaper, u, small), n_iter, defect
