"""Scores of coefficients and affinities against the true classes, before any clustering.

A representation is subspace-preserving when each point is expressed by points of its own class
alone, and well connected when the points of one class do not fall apart: spectral clustering
needs both.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from dcfsc.errors import InputError
from dcfsc.metrics.partition import label_codes

# Above this many points of one class its two eigenvalues come from Lanczos, not a factorization.
DENSE_CLASS = 600


class Connectivity(NamedTuple):
    """``minimum`` and ``mean`` over classes of ``per_class`` (classes in sorted order)."""

    minimum: float
    mean: float
    per_class: np.ndarray


def subspace_preserving_error(C: Any, y: ArrayLike) -> float:
    """100/N sum_i (1 - sum_{j: y_j = y_i} |C_ij| / |c_i|_1), in percent.

    C (N x N, dense or SciPy sparse) has the coefficients of point i in ROW i; transpose it where
    they stand in columns. The diagonal is ignored. A row without coefficients expresses nothing
    wrongly and counts 0.
    """
    labels, W = _checked(C, y)
    total, coo = W.sum(axis=1), W.tocoo()
    wrong = labels[coo.row] != labels[coo.col]
    outside = np.bincount(coo.row[wrong], coo.data[wrong], len(labels))
    share = np.divide(outside, total, out=np.zeros_like(total), where=total > 0)
    return float(100.0 * np.minimum(share, 1.0).mean())


def connectivity(A: Any, y: ArrayLike) -> Connectivity:
    """Second smallest eigenvalue of  I - D^-1/2 A_c D^-1/2  for every class c, min and mean.

    A (N x N, symmetric, dense or SciPy sparse) is an affinity, of which absolute values are
    taken; A_c is its block of class c without the diagonal and D that block's degrees. The value
    is 0 for a class that falls apart (an isolated point counts) and at most n_c / (n_c - 1),
    reached when all pairs are linked alike. Classes of one point have no second eigenvalue: they
    are NaN in ``per_class`` and left out of ``minimum`` and ``mean``, which are NaN if nothing is
    left.
    """
    labels, W = _checked(A, y)
    if abs(W - W.T).max() > 1e-5 * max(float(W.max()), np.finfo(float).tiny):
        raise InputError("the affinity is not symmetric; give |C| + |C|'.")
    members = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    per_class = np.array([_algebraic_connectivity(W[index][:, index]) for index in members])
    defined = per_class[~np.isnan(per_class)]
    if len(defined) == 0:
        return Connectivity(float("nan"), float("nan"), per_class)
    return Connectivity(float(defined.min()), float(defined.mean()), per_class)


def _algebraic_connectivity(W: sp.csr_array) -> float:
    """1 - (second largest eigenvalue of D^-1/2 W D^-1/2); NaN for one point."""
    n = W.shape[0]
    if n == 1:
        return float("nan")
    if connected_components(W, return_labels=False) > 1:
        return 0.0
    root = np.sqrt(W.sum(axis=1))
    scale = sp.diags_array(1.0 / root)
    S = sp.csr_array(scale @ W @ scale)
    second = None
    if n > DENSE_CLASS:
        start = np.random.default_rng(0).standard_normal(n)
        with suppress(ArpackNoConvergence):
            second = eigsh(S, k=2, which="LA", v0=start, return_eigenvectors=False).min()
    if second is None:
        dense = S.toarray()
        second = scipy.linalg.eigh(dense, eigvals_only=True, subset_by_index=[n - 2, n - 2])[0]
    return float(max(0.0, 1.0 - second))


def _checked(matrix: Any, y: ArrayLike) -> tuple[np.ndarray, Any]:
    """Class codes (N,) and |matrix| without its diagonal, CSR in float64."""
    labels = label_codes(y, "y")[1]
    try:
        W: Any = sp.csr_array(matrix, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"the matrix must hold real numbers ({error}).") from None
    if W.ndim != 2 or W.shape != (len(labels), len(labels)):
        raise InputError(
            f"the matrix has shape {W.shape} for {len(labels)} labels; it must be N x N."
        )
    if not np.isfinite(W.data).all():
        raise InputError("the matrix has NaN or infinite entries.")
    W.sum_duplicates()
    W = abs(W - sp.diags_array(W.diagonal()))
    W.eliminate_zeros()
    return labels, W
