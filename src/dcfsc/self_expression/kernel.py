"""Kernel sparse self-expression (KSSC): the lasso of sparse subspace clustering in feature space.

Rows are samples: K is the (N, N) kernel matrix, K_ij = <phi(z_i), phi(z_j)>, and the coefficients
C are (N, N) with phi(Z) ~ C phi(Z) and diag(C) = 0.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from dcfsc.errors import InputError, unknown_name

from .operator import Solution
from .sparse import check_matrix, check_positive, least_positive, off_diagonal_peaks, uncoded
from .sparse_admm import HatFactor, LassoProgram

Kernel = Literal["linear", "polynomial", "rbf"]


@torch.no_grad()
def kernel_matrix(
    Z: Tensor,
    kernel: Kernel = "polynomial",
    *,
    degree: int = 2,
    coef0: float = 1.0,
    gamma: float | None = None,
) -> Tensor:
    """K (N, N) of the rows of Z (N, d), in Z's precision.

        linear      gamma z_i'z_j
        polynomial  (gamma z_i'z_j + coef0)^degree
        rbf         exp(-gamma |z_i - z_j|^2)

    ``gamma`` is 1 by default, for "rbf" 1 / (d var(Z)), which is free of the data's scale. The
    polynomial is not: bring the rows to unit norm first. A negative ``coef0`` may leave K
    indefinite. Time 2 N^2 d flops, memory N^2 numbers and as many again for the squared distances.
    """
    check_matrix(Z, "Z")
    check_positive(gamma=gamma, degree=degree)
    if kernel not in get_args(Kernel):
        raise unknown_name("kernel", kernel, get_args(Kernel))
    if kernel == "rbf":
        if gamma is None:
            spread = float(Z.double().var(correction=0)) * Z.shape[1]
            gamma = 1 / spread if spread > 0 else 1.0
        # From the double-precision Gram matrix: close samples would cancel in single precision.
        G = Z.double() @ Z.double().T
        norms = G.diagonal().clone()
        G.mul_(-2).add_(norms[:, None]).add_(norms).clamp_(min=0).fill_diagonal_(0)
        return G.mul_(-gamma).exp_().to(Z.dtype)
    K = Z @ Z.T
    if gamma is not None:
        K *= gamma
    return K if kernel == "linear" else K.add_(coef0).pow_(degree)


@torch.no_grad()
def kernel_sparse_self_expression(
    K: Tensor,
    alpha: float = 20.0,
    *,
    affine: bool = False,
    tol: float = 2e-4,
    max_iter: int = 200,
    weight: float | None = None,
    penalty: float | None = None,
) -> Solution:
    """Sparse code of every sample by the others in a kernel's feature space.

        min |C|_1 + weight/2 tr(K - 2 C K + C K C')   subject to  diag(C) = 0   [C 1 = 1]

    With the linear kernel it is the lasso of :func:`~dcfsc.self_expression.sparse_self_expression`
    (``outliers=False``), iterate by iterate. Choose it for samples on curved surfaces, and for
    similarities that come as a matrix.

    Parameters
    ----------
    K : symmetric positive semi-definite, (N, N), float32 or float64; see :func:`kernel_matrix`.
    alpha : weight = alpha / min_i max_{j != i} |K_ij| and penalty = alpha, the parametrisation
        of sparse subspace clustering. Samples whose kernel with all others is no more than
        round-off are left out of the minimum.
    weight : weight of the data term, overrides alpha's.
    affine, tol, max_iter, penalty : as for ``sparse_self_expression``.

    Notes
    -----
    One eigendecomposition of K in double precision (about 9 N^3 flops), then per step
    2 N^2 r + 2 nnz(C) r flops, r <= N the rank of K to working precision.

    References
    ----------
    V. M. Patel, R. Vidal. Kernel sparse subspace clustering. ICIP 2014.
    """
    check_matrix(K, "K")
    check_positive(alpha=alpha, weight=weight, penalty=penalty)
    check_positive(tol=tol, max_iter=max_iter)
    n = len(K)
    if K.shape[1] != n or not torch.allclose(K, K.T, rtol=1e-4, atol=1e-5 * float(K.abs().max())):
        raise InputError(f"K must be square and symmetric, got shape {tuple(K.shape)}.")
    if affine and n < 2:
        raise InputError("affine=True needs two samples or more: no sample may code itself.")
    peaks = off_diagonal_peaks(K.clone(), 0)
    scale = K.diagonal().clamp(min=0).sqrt()
    peaks = torch.where(peaks > torch.finfo(K.dtype).eps * scale * scale.max(), peaks, 0)
    if not affine and not peaks.any():
        return uncoded(K, None)
    weight, penalty = weight or alpha / least_positive(peaks), penalty or alpha
    factor = HatFactor.from_kernel(K, penalty / weight, affine, K.dtype)
    program = LassoProgram(factor, weight, penalty, affine)
    return program.solve(tol, max_iter)
