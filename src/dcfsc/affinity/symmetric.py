"""A = |C| + |C|' with each row of |C| scaled to its maximum (Elhamifar and Vidal)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .base import Coefficients


@dataclass(frozen=True)
class Symmetric:
    """A_ij = |C_ij| / max_k |C_ik| + |C_ji| / max_k |C_jk|, dense.

    A sample's row of C holds its coefficients over the others (the literature, with samples in
    columns, scales columns). ``scale=False`` leaves the magnitudes as they are, as SSC-OMP does.
    """

    scale: bool = True

    def __call__(self, coefficients: Coefficients, n_clusters: int) -> Tensor:
        A = coefficients.dense().abs()
        if self.scale:
            largest = A.amax(dim=1, keepdim=True)
            A = A / largest.masked_fill(largest == 0, 1.0)
        return (A + A.mT).fill_diagonal_(0.0)
