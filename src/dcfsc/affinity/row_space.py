"""The affinity published with low-rank representation (Liu et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dcfsc.parameters import Checked, real, table, whole

from .low_rank import without_noise

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator


@dataclass(frozen=True)
class RowSpace(Checked):
    """A = (U U') ** power, element-wise, from the unit rows of U sqrt(S).

    U, S are the right singular pairs of C with S > tol S_1 (samples in rows; the paper, with
    samples in columns, takes the left ones). An even power leaves A non-negative.
    """

    tol: float = 1e-4
    power: int = 4

    _table = table(tol=real(0.0, 1.0), power=whole(1, 100))

    def __call__(self, operator: Operator, n_clusters: int) -> Tensor:
        C = operator.dense().to(torch.float64)
        _, S, Vt = torch.linalg.svd(C, full_matrices=False)
        rank = max(1, int((self.tol * S[0] < S).sum()))
        rows = without_noise(Vt[:rank].mT * S[:rank].sqrt())
        A = (rows @ rows.mT).abs().pow(self.power)
        return 0.5 * (A + A.mT)
