"""A sparse graph: each sample keeps its k largest coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dcfsc.errors import InputError

from .base import Coefficients


@dataclass(frozen=True)
class TopK:
    """W_ij = (|C_ij| / max_k |C_ik|) ** power for the k largest of each row, A = W + W', sparse.

    Memory N k: the N x N matrix never exists where the coefficients can give their top k by
    themselves, as the closed form can.
    """

    k: int = 5
    power: float = 1.0
    scale: bool = True

    def __post_init__(self) -> None:
        if self.k < 1 or self.power <= 0:
            raise InputError(
                f"k must be at least 1 and power positive; got k={self.k}, power={self.power}."
            )

    def __call__(self, coefficients: Coefficients, n_clusters: int) -> sp.csr_array:
        values, indices = coefficients.topk(self.k)
        weights = np.abs(values.detach().cpu().numpy().astype(np.float64))  # (N, k)
        if self.scale:
            largest = weights.max(axis=1, keepdims=True, initial=0.0)
            weights /= np.where(largest > 0, largest, 1.0)
        if self.power != 1.0:
            weights **= self.power
        return sparse_symmetric(weights, indices.cpu().numpy(), coefficients.n)


def sparse_symmetric(weights: np.ndarray, indices: np.ndarray, n: int) -> sp.csr_array:
    """W + W' as CSR from k weights and column indices a row, both (N, k)."""
    k = indices.shape[1]
    kind = np.int32 if n * k < 2**31 - 1 else np.int64
    pointers = np.arange(0, n * k + 1, k, dtype=kind)
    W = sp.csr_array((weights.ravel(), indices.ravel().astype(kind), pointers), shape=(n, n))
    A = sp.csr_array(W + W.T)
    A.eliminate_zeros()
    return A
