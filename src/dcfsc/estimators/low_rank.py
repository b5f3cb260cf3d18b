"""Low-rank and dense self-expression: LRR, LRSC and EDSC."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dcfsc import self_expression

from .shallow import ShallowClusterer


@dataclass(eq=False, repr=False)
class LRR(ShallowClusterer):
    """Low-Rank Representation (Liu et al. 2013).

        min |C|_* + lam |E|_{2,1}   subject to   Z = C Z + E

    Choose it when whole samples are grossly wrong. Cost an eigendecomposition of order
    r = rank(Z) a step, 4 N r^2 + 9 r^3, for some hundred steps; memory N^2.

    Parameters
    ----------
    n_clusters : int
    lam : float
        Price of the errors, in units of one over the data's scale (the authors: 0.18).
    norm : "l21" (wrong samples) or "l1" (wrong entries)
    solver : "admm" (to a certified optimum) or "alm" (the authors' scheme)
    max_iter, scale, affinity, assign, device, random_state
        As in :class:`SSC`; the affinity "lrr" is the one published with the method.

    Attributes
    ----------
    labels_, confidence_, next_best_, coefficients_, affinity_matrix_, embedding_, n_iter_, \
residual_
    """

    n_clusters: int = 8
    _: KW_ONLY
    lam: float = 0.18
    norm: Literal["l21", "l1"] = "l21"
    solver: Literal["admm", "alm"] = "admm"
    max_iter: int = 2000
    scale: str = "unit"
    affinity: Any = "lrr"
    assign: str = "kmeans"
    device: Any = "auto"
    random_state: Any = None

    def _solve(self, Z: Tensor) -> Any:
        return self_expression.low_rank_representation(
            Z, self.lam, norm=self.norm, method=self.solver, max_iter=self.max_iter
        )

    def _memory(self, n: int, d: int, dtype: torch.dtype) -> int:
        return self_expression.low_rank_representation_memory(n, d, dtype, norm=self.norm)


@dataclass(eq=False, repr=False)
class LRSC(ShallowClusterer):
    """Low-Rank Subspace Clustering (Vidal and Favaro 2014).

        min |C|_* + tau / 2 |A - C A|_F^2 + alpha / 2 |Z - A|_F^2   over A and C = C'

    in closed form: one singular value decomposition, the singular values shrunk by a polynomial.
    Choose it for Gaussian noise. Cost N d min(N, d), memory N^2.

    Parameters
    ----------
    n_clusters : int
    tau, alpha : float or None
        None is 100 / |Z|_2^2 and tau / 2, free of the data's scale; ``alpha=inf`` fixes A = Z.
    scale, affinity, assign, device, random_state
        As in :class:`SSC`.

    Attributes
    ----------
    labels_, confidence_, next_best_, coefficients_, affinity_matrix_, embedding_, n_iter_, \
residual_
    """

    n_clusters: int = 8
    _: KW_ONLY
    tau: float | None = None
    alpha: float | None = None
    scale: str = "none"
    affinity: Any = "symmetric"
    assign: str = "kmeans"
    device: Any = "auto"
    random_state: Any = None

    def _solve(self, Z: Tensor) -> Any:
        return self_expression.low_rank_subspace(Z, self.tau, self.alpha)

    def _memory(self, n: int, d: int, dtype: torch.dtype) -> int:
        return self_expression.low_rank_subspace_memory(n, d, dtype)


@dataclass(eq=False, repr=False)
class EDSC(ShallowClusterer):
    """Efficient Dense Subspace Clustering (Ji, Salzmann and Li 2014).

        min 1/2 |C|_F^2 + l1 / 2 |Z - D - E|_F^2 + l2 |E|_1   subject to   D = C D

    by the authors' augmented Lagrangian, or without ``outliers`` the ridge closed form
    C = l1 Z Z' (I + l1 Z Z')^-1. Choose it for faces under shadows. Cost N d min(N, d) and the
    smaller of N^3 and N d^2 an iteration, some forty of them; memory N^2.

    Parameters
    ----------
    n_clusters : int
    l1, l2 : float, float or None
        Prices of noise and of outliers for rows divided by the largest magnitude; None is l1 / 2.
        The authors take 0.06 and 0.01 for faces; data with fewer features want more, or all of
        it passes for noise.
    outliers : bool
    max_iter, scale, affinity, assign, device, random_state
        As in :class:`SSC`; the affinity "edsc" is the one published with the method.

    Attributes
    ----------
    labels_, confidence_, next_best_, coefficients_, affinity_matrix_, embedding_, n_iter_, \
residual_
    """

    n_clusters: int = 8
    _: KW_ONLY
    l1: float = 100.0
    l2: float | None = None
    outliers: bool = True
    max_iter: int = 1000
    scale: str = "max"
    affinity: Any = "edsc"
    assign: str = "kmeans"
    device: Any = "auto"
    random_state: Any = None

    def _solve(self, Z: Tensor) -> Any:
        return self_expression.dense_self_expression(
            Z, self.l1, self.l2, outliers=self.outliers, max_iter=self.max_iter
        )

    def _memory(self, n: int, d: int, dtype: torch.dtype) -> int:
        return self_expression.dense_self_expression_memory(n, d, dtype, outliers=self.outliers)
