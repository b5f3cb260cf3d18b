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
        self.n = len(C)
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
        self.sparse = sp.csr_array(C)
        self.n = self.sparse.shape[0]
        self.device = torch.device("cpu")
        self.dtype = torch.from_numpy(np.empty(0, self.sparse.dtype)).dtype

    def rows(self, start: int, stop: int) -> Tensor:
        return torch.from_numpy(self.sparse[start:stop].toarray())

    def matrix(self) -> sp.csr_array:
        return self.sparse

    def diagonal(self) -> Tensor:
        return torch.from_numpy(self.sparse.diagonal())

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k entries of largest magnitude per row; a shorter row is filled up with zeros."""
        C, n, k = self.sparse, self.n, min(k, self.n - 1)
        row = _rows_of(C)
        order = np.lexsort((-np.abs(C.data), row))
        rank = np.arange(len(row)) - C.indptr[row]
        stored, kept = C.indices + n * row, order[rank < k]
        row, rank = row[rank < k], rank[rank < k]
        # The rest of a row are columns without an entry: of the 2 k that follow it, k at least.
        others = (np.arange(n)[:, None] + np.arange(1, min(2 * k, n - 1) + 1)) % n
        taken = np.isin(others + n * np.arange(n)[:, None], stored)
        fillers = np.take_along_axis(others, np.argsort(taken, axis=1, kind="stable"), axis=1)
        counts = np.bincount(row, minlength=n)
        place = np.maximum(np.arange(k) - counts[:, None], 0)
        values = np.zeros((n, k), dtype=C.dtype)
        indices = np.take_along_axis(fillers, place, axis=1)
        values[row, rank] = C.data[kept]
        indices[row, rank] = C.indices[kept]
        return torch.from_numpy(values), torch.from_numpy(indices.astype(np.int64))

    def __repr__(self) -> str:
        return f"SparseCoefficients(N={self.n}, nonzero={self.sparse.nnz})"


def _rows_of(C: sp.csr_array) -> np.ndarray:
    """The row of every stored entry."""
    return C.tocoo().coords[0].astype(np.int64)
