"""A sparse graph: each sample keeps its k largest coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dcfsc.errors import InputError, unknown_name

from .base import Coefficients

LARGEST_K = 64


@dataclass(frozen=True)
class TopK:
    """W_ij = w_ij ** power for the k largest |C_ij| of each row, A = W + W', sparse.

    ``scale="cosine"``: w_ij = |H_ij| / sqrt(h_i h_j), the cosine of the whitened samples, which has
    the same meaning for every pair; only the closed form, which knows its leverages h, has it.
    ``scale="maximum"``: w_ij = |C_ij| / max_k |C_ik|. "auto" takes the cosine where it can,
    "none" leaves the magnitudes as they are.

    A graph in more pieces than there are clusters cannot be cut into clusters: with ``grow``, k is
    doubled (up to ``LARGEST_K``) until at most ``n_clusters`` connected components are left.

    Memory N k: the N x N matrix never exists where the coefficients can give their top k by
    themselves, as the closed form can.
    """

    k: int = 4
    power: float = 4.0
    scale: Literal["auto", "cosine", "maximum", "none"] = "auto"
    grow: bool = True

    def __post_init__(self) -> None:
        if self.scale not in ("auto", "cosine", "maximum", "none"):
            raise unknown_name("scale", self.scale, ("auto", "cosine", "maximum", "none"))
        if self.k < 1 or self.power <= 0:
            raise InputError(
                f"k must be at least 1 and power positive; got k={self.k}, power={self.power}."
            )

    def __call__(self, coefficients: Coefficients, n_clusters: int) -> sp.csr_array:
        k = self.k
        A = self._graph(coefficients, k)
        while self.grow and k < min(LARGEST_K, coefficients.n - 1):
            if connected_components(A, directed=False)[0] <= n_clusters:
                break
            k *= 2
            A = self._graph(coefficients, k)
        return A

    def _graph(self, coefficients: Coefficients, k: int) -> sp.csr_array:
        values, indices = coefficients.topk(k)
        weights = np.abs(values.detach().cpu().numpy().astype(np.float64))  # (N, k)
        columns = indices.cpu().numpy()
        leverage = getattr(coefficients, "leverage", None)
        if self.scale == "cosine" or (self.scale == "auto" and leverage is not None):
            if leverage is None:
                raise InputError("scale='cosine' needs the closed form; use 'maximum' here.")
            h = leverage.cpu().numpy()
            # C_ij = H_ij / (1 - h_i); a zero row has no leverage and no direction.
            length = np.sqrt(np.maximum(h, np.finfo(np.float64).tiny))
            weights *= ((1.0 - h) / length)[:, None] / length[columns]
            np.minimum(weights, 1.0, out=weights)
        elif self.scale != "none":
            largest = weights.max(axis=1, keepdims=True, initial=0.0)
            weights /= np.where(largest > 0, largest, 1.0)
        return sparse_symmetric(weights**self.power, columns, coefficients.n)


def sparse_symmetric(weights: np.ndarray, indices: np.ndarray, n: int) -> sp.csr_array:
    """W + W' as CSR from k weights and column indices a row, both (N, k)."""
    k = indices.shape[1]
    kind = np.int32 if n * k < 2**31 - 1 else np.int64
    pointers = np.arange(0, n * k + 1, k, dtype=kind)
    W = sp.csr_array((weights.ravel(), indices.ravel().astype(kind), pointers), shape=(n, n))
    A = sp.csr_array(W + W.T)
    A.eliminate_zeros()
    return A
