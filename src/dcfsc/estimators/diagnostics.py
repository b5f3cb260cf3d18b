"""What a fitted estimator can still tell: eigenvalues beyond K, and the path around its lam."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from dcfsc import spectral
from dcfsc.errors import InputError
from dcfsc.machine import resolve_device
from dcfsc.self_expression import LambdaPath, effective_dof, squared_singular_values

EXTRA_EIGENVALUES = 10
PATH_POINTS = 49
# N d min(N, d) up to which the leave-one-out error is computed along the path: seconds.
PATH_COST = 2e10


class Diagnostics:
    """The methods ``spectrum`` and ``lambda_path`` of the estimators."""

    affinity_matrix_: Any
    n_clusters_: int
    lam_: Any
    device: Any

    def _ridge_features(self) -> Any:
        """The rows (N, d) whose closed form with a ridge was taken; None where there are none."""
        return None

    def spectrum(self, extra: int = EXTRA_EIGENVALUES) -> np.ndarray:
        """The K + ``extra`` leading eigenvalues of the normalized affinity, descending."""
        if not hasattr(self, "affinity_matrix_"):
            raise InputError(
                f"{type(self).__name__} has no affinity_matrix_; fit it first (a loaded model has "
                "none)."
            )
        A, device = self.affinity_matrix_, resolve_device(self.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a picture needs no tight residual
            wider = spectral.embed(
                A,
                min(self.n_clusters_ + extra, A.shape[0]),
                random_state=0,
                tol=1e-4,
                device=device if device.type == "cuda" else None,
            )
        return np.sort(wider.values)[::-1].astype(np.float64)

    def _has_lambda_path(self) -> bool:
        """Whether the estimator is fitted and its coefficients are the closed form's."""
        return "labels_" in vars(self) and self._ridge_features() is not None

    def lambda_path(self) -> np.ndarray:
        """Rows of lam, tr H and |Z - B Z|^2 / |Z|^2 over eight decades around ``lam_``, (49, 3).

        The last is NaN where it would take more than seconds. Only the closed form has a path.
        """
        if not self._has_lambda_path():
            raise InputError(
                f"{type(self).__name__} has no lambda path: it is not fitted, or its coefficients "
                "are not the closed form's (use DCFSC, or ClosedFormSubspaceClustering with "
                "representation='given'; other representations have none)."
            )
        Z = torch.as_tensor(self._ridge_features(), device=resolve_device(self.device))
        grid = self.lam_ * 10.0 ** np.linspace(-4.0, 4.0, PATH_POINTS)
        n, d = Z.shape
        if n * d * min(n, d) > PATH_COST:
            squares = squared_singular_values(Z)
            return np.array([(x, effective_dof(squares, x), np.nan) for x in grid])
        path = LambdaPath(Z)
        energy = max(float(path.squares.sum()), 1e-300)
        return np.array(
            [(x, path.effective_dof(x), path.leave_one_out_error(x) / energy) for x in grid]
        )
