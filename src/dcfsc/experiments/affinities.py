"""The affinity of low-rank representation (Liu et al.), which keeps every sizeable direction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dcfsc.affinity.base import Coefficients
from dcfsc.errors import InputError


@dataclass(frozen=True)
class PrincipalRows:
    """A = (M M') ** power with M the rows of U sqrt(S) at unit length, C' = U S V'.

    Only singular values s > cut * s_1 count, and C is not symmetrised before. The literature has
    samples in columns, so U belongs to the transpose of our row-wise coefficients. An even power
    makes A non-negative; others are taken of the magnitude. Cost N^3, memory a few N^2.
    """

    cut: float = 1e-4
    power: float = 4.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.cut < 1.0 or self.power <= 0.0:
            raise InputError(
                f"cut must lie in [0, 1) and power be positive; got {self.cut} and {self.power}."
            )

    def __call__(self, coefficients: Coefficients, n_clusters: int) -> Tensor:
        # U and S^2 of C' are the eigenpairs of C' C.
        C = coefficients.dense().to(torch.float64)
        U, s, _ = torch.linalg.svd(C.mT, full_matrices=False)
        kept = s > self.cut * s[0]
        rows = U[:, kept] * s[kept].sqrt()
        norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        rows = rows / norm.masked_fill(norm == 0, 1.0)
        A = (rows @ rows.mT).abs_().pow_(self.power)
        return 0.5 * (A + A.mT)
