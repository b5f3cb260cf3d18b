"""Sparse self-expression (SSC): the lasso and the outlier program of Elhamifar and Vidal.

Rows are samples: Z is (N, d), the coefficients C are (N, N), Z ~ C Z and diag(C) = 0. Each row of C
is a problem of its own; all rows share one dictionary, so they are iterated together as matrices.

The iterations are in :mod:`dcfsc.self_expression.sparse_admm`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dcfsc.errors import InputError

from .explicit import ExplicitCoefficients
from .operator import Solution
from .sparse_admm import HatFactor, LassoProgram, OutlierProgram

# Correlations scanned at a time.
_SCAN = 2**22


@torch.no_grad()
def sparse_self_expression(
    Z: Tensor,
    alpha: float = 20.0,
    *,
    affine: bool = False,
    outliers: bool = True,
    tol: float = 2e-4,
    max_iter: int | None = None,
    weight: float | None = None,
    penalty: float | None = None,
    gamma: float | None = None,
) -> Solution:
    r"""Sparse subspace clustering's code of every sample by the others.

    With ``outliers`` (gross errors in some entries: shadows on faces, missing pixels)

        min |C|_1 + gamma |E|_1   subject to  Z = C Z + E,  diag(C) = 0    [C 1 = 1]

    else (small dense noise)

        min |C|_1 + weight/2 |Z - C Z|_F^2   subject to  diag(C) = 0       [C 1 = 1]

    Choose it for up to some ten thousand samples when the sparsest code matters more than speed;
    matching pursuit is faster, the closed form faster still. ``affine`` is for flats that miss the
    origin (motion trajectories). The authors take alpha = 20 for faces, with outliers, and 800 for
    motion, without; the lasso needs alpha > 1, or some rows of C are zero.

    Parameters
    ----------
    Z : samples in rows, (N, d), float32 or float64.
    alpha : the authors' one parameter, free of the data's scale: gamma = alpha / max_i |z_i|_1,
        penalty = alpha and weight = alpha / min_i max_{j != i} |z_i'z_j|, the maximum taken
        over the whole dictionary [Z; I/gamma] in the outlier program.
    affine : demand that the coefficients of a sample sum to one.
    outliers : which of the two programs.
    tol : bound on the entries of A - C (A: the auxiliary copy of C), with outliers also on the
        norms of the rows of Z - E - A Z relative to those of Z - E, and on |A 1 - 1| if affine.
    max_iter : at most so many steps; by default 150 with outliers and 200 without.
    weight : overrides alpha's; with outliers it is no part of the program, only of the path.
    penalty : ADMM's penalty on A = C, overrides alpha's; changes the path, not the solution.
    gamma : overrides alpha's.

    Returns
    -------
    Solution
        C of zero diagonal; with outliers ``error`` is E, (N, d).

    Notes
    -----
    Flops per step, at most: 4 N^2 d + 2 N d min(N, d) with outliers, 4 N^2 min(N, d) without;
    the sparsity of C saves most of 2 N^2 d of either. Memory: 3 N^2 numbers. The
    factorization of a matrix of order min(N, d) is done once, in double precision. The lasso
    knows Z through Z Z' alone and runs in min(N, d) rotated coordinates; the l1 norm of E is
    not invariant to rotation, so the outlier program keeps the d original ones. Samples
    orthogonal to all others (zero rows, for one) are left out of the minimum that sets
    ``weight``.

    References
    ----------
    E. Elhamifar, R. Vidal. Sparse subspace clustering: algorithm, theory, and applications.
    IEEE Transactions on Pattern Analysis and Machine Intelligence 35(11), 2013.
    """
    check_matrix(Z, "Z")
    check_positive(alpha=alpha, weight=weight, penalty=penalty, gamma=gamma)
    check_positive(tol=tol, max_iter=max_iter)
    if affine and len(Z) < 2:
        raise InputError("affine=True needs two samples or more: no sample may code itself.")
    penalty = penalty or alpha
    gamma = (gamma or alpha / (float(Z.abs().sum(1).max()) or 1.0)) if outliers else None
    peaks = peak_correlations(Z)
    if not affine and not peaks.any():
        return uncoded(Z, gamma)
    if gamma is not None:
        peaks = torch.maximum(peaks, Z.abs().amax(1) / gamma)
    weight = weight or alpha / least_positive(peaks)
    program: OutlierProgram | LassoProgram
    if gamma is not None:
        program = OutlierProgram(Z, gamma, weight, penalty, affine)
    else:
        factor = HatFactor.from_samples(Z, penalty / weight, affine)
        program = LassoProgram(factor, weight, penalty, affine)
    max_iter = max_iter if max_iter is not None else (150 if outliers else 200)
    return program.solve(tol, max_iter)


def peak_correlations(Z: Tensor) -> Tensor:
    """max_{j != i} |z_i'z_j| for each sample i, (N,); zero where it is no more than round-off."""
    step = max(1, _SCAN // len(Z))
    peaks = torch.cat(
        [off_diagonal_peaks(Z[i : i + step] @ Z.T, i) for i in range(0, len(Z), step)]
    )
    norms = torch.linalg.vector_norm(Z, dim=1)
    roundoff = Z.shape[1] ** 0.5 * torch.finfo(Z.dtype).eps * norms * norms.max()
    return torch.where(peaks > roundoff, peaks, 0)


def off_diagonal_peaks(rows: Tensor, start: int) -> Tensor:
    """Largest magnitude per row (b,) of rows ``start``, ... of a square matrix, less its diagonal.

    Overwrites ``rows``.
    """
    rows.diagonal(start).zero_()
    return rows.abs_().amax(1)


def least_positive(peaks: Tensor) -> float:
    """The least positive of ``peaks``, whose reciprocal sets a weight; 1 if there is none."""
    positive = peaks[peaks > 0]
    return float(positive.min()) if len(positive) else 1.0


def uncoded(Z: Tensor, gamma: float | None) -> Solution:
    """C = 0, the optimum where no two samples correlate; ``gamma`` for the outlier program."""
    C = ExplicitCoefficients(Z.new_zeros(len(Z), len(Z)))
    if gamma is None:
        return Solution(C, 0)
    objective = gamma * float(Z.abs().sum(dtype=torch.float64))
    return Solution(C, 0, objective=objective, error=Z.clone())


def check_matrix(Z: Tensor, name: str) -> None:
    """Refuse what is not a finite float32 or float64 matrix with at least one row and column."""
    if Z.ndim != 2 or Z.numel() == 0:
        raise InputError(f"{name} must be a non-empty matrix, got shape {tuple(Z.shape)}.")
    if Z.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} must be float32 or float64, got {Z.dtype}; convert it first.")
    if not bool(torch.isfinite(Z).all()):
        raise InputError(f"{name} has NaN or infinite entries; remove or impute them first.")


def check_positive(**values: float | None) -> None:
    """Refuse a parameter that is given and not a positive finite number."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"{name} must be a positive number, got {value!r}.")
