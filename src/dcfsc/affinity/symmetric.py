"""A = |C| + |C|' with each row of |C| scaled to its maximum (Elhamifar and Vidal)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dcfsc.parameters import FLAG, SHARE, Checked, table

from .base import AffinityMatrix
from .low_rank import keep_energy

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator


@dataclass(frozen=True)
class Symmetric(Checked):
    """A_ij = |C_ij| / max_k |C_ik| + |C_ji| / max_k |C_jk|, sparse where the
    coefficients are.

    A sample's row of C holds its coefficients over the others (the literature, with samples in
    columns, scales columns). ``scale=False`` leaves the magnitudes as they are, as SSC-OMP does.
    ``share`` below one keeps of each row only its largest magnitudes, until they hold more than
    that share of the row's l1 norm; the authors take 0.7 for motion.
    """

    scale: bool = True
    share: float = 1.0

    _table = table(scale=FLAG, share=SHARE)

    def __call__(self, operator: Operator, n_clusters: int) -> AffinityMatrix:
        C = operator.matrix()
        if sp.issparse(C):
            return self._sparse(C)
        A = keep_energy(C.abs().mT, self.share).mT
        if self.scale:
            largest = A.amax(dim=1, keepdim=True)
            A = A / largest.masked_fill(largest == 0, 1.0)
        return (A + A.mT).fill_diagonal_(0.0)

    def _sparse(self, C: sp.csr_array) -> sp.csr_array:
        A = _keep_energy(abs(C), self.share)
        A.setdiag(0.0)
        if self.scale:
            largest = A.max(axis=1).toarray().ravel()
            scale = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0)
            A = sp.diags_array(scale) @ A
        return sp.csr_array(A + A.T)  # a sum has no entries that are zero


def _keep_energy(A: sp.csr_array, share: float) -> sp.csr_array:
    """Per row keep the largest entries up to the one that passes ``share`` of the row's sum."""
    if share >= 1.0:
        return A
    row = A.tocoo().coords[0]
    order = np.lexsort((-A.data, row))
    reached = np.cumsum(A.data[order], dtype=np.float64)
    ends = np.concatenate([[0.0], reached])[A.indptr]
    before = reached - A.data[order] - ends[row]
    kept = order[before <= share * np.diff(ends)[row]]
    return sp.csr_array((A.data[kept], (row[kept], A.indices[kept])), shape=A.shape)
