"""A coefficient matrix that is there as a whole, dense or sparse, under the operators' contract."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from .operator import Operator


class ExplicitCoefficients(Operator):
    """A dense C (N, N), as the sparse, low-rank and trained solvers return it."""

    def __init__(self, C: Tensor):
        self.C = C
        self.n = C.shape[0]
        self.dtype, self.device = C.dtype, C.device

    def rows(self, start: int, stop: int) -> Tensor:
        return self.C[start:stop]

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        magnitude = self.C.abs().fill_diagonal_(-1.0)
        indices = magnitude.topk(min(k, self.n - 1), dim=1).indices
        return self.C.gather(1, indices), indices

    def __repr__(self) -> str:
        return f"ExplicitCoefficients(N={self.n}, nonzero={int(torch.count_nonzero(self.C))})"


class SparseCoefficients(Operator):
    """A CSR matrix C (N, N) with a zero diagonal, as matching pursuit returns it."""

    def __init__(self, C: sp.csr_array | sp.csr_matrix):
        self._csr = sp.csr_array(C)
        self.n = self._csr.shape[0]
        self.device = torch.device("cpu")
        self.dtype = torch.from_numpy(np.empty(0, self._csr.dtype)).dtype

    @property
    def sparse(self) -> sp.csr_array:
        return self._csr

    def rows(self, start: int, stop: int) -> Tensor:
        return torch.from_numpy(self._csr[start:stop].toarray())

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k entries of largest magnitude per row; a shorter row is filled up with zeros."""
        C, k = self._csr, min(k, self.n - 1)
        row = np.repeat(np.arange(self.n), np.diff(C.indptr))
        order = np.lexsort((-np.abs(C.data), row))
        rank = np.arange(len(row)) - C.indptr[row]
        kept = order[rank < k]
        row, rank = row[rank < k], rank[rank < k]
        values = np.zeros((self.n, k), dtype=C.dtype)
        # A filler points at a neighbour with weight zero, which no affinity can tell from none.
        indices = np.broadcast_to(((np.arange(self.n) + 1) % self.n)[:, None], (self.n, k)).copy()
        values[row, rank] = C.data[kept]
        indices[row, rank] = C.indices[kept]
        return torch.from_numpy(values), torch.from_numpy(indices.astype(np.int64))

    def __repr__(self) -> str:
        return f"SparseCoefficients(N={self.n}, nonzero={self._csr.nnz})"
