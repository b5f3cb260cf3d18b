"""lam and its meaning, the effective degrees of freedom tr H = sum_i s_i^2 / (s_i^2 + lam)."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from dcfsc.errors import InputError

from .gram import squared_singular_values


def effective_dof(squares: Tensor, lam: float) -> float:
    """tr H for the squared singular values of Z and one lam."""
    return float((squares / (squares + lam)).sum())


def numerical_rank(squares: Tensor) -> int:
    """The number of squared singular values above the rounding of a float64 Gram matrix."""
    largest = float(squares.max())
    return int((squares > largest * len(squares) * 1e-15).sum()) if largest > 0 else 0


def lam_for_dof(squares: Tensor, dof: float) -> float:
    """The lam with tr H(lam) = dof: the unique root, as tr H falls from the rank to 0 in lam.

    A target at or above the rank has no root; 0.99 of the rank is taken instead.
    """
    rank = numerical_rank(squares)
    if rank == 0:
        raise InputError("all rows of the data are zero, so there is nothing to represent.")
    if not dof > 0:
        raise InputError(f"the effective degrees of freedom must be positive; got {dof}.")
    target = min(float(dof), 0.99 * rank)
    s = np.sort(squares.detach().cpu().double().numpy())[-rank:]
    # tr H <= sum(s)/lam and tr H >= rank s_min/(s_min+lam) bracket the root.
    low, high = math.log(s[0]) - 40.0, math.log(s.sum() / target) + 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if (s / (s + math.exp(middle))).sum() > target:
            low = middle
        else:
            high = middle
        if high - low < 1e-12 * max(1.0, abs(high)):
            break
    return math.exp(0.5 * (low + high))


def target_dof(n_clusters: int, subspace_dim: float) -> float:
    """The trace K m of the ideal projector on K subspaces of dimension m."""
    if not isinstance(subspace_dim, Real) or not 1e-6 <= float(subspace_dim) < math.inf:
        raise InputError(f"subspace_dim must be a positive number; got {subspace_dim!r}.")
    return n_clusters * float(subspace_dim)


def choose_lam(Z: Tensor, dof: float) -> float:
    """The lam at which the closed form of Z (N, d) has ``dof`` effective degrees of freedom.

    K subspaces of dimension m have an ideal projector of trace K m, so ``dof = K * m`` turns a
    number that people understand into lam, whatever the scale of the data.
    """
    return lam_for_dof(squared_singular_values(Z), dof)


class LambdaPath:
    """Everything along the lambda path from one eigendecomposition of Z'Z or Z Z'.

    With Z = U s V', h_i(lam) = sum_k U_ik^2 s_k^2 / (s_k^2 + lam): leverages, degrees of freedom
    and the leave-one-out error |Z - B(lam) Z|^2 for a lam at the price of N r.
    """

    def __init__(self, Z: Tensor):
        Z64 = Z.detach().to(torch.float64)
        self._U, s, _ = torch.linalg.svd(Z64, full_matrices=False)  # (N, r)
        self.squares = s.square()

    def effective_dof(self, lam: float) -> float:
        return effective_dof(self.squares, lam)

    def leverage(self, lam: float) -> Tensor:
        return self._U.square() @ (self.squares / (self.squares + lam))

    def leave_one_out_error(self, lam: float) -> float:
        """|Z - B Z|_F^2: row i of Z - B Z is lam z_i (Z'Z + lam I)^-1 / (1 - h_i)."""
        shrink = lam * self.squares.sqrt() / (self.squares + lam)
        row_squares = self._U.square() @ shrink.square()
        return float((row_squares / (1.0 - self.leverage(lam)).clamp_min(1e-300).square()).sum())
