"""Coefficients and a doubly stochastic affinity in one convex problem (J-DSSC, Lim et al. 2020).

With C = P - Q, W = P + Q (P, Q >= 0, zero diagonal) and A doubly stochastic,

    min  1/2 |Z - C Z|_F^2 + e1/2 |W - e2 A|_F^2 + e3 |W|_1.

The best A for a given W is the projection of W / e2, and half the squared distance to a convex set
is smooth. So what remains is smooth in P, Q >= 0, and accelerated projected gradients with restarts
find its minimum. The projection is the caller's: it is an affinity.

References
----------
D. Lim, R. Vidal, B. D. Haeffele. Doubly stochastic subspace clustering. arXiv:2011.14859, 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.errors import InputError

from .explicit import ExplicitCoefficients
from .gram import squared_singular_values
from .operator import Operator
from .sparse import check_matrix, check_positive

Project = Callable[[Operator, float], sp.csr_array]


@dataclass(frozen=True, eq=False)
class JointAffinity:
    """What :func:`joint_affinity` found.

    Attributes:
        coefficients: A, (N, N) doubly stochastic, as CSR: what is to be clustered.
        expression: C = P - Q, (N, N).
        magnitudes: W = P + Q, (N, N).
        n_iter, residual, converged: steps, the last relative change of P and Q, and whether it is
            within the tolerance.
    """

    coefficients: sp.csr_array
    expression: Tensor
    magnitudes: Tensor
    n_iter: int
    residual: float
    converged: bool


@torch.no_grad()
def joint_affinity(
    Z: Tensor,
    eta1: float,
    eta2: float,
    eta3: float,
    project: Project,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> JointAffinity:
    """The minimum of the joint problem for rows Z (N, d).

    Args:
        Z: samples in rows, float32 or float64.
        eta1, eta2, eta3: the weights e1, e2 and e3; e3 may be zero.
        project: (operator, e2) -> the doubly stochastic A nearest to |C| / e2.
        tol: stop where a step changes P and Q by no more, relative to their norm.
        max_iter: at most so many steps.

    Notes:
        A step costs 4 N^2 d flops and a projection; memory 10 N^2.
    """
    check_matrix(Z, "Z")
    check_positive(eta1=eta1, eta2=eta2, tol=tol, max_iter=max_iter)
    if not eta3 >= 0:
        raise InputError(f"eta3 must not be negative; got {eta3}.")
    n = len(Z)
    rate = 1.0 / (2.0 * float(squared_singular_values(Z).max()) + 2.0 * eta1)
    V = Z.new_zeros(2, n, n)  # P and Q
    ahead, momentum = V, 1.0
    n_iter, residual, converged = 0, float("inf"), False
    while not converged and n_iter < max_iter:
        n_iter += 1
        W = ahead[0] + ahead[1]
        residue = (ahead[0] - ahead[1]) @ Z - Z
        fit = residue @ Z.mT
        near = eta2 * _dense(project(ExplicitCoefficients(W), eta2), Z)
        common = eta1 * (W - near) + eta3
        new = (ahead - rate * torch.stack([common + fit, common - fit])).clamp_min_(0.0)
        new.diagonal(dim1=1, dim2=2).zero_()
        change = new - V
        if float(((ahead - new) * change).sum()) > 0:  # uphill: start again without momentum
            momentum = 1.0
        faster = 0.5 * (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5)
        ahead = new + (momentum - 1.0) / faster * change
        V, momentum = new, faster
        residual = float(change.norm()) / max(float(V.norm()), 1e-300)
        converged = residual <= tol
    W = V[0] + V[1]
    A = project(ExplicitCoefficients(W), eta2)
    return JointAffinity(A, V[0] - V[1], W, n_iter, residual, converged)


def joint_affinity_memory(n: int, d: int, dtype: torch.dtype) -> int:
    """Peak bytes of :func:`joint_affinity` for (n, d), besides Z."""
    return dtype.itemsize * (10 * n * n + 2 * n * d)


def _dense(A: sp.csr_array, like: Tensor) -> Tensor:
    return torch.from_numpy(A.toarray()).to(like)
