"""What the estimators without a network share: scale, memory check, solver, warning, clustering."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.machine import require_memory
from dcfsc.neighbors import unit_rows
from dcfsc.parameters import one_of, table
from dcfsc.pipeline.samples import as_float
from dcfsc.self_expression import Solution

from .base import SubspaceClusterer
from .start import begin


def scaled(Z: Tensor, scale: str) -> Tensor:
    """Rows as they are ("none"), at unit length ("unit"), or over the largest magnitude ("max")."""
    if scale == "unit":
        return unit_rows(Z)
    if scale == "max":
        largest = Z.abs().max()
        return Z / torch.where(largest > 0, largest, torch.ones_like(largest))
    return with_squares(Z)


def with_squares(Z: Tensor) -> Tensor:
    """Z itself, or in float64, or refused: what can hold the squares of its largest values."""
    largest = float(Z.abs().max())
    for dtype in (Z.dtype, torch.float64):
        limits = torch.finfo(dtype)
        if largest == 0 or (limits.tiny / limits.eps) ** 0.5 <= largest <= (
            (limits.max * limits.eps) ** 0.5
        ):
            return Z.to(dtype)
    raise InputError(
        f"the largest value of X is {largest:.3g}, whose square is too large for float64; rescale "
        "the data, or give scale='max'."
    )


@dataclass(eq=False, repr=False)
class ShallowClusterer(SubspaceClusterer):
    """An estimator whose coefficients come from one call of a solver on the features."""

    n_clusters: int | Literal["auto"] = 8
    _: KW_ONLY
    scale: str = "unit"
    affinity: Any = "symmetric"
    assign: str = "kmeans"
    device: Any = "auto"
    random_state: Any = None

    _table = table(scale=one_of("none", "unit", "max"))

    def _solve(self, Z: Tensor) -> Solution:
        """The coefficients of the features Z (N, d)."""
        raise NotImplementedError

    def _memory(self, n: int, d: int, size: int) -> float:
        """About the peak bytes of ``_solve`` for N, d and numbers of ``size`` bytes."""
        raise NotImplementedError

    def _stopped(self) -> str:
        """One sentence: where the solver stopped, and which of the estimator's parameters help."""
        count = "1 iteration" if self.n_iter_ == 1 else f"{self.n_iter_} iterations"
        told = f"{type(self).__name__} stopped after {count} at a residual of {self.residual_:.3g}"
        known = self.get_params(deep=False)
        helps = "; raise max_iter" if "max_iter" in known else ""
        return told + helps + (f", or tol={known['tol']:g}." if "tol" in known else ".")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X (n, features), (n, h, w) or (n, c, h, w)."""
        X, n_clusters, random_state, device = begin(self, X)
        n, d = X.shape[0], int(np.prod(X.shape[1:]))
        need = int(self._memory(n, d, 8 if X.dtype == np.float64 else 4))
        name = type(self).__name__
        require_memory(need, n, name, device, "ClosedFormSubspaceClustering or SSCOMP")
        Z = scaled(as_float(X, device).reshape(n, -1), self.scale)
        solution = self._solve(Z)
        self.n_iter_, self.residual_ = solution.n_iter, solution.residual
        if not solution.converged:
            warnings.warn(self._stopped(), ConvergenceWarning, stacklevel=3)
        self._cluster(X, solution.operator, n_clusters, random_state)
        return self
