"""LRR by its authors' scheme, an inexact augmented Lagrangian (Liu et al. 2013).

It raises the penalty at each step and stops when the constraints hold: at a feasible point, not
always near the optimum (2.9 times its value on 640 faces with pixels from 0 to 255). The tables
have its numbers; the library's own solver ends at the optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dcfsc.estimators import LRR
from dcfsc.self_expression import ExplicitCoefficients, Solution
from dcfsc.self_expression.low_rank import shrink_singular_values

MU, RHO, MOST_MU = 1e-6, 1.1, 1e10  # the penalty's first value, growth and bound
TOL = 1e-8  # largest violation of a constraint


@torch.no_grad()
def inexact_augmented_lagrangian(
    Z: Tensor, lam: float = 0.18, max_iter: int = 2000, tol: float = TOL
) -> Solution:
    """min |C|_* + lam sum_i |e_i|_2  subject to  Z = C Z + E, in the authors' order of steps.

    With Z = V S U' of rank r, C = J V' for some J (N, r); the norm is invariant to U, so that Z is
    the diagonal S.
    """
    V, S, _ = torch.linalg.svd(Z.double(), full_matrices=False)
    r = int((max(Z.shape) * torch.finfo(Z.dtype).eps * float(S[0]) < S).sum())
    V, S = V[:, :r].contiguous(), S[:r]
    T, weight = V * S, S.square() + 1
    Y_J, Y_E, E, C = (torch.zeros_like(T) for _ in range(4))
    J, mu, n_iter, residual = C, MU, 0, math.inf
    while residual > tol and n_iter < max_iter:
        n_iter += 1
        J, _ = shrink_singular_values(C + Y_J / mu, 1 / mu)
        C = ((T - E + Y_E / mu) * S + J - Y_J / mu) / weight
        unexplained = T - C * S
        E = _shrink_rows(unexplained + Y_E / mu, lam / mu)
        violated_E, violated_J = unexplained - E, C - J
        Y_E += mu * violated_E
        Y_J += mu * violated_J
        residual = float(torch.maximum(violated_E.abs().max(), violated_J.abs().max()))
        mu = min(MOST_MU, RHO * mu)
    operator = ExplicitCoefficients((J @ V.T).to(Z.dtype))
    return Solution(operator, n_iter, residual, residual <= tol)


def _shrink_rows(E: Tensor, threshold: float) -> Tensor:
    size = torch.linalg.vector_norm(E, dim=1, keepdim=True)
    return E * (1 - threshold / size.clamp_min(threshold))


@dataclass(eq=False, repr=False)
class AuthorsLRR(LRR):
    """LRR with the scheme of its authors; samples may be wrong, not entries."""

    def _solve(self, Z: Tensor) -> Solution:
        return inexact_augmented_lagrangian(Z, self.lam, self.max_iter)
