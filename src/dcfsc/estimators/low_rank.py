"""Low-rank and dense self-expression: LRR, LRSC, EDSC, LSR and the doubly stochastic methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from dcfsc import self_expression
from dcfsc.affinity import DoublyStochastic, names
from dcfsc.affinity.doubly_stochastic import ETA
from dcfsc.parameters import CALLABLE, FLAG, INFINITE, NONE, POSITIVE, one_of, real, table, whole
from dcfsc.self_expression import Solution

from .shallow import ShallowClusterer
from .sparse import elastic_net_bytes


@dataclass(eq=False, repr=False, kw_only=True)
class LRR(ShallowClusterer):
    """Low-Rank Representation (Liu et al. 2013).

        min |C|_* + lam |E|_{2,1}   subject to   Z = C Z + E

    Choose it when whole samples are grossly wrong. Each of some
    hundred steps costs an eigendecomposition of order r = rank(Z), 4 N r^2 + 9 r^3; memory N^2.

    Parameters
    ----------
    lam : float
        Price of the errors, in units of one over the data's scale (the authors: 0.18).
    norm : "l21" (wrong samples) or "l1" (wrong entries)
    others, and the attributes : as in :class:`SSC`; the affinity "lrr" is the
        one published with the method.
    """

    lam: float = 0.18
    norm: Literal["l21", "l1"] = "l21"
    max_iter: int = 2000
    affinity: Any = "lrr"

    _table = table(
        lam=POSITIVE | INFINITE,
        norm=one_of("l21", "l1"),
        max_iter=whole(1),
    )

    def _solve(self, Z: Tensor) -> Solution:
        return self_expression.low_rank_representation(
            Z, self.lam, norm=self.norm, max_iter=self.max_iter
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        r = min(n, d)
        return 8 * (1.5 * n * n + 7 * n * d + 11 * n * r + 4 * r * r)


@dataclass(eq=False, repr=False, kw_only=True)
class LRSC(ShallowClusterer):
    """Low-Rank Subspace Clustering (Vidal and Favaro 2014).

        min |C|_* + tau / 2 |A - C A|_F^2 + alpha / 2 |Z - A|_F^2   over A and C = C'

    in closed form: one singular value decomposition, the singular values shrunk by a polynomial.
    Choose it for Gaussian noise. Cost N d min(N, d), memory N^2.

    Parameters
    ----------
    tau, alpha : float or None
        None is 100 / |Z|_2^2 and tau / 2, free of the data's scale; ``alpha=inf`` fixes A = Z.
    others, and the attributes : as in :class:`SSC`
    """

    tau: float | None = None
    alpha: float | None = None
    scale: str = "none"

    _table = table(tau=POSITIVE | NONE, alpha=POSITIVE | INFINITE | NONE)

    def _solve(self, Z: Tensor) -> Solution:
        return self_expression.low_rank_subspace(Z, self.tau, self.alpha)

    def _memory(self, n: int, d: int, size: int) -> float:
        r = min(n, d)
        return 8 * (1.5 * n * n + 4 * n * d + 2 * n * r + 2 * r * r)


@dataclass(eq=False, repr=False, kw_only=True)
class EDSC(ShallowClusterer):
    """Efficient Dense Subspace Clustering (Ji, Salzmann and Li 2014).

        min 1/2 |C|_F^2 + l1 / 2 |Z - D - E|_F^2 + l2 |E|_1   subject to   D = C D

    by the authors' augmented Lagrangian, or without ``outliers`` the ridge closed form
    C = l1 Z Z' (I + l1 Z Z')^-1. Choose it for faces under shadows. Cost N d min(N, d) and the
    smaller of N^3 and N d^2 an iteration, some forty of them; memory N^2.

    Parameters
    ----------
    l1, l2 : float, float or None
        Prices of noise and of outliers for rows divided by the largest magnitude; None is l1 / 2.
        The authors use 0.06 and 0.01 for faces. Use larger values for data with fewer features,
        or everything is taken for noise.
    outliers : bool
    others, and the attributes : as in :class:`SSC`; the affinity "edsc" is the
        one published with the method.
    """

    l1: float = 100.0
    l2: float | None = None
    outliers: bool = True
    max_iter: int = 1000
    scale: str = "max"
    affinity: Any = "edsc"

    _table = table(
        l1=POSITIVE,
        l2=(POSITIVE | NONE).needs("outliers", True),
        outliers=FLAG,
        max_iter=whole(1).needs("outliers", True),
    )

    def _solve(self, Z: Tensor) -> Solution:
        return self_expression.dense_self_expression(
            Z, self.l1, self.l2, outliers=self.outliers, max_iter=self.max_iter
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        system = min(4 * n * n, 8 * n * d + 20 * d * d)
        return 8 * (10 * n * d + max(system, 2 * n * n))


@dataclass(eq=False, repr=False, kw_only=True)
class LSR(ShallowClusterer):
    """Least Squares Regression (Lu et al. 2012).

        min_C |Z - C Z|_F^2 + lam |C|_F^2   subject to   diag(C) = 0

    in closed form, with the settings of its authors. :class:`ClosedFormSubspaceClustering` solves
    the same problem with an automatic lam, a sparse graph and no N x N matrix. It costs the
    smaller of N^3 and N d^2; memory is a few N^2.

    Parameters
    ----------
    lam : float
        The ridge, for rows of unit length (the authors: 0.004 for faces, 0.0048 for motion).
    others, and the attributes : as in :class:`SSC`
    """

    lam: float = 0.004

    _table = table(lam=POSITIVE)

    def _solve(self, Z: Tensor) -> Solution:
        return Solution(self_expression.solve(Z, self.lam))

    def _memory(self, n: int, d: int, size: int) -> float:
        return 3 * size * n * n + 8 * (n * d + 4 * min(n, d) ** 2)


@dataclass(eq=False, repr=False, kw_only=True)
class ADSSC(ShallowClusterer):
    """Approximate Doubly Stochastic Subspace Clustering, A-DSSC (Lim, Vidal and Haeffele 2020).

        C = argmin 1/2 |Z - C Z|_F^2 + eta1/2 |C|_F^2 + eta3 |C|_1,   diag(C) = 0
        A = argmin | |C| - eta2 A |_F^2   over doubly stochastic A

    Choose it when an affinity should give every sample the same weight: clusters of very different
    density, hubs. The first problem is the closed form, or with eta3 > 0 the elastic net. Cost that
    and N^2 for the search of the entries of A; memory N times the entries of a row that count.

    Parameters
    ----------
    eta1, eta2, eta3 : float
        For rows of unit length. The smaller eta2, the sparser the affinity; eta3 may be zero. The
        defaults were chosen with the labels of thirty objects of COIL-100, by scattering features.
    affinity : "auto", str or callable
        "auto" is ``DoublyStochastic(eta2, relative=False)``.
    others, and the attributes : as in :class:`SSC`
    """

    eta1: float = 0.1
    eta2: float = 0.05
    eta3: float = 0.0
    affinity: Any = "auto"

    _table = table(
        eta1=POSITIVE,
        eta2=ETA.needs("affinity", "auto"),
        eta3=real(0.0),
        affinity=one_of("auto", *names()) | CALLABLE,
    )

    def _affinity(self) -> Any:
        if self.affinity == "auto":
            return DoublyStochastic(self.eta2, relative=False)
        return self.affinity

    def _solve(self, Z: Tensor) -> Solution:
        if self.eta3 == 0:
            return Solution(self_expression.solve(Z, self.eta1))
        total = self.eta1 + self.eta3
        return self_expression.elastic_net_self_expression(
            Z, l1_ratio=self.eta3 / total, weight=1.0 / total
        )

    def _memory(self, n: int, d: int, size: int) -> float:
        if self.eta3 == 0:
            entries = n * min(n, 200) * (size + 8)  # of A
            return 8 * (n * d + 4 * min(n, d) ** 2) + entries
        return elastic_net_bytes(n, d, size)
