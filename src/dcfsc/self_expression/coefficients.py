"""An explicit coefficient matrix behind the same few methods that the closed form has."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


class Coefficients(Protocol):
    """What an affinity needs to know of a self-expression: rows are samples, C Z is close to Z."""

    n: int

    def rows(self, start: int, stop: int) -> Tensor: ...

    def topk(self, k: int) -> tuple[Tensor, Tensor]: ...

    def dense(self) -> Tensor: ...


class ExplicitCoefficients:
    """A dense C (N, N), as the sparse, low-rank and trained solvers return it."""

    def __init__(self, C: Tensor):
        self.C = C
        self.n = C.shape[0]

    def rows(self, start: int, stop: int) -> Tensor:
        return self.C[start:stop]

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k off-diagonal entries of largest magnitude per row: values and indices (N, k)."""
        magnitude = self.C.abs().fill_diagonal_(-1.0)
        indices = magnitude.topk(min(k, self.n - 1), dim=1).indices
        return self.C.gather(1, indices), indices

    def dense(self) -> Tensor:
        return self.C

    def __repr__(self) -> str:
        return f"ExplicitCoefficients(N={self.n}, nonzero={int(torch.count_nonzero(self.C))})"


class SparseCoefficients:
    """A CSR matrix C (N, N) with a zero diagonal, as matching pursuit returns it."""

    def __init__(self, C: sp.csr_array | sp.csr_matrix):
        self.csr = sp.csr_array(C)
        self.n = self.csr.shape[0]

    def rows(self, start: int, stop: int) -> Tensor:
        return torch.from_numpy(self.csr[start:stop].toarray())

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k entries of largest magnitude per row; a shorter row is filled up with zeros."""
        k = min(k, self.n - 1)
        counts = np.diff(self.csr.indptr)
        row = np.repeat(np.arange(self.n), counts)
        order = np.lexsort((-np.abs(self.csr.data), row))
        rank = np.arange(len(row)) - self.csr.indptr[row]
        kept = order[rank < k]
        row, rank = row[rank < k], rank[rank < k]
        values = np.zeros((self.n, k), dtype=self.csr.dtype)
        # A filler points at a neighbour with weight zero, which no affinity can tell from none.
        indices = np.broadcast_to(((np.arange(self.n) + 1) % self.n)[:, None], (self.n, k)).copy()
        values[row, rank] = self.csr.data[kept]
        indices[row, rank] = self.csr.indices[kept]
        return torch.from_numpy(values), torch.from_numpy(indices.astype(np.int64))

    def dense(self) -> Tensor:
        return torch.from_numpy(self.csr.toarray())

    def __repr__(self) -> str:
        return f"SparseCoefficients(N={self.n}, nonzero={self.csr.nnz})"
