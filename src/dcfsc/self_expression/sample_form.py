"""The closed form through the N x N matrix Z Z' (the paper's listing): cost N^2 d + N^3."""

from __future__ import annotations

import torch
from torch import Tensor

from .closed_form import ClosedForm, cholesky
from .gram import outer_gram

# P = (Z Z' + lam I)^-1 has relative errors of about eps tr(Z Z') / lam where samples repeat each
# other, and the leverages 1 - lam P_ii the same: with this factor at most one in a hundred.
ROUNDINGS = 32.0


class SampleForm(ClosedForm):
    """B_ij = -P_ij / P_ii with P = (Z Z' + lam I)^-1; the diagonal is 1 - h_i = lam P_ii."""

    form = "samples"

    def __init__(self, Z: Tensor, lam: float, K: Tensor | None = None):
        """K is Z Z' if it is known, and is overwritten."""
        super().__init__(Z, lam)
        self._Z = Z
        K = outer_gram(Z) if K is None else K
        least = ROUNDINGS * torch.finfo(K.dtype).eps * float(K.trace())
        self._L = cholesky(K, self.lam, least)
        P = torch.cholesky_inverse(self._L)
        diagonal = P.diagonal().clone()
        self.complement = self.lam * diagonal
        self.leverage = 1.0 - self.complement
        # Rows, as in the paper's listing; its equation 5 divides columns, which is the same
        # problem for samples in columns.
        P.div_(-diagonal[:, None]).fill_diagonal_(0.0)
        self.B = P.to(Z.dtype)

    def matmul(self, V: Tensor) -> Tensor:
        self._check_operand(V)
        return self.B.to(V.dtype) @ V

    def rmatmul(self, V: Tensor) -> Tensor:
        self._check_operand(V)
        return self.B.mT.to(V.dtype) @ V

    def rows(self, start: int, stop: int) -> Tensor:
        return self.B[start:stop].clone()

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        magnitude = self.B.abs().fill_diagonal_(-1.0)
        indices = magnitude.topk(min(k, self.n - 1), dim=1).indices
        return self.B.gather(1, indices), indices

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        h = self.leverage.clamp_min(0.0)
        length = h.sqrt()
        inverse = torch.where(length > 0, 1.0 / length, 0.0)  # a zero row has no direction
        cosine = self.B.to(torch.float64) * (self.complement * inverse)[:, None] * inverse
        magnitude = cosine.abs().fill_diagonal_(-1.0)
        indices = magnitude.topk(min(k, self.n - 1), dim=1).indices
        return cosine.gather(1, indices).to(self.dtype), indices

    def code(self, z: Tensor) -> Tensor:
        # z (Z'Z + lam I)^-1 Z' = z Z' (Z Z' + lam I)^-1
        inner = z.to(torch.float64) @ self._Z.to(torch.float64).mT
        return torch.cholesky_solve(inner.mT, self._L).mT.to(self.dtype)

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        codes = self.code(z)
        indices = codes.abs().topk(min(k, self.n), dim=1).indices
        return codes.gather(1, indices), indices
