"""A = |C| + |C|' with each row of |C| scaled to its maximum (Elhamifar and Vidal)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from .base import AffinityMatrix

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator


@dataclass(frozen=True)
class Symmetric:
    """A_ij = |C_ij| / max_k |C_ik| + |C_ji| / max_k |C_jk|, sparse where the
    coefficients are.

    A sample's row of C holds its coefficients over the others (the literature, with samples in
    columns, scales columns). ``scale=False`` leaves the magnitudes as they are, as SSC-OMP does.
    """

    scale: bool = True

    def __call__(self, operator: Operator, n_clusters: int) -> AffinityMatrix:
        if operator.sparse is not None:
            return self._sparse(operator.sparse)
        A = operator.dense().abs()
        if self.scale:
            largest = A.amax(dim=1, keepdim=True)
            A = A / largest.masked_fill(largest == 0, 1.0)
        return (A + A.mT).fill_diagonal_(0.0)

    def _sparse(self, C: sp.csr_array) -> sp.csr_array:
        A = abs(C)
        A.setdiag(0.0)
        if self.scale:
            largest = A.max(axis=1).toarray().ravel()
            A = sp.diags_array(1.0 / np.where(largest > 0, largest, 1.0)) @ A
        A = sp.csr_array(A + A.T)
        A.eliminate_zeros()
        return A
