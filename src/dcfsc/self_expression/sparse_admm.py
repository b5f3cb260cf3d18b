"""The two alternating-direction iterations of sparse subspace clustering.

Both follow Elhamifar and Vidal's ADMM, rewritten. With S the matrix that is thresholded, the sparse
variable is C = soft(S) and its scaled multiplier is S - C, so the auxiliary copy of C and the other
multipliers cancel out of the iteration. What is left per step is one product with the dictionary
and one of the *sparse* C with it, in place of products of (N + d)-square matrices; the iterates C
are those of the original algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from dcfsc.errors import InputError

from .explicit import ExplicitCoefficients
from .operator import Solution

# Below this share of non-zeros, adding up rows beats a dense product on a CPU.
_SPARSE = 0.1


@dataclass(frozen=True)
class HatFactor:
    """F (N, r) with F F' = K (K + lam I)^-1, the ridge hat matrix, and F'F = diag(shrinkage).

    K = Z Z' or a kernel matrix; in the affine case plus lam 1 1', since the constraint C 1 = 1 acts
    as one more feature, sqrt(lam).
    """

    F: Tensor  # (N, r)
    shrinkage: Tensor  # (r,), s^2 / (s^2 + lam) for the eigenvalues s^2 of K
    eigenvalues: Tensor  # (r,), s^2
    lam: float

    @classmethod
    def from_samples(cls, Z: Tensor, lam: float, affine: bool) -> HatFactor:
        """From Z (N, d), through the smaller of Z'Z and Z Z'."""
        if Z.shape[1] >= Z.shape[0]:
            return cls.from_kernel(Z.double() @ Z.double().T, lam, affine, Z.dtype)
        X = _with_constraint(Z.double(), lam) if affine else Z.double()
        s2, B = torch.linalg.eigh(X.T @ X)
        return cls._kept(lambda s2, B: X @ (B / (s2 + lam).sqrt()), s2, B, lam, Z.dtype)

    @classmethod
    def from_kernel(cls, K: Tensor, lam: float, affine: bool, dtype: torch.dtype) -> HatFactor:
        """From a positive semi-definite K (N, N); indefinite beyond round-off is an error."""
        s2, B = torch.linalg.eigh(K.double() + lam if affine else K.double())
        if float(s2[0]) < -len(K) * torch.finfo(dtype).eps * abs(float(s2[-1])):
            raise InputError(
                f"the kernel matrix has eigenvalues from {float(s2[0]):.3g} to "
                f"{float(s2[-1]):.3g}; it must be positive semi-definite: choose another kernel."
            )
        return cls._kept(lambda s2, B: B * (s2 / (s2 + lam)).sqrt(), s2, B, lam, dtype)

    @classmethod
    def _kept(
        cls,
        build: Callable[[Tensor, Tensor], Tensor],
        s2: Tensor,
        B: Tensor,
        lam: float,
        dtype: torch.dtype,
    ) -> HatFactor:
        # The other directions move the hat matrix by less than a tenth of the unit round-off.
        keep = s2 > 0.1 * torch.finfo(dtype).eps * lam
        s2 = s2[keep]
        F = build(s2, B[:, keep]).to(dtype).contiguous()
        return cls(F, (s2 / (s2 + lam)).to(dtype), s2.to(dtype), lam)


@dataclass(frozen=True)
class LassoProgram:
    """min |C|_1 + weight/2 tr((I - C) K (I - C)'),  diag(C) = 0  [C 1 = 1], K given by its factor.

    ADMM's auxiliary update is A = W + (I - W) H - u v' with W = C - U, U the scaled multiplier of
    A = C, u that of A 1 = 1, and v = (I - H) 1 = F f. With D = F - W F - u f' (N, r) it reads
    A = W + D F', so that S = A + U = C + D F', and the next W F = 2 C F - S F needs no W.
    """

    factor: HatFactor
    weight: float
    penalty: float
    affine: bool

    def solve(self, tol: float, max_iter: int) -> Solution:
        """C (N, N)."""
        F, shrinkage = self.factor.F, self.factor.shrinkage
        ones = F.sum(0)  # F'1
        f = ones * (1 - shrinkage) / shrinkage
        sparse = _SparseVariable(F, self.penalty)
        CF, D = torch.zeros_like(F), F.clone()
        u = W1 = C1 = F.new_zeros(len(F))
        n_iter, residual = 0, math.inf
        while residual > tol and n_iter < max_iter:
            n_iter += 1
            sparse.add_product(D, F)
            residual = sparse.threshold(diagonal=False)
            old, CF = CF, sparse_product(sparse.C, F)
            moved = D @ ones  # S 1 - C 1
            D = torch.addcmul(F + old, D, shrinkage).sub_(CF, alpha=2)
            if self.affine:
                gap = W1 + moved - 1  # A 1 - 1
                u = u + gap
                old1, C1 = C1, sparse.C.sum(1)
                W1 = 2 * C1 - old1 - moved
                D.addcmul_(u[:, None], f, value=-1)
                residual = max(residual, _largest(gap))
        objective = self._objective(sparse.C, F - CF)
        return Solution(
            ExplicitCoefficients(sparse.C), n_iter, residual, residual <= tol, objective
        )

    def _objective(self, C: Tensor, unexplained: Tensor) -> float:
        # unexplained = (I - C) F, and K = F diag(s^2 + lam) F'
        spectrum = self.factor.eigenvalues.double() + self.factor.lam
        loss = (unexplained.double().square() @ spectrum).sum()
        if self.affine:  # the constraint's own part of K is no part of the loss
            loss = loss - self.factor.lam * (1 - C.sum(1).double()).square().sum()
        return _l1_norm(C) + self.weight / 2 * float(loss)


class OutlierProgram:
    """min |C|_1 + gamma |E|_1,  Z = C Z + E,  diag(C) = 0  [C 1 = 1].

    With the dictionary Q = [Z; I/gamma] and the code [C, gamma E], ADMM's auxiliary update is
    A = W + D M Q', M = (Q'Q + lam I)^-1, lam = penalty / weight, D the constraint's defect plus its
    scaled multiplier. Eliminating the multipliers leaves exactly

        S = [C, gamma E] + D M Q',   [C, gamma E] <- soft(S),   D <- D + Z - (2 new - old) Q

    and Z - A Q = lam (D M - its last value). The affine constraint is one more feature, sqrt(lam).
    The authors' code also clears the diagonal of A; that changes A and the multipliers, thus the
    stopping rule, but not the iteration above. The rule here is theirs.
    """

    def __init__(
        self, Z: Tensor, gamma: float, weight: float, penalty: float, affine: bool
    ) -> None:
        self.gamma, self.penalty, self.affine = gamma, penalty, affine
        self.d, self.lam = Z.shape[1], penalty / weight
        self.Z = _with_constraint(Z, self.lam) if affine else Z  # (N, m), m = d or d + 1
        X = self.Z.double()
        ridge = X.new_full((X.shape[1],), self.lam)
        ridge[: self.d] += gamma**-2
        self.ridge = ridge.to(Z.dtype)
        self.M: Tensor | None = None  # (m, m), where m <= N
        if X.shape[1] <= X.shape[0]:
            factor = torch.linalg.cholesky(X.T @ X + torch.diag(ridge))
            self.M = torch.cholesky_inverse(factor).to(Z.dtype)
        else:
            scaled = X / ridge
            factor = torch.linalg.cholesky((scaled @ X.T).add_(torch.eye(len(X)).to(X)))
            self.MZ = torch.cholesky_solve(scaled, factor).T.to(Z.dtype)  # M Z', (m, N)

    def _dual(self, D: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """D M (b, m), and two matrices X, Y with X Y' = D M Z' (b, N)."""
        if self.M is not None:
            R = D @ self.M
            return R, R, self.Z
        return (D - (D @ self.MZ) @ self.Z) / self.ridge, D, self.MZ.T

    def solve(self, tol: float, max_iter: int) -> Solution:
        """C (N, N) and E (N, d)."""
        target, d = self.Z, self.d
        samples = target[:, :d]
        sparse = _SparseVariable(target, self.penalty)
        CQ, D, multiplier = torch.zeros_like(target), target.clone(), torch.zeros_like(target)
        E = target.new_zeros(len(target), d)  # gamma E
        V = torch.zeros_like(E)  # its scaled multiplier
        n_iter, residual = 0, math.inf
        while residual > tol and n_iter < max_iter:
            n_iter += 1
            R, left, right = self._dual(D)
            diagonal = sparse.add_product(left, right)
            E.add_(R[:, :d], alpha=1 / self.gamma)  # S's part
            defect = (R * self.lam).addcmul_(diagonal[:, None], target)
            multiplier, defect = defect, defect - multiplier  # Z - A Q
            fitted = torch.add(samples, E - V, alpha=-1 / self.gamma)  # Z - A's part of E
            residual = max(
                sparse.threshold(diagonal=True), _relative(defect[:, :d], fitted, samples)
            )
            clipped = E.clamp(-1 / self.penalty, 1 / self.penalty)
            residual = max(residual, _largest(V.sub_(clipped)))
            if self.affine:
                residual = max(residual, _largest(defect[:, d]) / math.sqrt(self.lam))
            E, V = E.sub_(clipped), clipped
            old, CQ = CQ, sparse_product(sparse.C, self.Z)
            CQ[:, :d].add_(E, alpha=1 / self.gamma)
            D.add_(target).add_(old).sub_(CQ, alpha=2)
        E /= self.gamma
        unexplained = (target - CQ)[:, :d] + E  # Z - C Z
        objective = _l1_norm(sparse.C) + self.gamma * _l1_norm(unexplained)
        C, converged = ExplicitCoefficients(sparse.C), residual <= tol
        return Solution(C, n_iter, residual, converged, objective, error=E)


class _SparseVariable:
    """C and its scaled multiplier U = S - C, (N, N), in three buffers that take turns."""

    def __init__(self, dictionary: Tensor, penalty: float) -> None:
        shape = (len(dictionary), len(dictionary))
        self.C, self.U = dictionary.new_zeros(shape), dictionary.new_zeros(shape)
        self.S = dictionary.new_empty(shape)
        self.bound = 1 / penalty

    def add_product(self, left: Tensor, right: Tensor) -> Tensor:
        """S = C + left right'; returns its entries on C's diagonal."""
        torch.addmm(self.C, left, right.T, out=self.S)
        return self.S.diagonal().clone()

    def threshold(self, *, diagonal: bool) -> float:
        """C = soft(S), diag(C) = 0; returns max |A - C|, which is the largest change of U.

        ``diagonal``: whether the auxiliary A has its diagonal cleared too (it then has no
        multiplier there), or U's diagonal is the multiplier that keeps C's at zero.
        """
        S, U, C_old = self.S, self.U, self.C
        on_diagonal = S.diagonal()
        U_new = torch.clamp(S, -self.bound, self.bound, out=C_old)
        if diagonal:
            on_diagonal.zero_()
        U_new.diagonal().copy_(on_diagonal)
        self.C, self.U, self.S = S.sub_(U_new), U_new, U
        return _largest(U.sub_(U_new))


def sparse_product(C: Tensor, F: Tensor) -> Tensor:
    """C F for C (b, N) with few non-zeros and F (N, r)."""
    if C.device.type != "cpu":
        return C @ F
    total = int(torch.count_nonzero(C))
    if total > _SPARSE * C.numel():
        return C @ F
    if total == 0 or F.shape[1] == 0:
        return C.new_zeros(C.shape[0], F.shape[1])
    rows, columns = C.nonzero(as_tuple=True)
    offsets = functional.pad(rows.bincount(minlength=len(C)).cumsum(0), (1, 0))
    return functional.embedding_bag(
        columns,
        F,
        offsets,
        mode="sum",
        per_sample_weights=C[rows, columns],
        include_last_offset=True,
    )


def _l1_norm(X: Tensor) -> float:
    # Row by row, so that no copy of X is made.
    return float(torch.linalg.vector_norm(X, 1, dim=1).sum(dtype=torch.float64))


def _with_constraint(Z: Tensor, lam: float) -> Tensor:
    return torch.cat([Z, Z.new_full((len(Z), 1), math.sqrt(lam))], dim=1)


def _largest(X: Tensor) -> float:
    return float(torch.linalg.vector_norm(X, math.inf)) if X.numel() else 0.0


def _relative(defect: Tensor, reference: Tensor, rows: Tensor) -> float:
    """Largest norm of a row of ``defect`` relative to that of ``reference``.

    A sample that is nearly all outlier has a vanishing reference, so that the ratio would never
    fall; a hundredth of the sample's own norm is the least that counts.
    """
    norms = torch.linalg.vector_norm(reference, dim=1)
    least = 0.01 * torch.linalg.vector_norm(rows, dim=1)
    norms = torch.maximum(norms, least).clamp(min=torch.finfo(norms.dtype).tiny)
    return float((torch.linalg.vector_norm(defect, dim=1) / norms).max())
