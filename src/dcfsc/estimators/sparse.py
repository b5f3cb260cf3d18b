"""Sparse self-expression: SSC, KernelSSC, SSCOMP and EnSC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from dcfsc import self_expression
from dcfsc.parameters import FLAG, HUGE, NONE, POSITIVE, TINY, one_of, real, table, whole
from dcfsc.self_expression import Solution
from dcfsc.self_expression.elastic_net import rows_together
from dcfsc.self_expression.matching_pursuit import BLOCK, use_gram

from .shallow import ShallowClusterer


@dataclass(eq=False, repr=False, kw_only=True)
class SSC(ShallowClusterer):
    """Sparse Subspace Clustering (Elhamifar and Vidal 2013).

        min |C|_1 + gamma |E|_1   subject to   Z = C Z + E,  diag(C) = 0     (outliers=True)
        min |C|_1 + mu / 2 |Z - C Z|_F^2   subject to   diag(C) = 0          (outliers=False)

    by ADMM over all samples at once; ``affine`` adds C 1 = 1. Choose it when the sparsest code
    matters: subspaces that intersect, gross errors in some pixels. It costs 4 N^2 d per step for
    some hundred steps; memory is a few N^2.

    Parameters
    ----------
    n_clusters : int or "auto"
    alpha : float
        The authors' one parameter, free of the data's scale (20 for faces, 800 for motion).
    outliers, affine : bool
    tol, max_iter : the authors' stopping rule; None is 150 steps with outliers, 200 without.
    scale : "none", "unit" or "max"
        Rows unchanged, at unit length, or divided by the largest magnitude.
    affinity, assign, device, random_state
        As in :class:`ClosedFormSubspaceClustering`.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, next_best_, coefficients_, affinity_matrix_, embedding_, \
eigenvalues_, n_iter_, residual_
    """

    alpha: float = 20.0
    outliers: bool = True
    affine: bool = False
    tol: float = 2e-4
    max_iter: int | None = None
    scale: str = "none"

    _table = table(
        alpha=POSITIVE, outliers=FLAG, affine=FLAG, tol=POSITIVE, max_iter=whole(1) | NONE
    )

    def _solve(self, Z: Tensor) -> Solution:
        return self_expression.sparse_self_expression(
            Z,
            self.alpha,
            affine=self.affine,
            outliers=self.outliers,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        return size * n * (3.4 * n + 11 * d)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSSC(ShallowClusterer):
    """Kernel Sparse Subspace Clustering (Patel and Vidal 2014).

        min |C|_1 + mu / 2 tr(K - 2 C K + C K C')   subject to   diag(C) = 0

    with the kernel matrix K of the samples: SSC in the kernel's feature space. Choose it for
    curved clusters. It costs N^3 once and 2 N^3 per step; memory is a few N^2.

    Parameters
    ----------
    kernel : "polynomial", "rbf" or "linear"
    degree, coef0, gamma : the kernel's, (gamma z'z + coef0)^degree and exp(-gamma |z - z'|^2)
    others, and the attributes : as in :class:`SSC`; use rows of unit length for the
        polynomial kernel.
    """

    kernel: Literal["linear", "polynomial", "rbf"] = "polynomial"
    degree: int = 2
    coef0: float = 1.0
    gamma: float | None = None
    alpha: float = 20.0
    affine: bool = False
    tol: float = 2e-4
    max_iter: int = 200

    _table = table(
        kernel=one_of("linear", "polynomial", "rbf"),
        degree=whole(1, 100).needs("kernel", "polynomial"),
        coef0=real(-HUGE).needs("kernel", "polynomial"),
        gamma=POSITIVE | NONE,
        alpha=POSITIVE,
        affine=FLAG,
        tol=POSITIVE,
        max_iter=whole(1),
    )

    def _solve(self, Z: Tensor) -> Solution:
        K = self_expression.kernel_matrix(
            Z, self.kernel, degree=self.degree, coef0=self.coef0, gamma=self.gamma
        )
        return self_expression.kernel_sparse_self_expression(
            K, self.alpha, affine=self.affine, tol=self.tol, max_iter=self.max_iter
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        return max(56, 10 * size) * n * n


@dataclass(eq=False, repr=False, kw_only=True)
class SSCOMP(ShallowClusterer):
    """Sparse Subspace Clustering by Orthogonal Matching Pursuit (You, Robinson and Vidal 2016).

        min_{c_i} |z_i - c_i Z|^2   subject to   |c_i|_0 <= k,  c_ii = 0

    greedily, all samples at once. Choose it for many samples when sparse codes are wanted. Cost
    2 N^2 d and N^2 k a step, memory N k and a block of rows; the affinity is sparse.

    The defaults are the authors' for faces. For digits from scattering features their code has
    ``affinity="symmetric"`` and neither centers the features nor scales them to unit length:
    ``ScatteringFeatures(center=False, unit_rows=False)`` and ``scale="none"``. Both matter; the
    error is far higher without.

    Parameters
    ----------
    n_nonzero : int
        The largest number k of coefficients per sample.
    tol : float
        Stop at this squared residual, as a share of the sample's squared length.
    scale : "unit", "none" or "max"
        At unit length, samples are chosen by their direction alone. At their own lengths ("none",
        "max"), long ones are chosen more often, and the graph is better connected.
    others, and the attributes : as in :class:`SSC`
    """

    n_nonzero: int = 5
    tol: float = 1e-6
    affinity: Any = "magnitude"

    _table = table(n_nonzero=whole(1), tol=POSITIVE)

    def _solve(self, Z: Tensor) -> Solution:
        return self_expression.orthogonal_matching_pursuit(
            Z, self.n_nonzero, self.tol, unit=self.scale == "unit"
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        rows, k = min(n, BLOCK), self.n_nonzero
        gram = size * n * n if use_gram(n, d, size) else 0
        codes = 20 * n * k + rows * k * (d * (8 + size) + 24 * k)
        return gram + size * (n * d + 3 * rows * n) + codes


@dataclass(eq=False, repr=False, kw_only=True)
class EnSC(ShallowClusterer):
    """Elastic Net Subspace Clustering (You, Li, Robinson and Vidal 2016).

        min_{c_i} r |c_i|_1 + (1 - r)/2 |c_i|^2 + g_i/2 |z_i - c_i Z|^2,   c_ii = 0

    exactly, each sample over an active set that grows with its residual. Choose it for many samples
    when codes should be sparse and yet connect a subspace: it is more accurate than matching
    pursuit, and slower. It costs 2 N^2 d per round for some five rounds; memory is N times the
    coefficients of a sample, and a block of rows; the affinity is sparse.

    For digits from scattering features the authors' code has ``l1_ratio=0.9``, ``alpha=200`` and
    ``affinity="nearest_codes"``, on ``ScatteringFeatures(center=False)``. That affinity also does
    far better on faces under many lights; on other faces and on objects it does worse, so it is
    not the default.

    Parameters
    ----------
    l1_ratio : float
        r, between 0 and 1; near 1 codes are sparse.
    alpha : float
        g_i in units of the least weight that gives sample i a coefficient; more than 1.
    tol, max_iter : float, int
        Stop when no sample outside a code violates the optimality conditions by more than the
        share ``tol``, or after so many rounds.
    others, and the attributes : as in :class:`SSC`
    """

    l1_ratio: float = 0.95
    alpha: float = 50.0
    tol: float = 1e-3
    max_iter: int = 100

    _table = table(l1_ratio=real(TINY, 1.0), alpha=real(1.0), tol=POSITIVE, max_iter=whole(1))

    def _solve(self, Z: Tensor) -> Solution:
        return self_expression.elastic_net_self_expression(
            Z, self.alpha, self.l1_ratio, tol=self.tol, max_iter=self.max_iter
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        return elastic_net_bytes(n, d, size)


def elastic_net_bytes(n: int, d: int, size: int) -> float:
    """Peak bytes of the elastic net: a block of rows, and two hundred coefficients a sample."""
    rows, most = min(n, rows_together(n, d)), min(n, 200)
    return rows * (3 * size * n + most * (size * d + 32 * most)) + n * most * (size + 8)
