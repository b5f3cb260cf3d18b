"""The post-processing published with deep subspace clustering (Ji et al. 2017), step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dcfsc.parameters import SHARE, Checked, real, table, whole

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator


@dataclass(frozen=True)
class LowRank(Checked):
    """Energy threshold, symmetrize, rank dim * K + 1, cosine of the rows, power.

    1. Per column of C keep the largest magnitudes until they hold more than ``share`` of the
       column's l1 norm.
    2. C <- (C + C') / 2, its top r = min(dim K + 1, N - 1) singular pairs U, S.
    3. The rows of U sqrt(S) at unit norm; A = max(U U', 0) ** power, scaled to maximum 1.

    Cost N^3 (one symmetric eigendecomposition, in float64 up to ``double_below`` samples), memory
    a few N^2.
    """

    share: float = 0.2
    dim: int = 3
    power: float = 1.0
    double_below: int = 4096

    _table = table(share=SHARE, dim=whole(1), power=real(0.01, 100), double_below=whole(0))

    def __call__(self, operator: Operator, n_clusters: int) -> Tensor:
        C = keep_energy(operator.dense(), self.share)
        rank = max(1, min(self.dim * n_clusters + 1, operator.n - 1))
        C = 0.5 * (C + C.mT)
        if operator.n <= self.double_below:
            C = C.to(torch.float64)
        rows = principal_rows(C, rank)
        A = (rows @ rows.mT).clamp_min_(0.0)
        if self.power != 1.0:
            A = A.pow_(self.power)
        largest = A.max()
        return 0.5 * (A + A.mT) / torch.where(largest > 0, largest, torch.ones_like(largest))


def keep_energy(C: Tensor, share: float) -> Tensor:
    """Per column keep the largest |C| up to the one that passes ``share`` of the l1 norm."""
    if share >= 1.0:
        return C
    magnitude, order = C.abs().sort(dim=0, descending=True)
    reached = magnitude.cumsum(dim=0)
    before = reached - magnitude
    keep = before <= share * reached[-1]
    kept = torch.zeros_like(C)
    return kept.scatter_(0, order, torch.where(keep, C.gather(0, order), torch.zeros_like(C)))


def principal_rows(C: Tensor, rank: int) -> Tensor:
    """Rows of U sqrt(S) at unit norm for the top ``rank`` singular pairs of a symmetric C."""
    # The singular values of a symmetric matrix are its eigenvalues' magnitudes, U its eigenvectors.
    values, vectors = torch.linalg.eigh(C)
    top = values.abs().argsort(descending=True)[:rank]
    return without_noise(vectors[:, top] * values[top].abs().sqrt())


def without_noise(rows: Tensor) -> Tensor:
    """Rows at unit norm, but for those of rounding noise, which are zero.

    A sample without coefficients has such a row, which must not be blown up to one.
    """
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    noise = norm <= norm.max() * torch.finfo(rows.dtype).eps ** 0.5
    return torch.where(noise, 0.0, rows / norm.masked_fill(noise, 1.0))
