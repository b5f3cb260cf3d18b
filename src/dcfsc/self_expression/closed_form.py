"""The parameter-free self-expressive layer: one problem, two forms, one contract.

    min_C |Z - C Z|_F^2 + lam |C|_F^2   subject to   diag(C) = 0                       (paper, 4)

With P = (Z Z' + lam I)^-1 the minimizer is B_ij = -P_ij / P_ii off the diagonal (Lu et al. 2012;
Steck 2019). With the ridge hat matrix H = Z (Z'Z + lam I)^-1 Z' = I - lam P and the leverages
h_i = H_ii this reads

    B_ij = H_ij / (1 - h_i),        (B Z)_i = ((H Z)_i - h_i z_i) / (1 - h_i),

which needs no N x N matrix. :class:`SampleForm` keeps B itself (for N <= d), and
:class:`FeatureForm` keeps a factor Y with H = Y Y' (for N > d).
"""

from __future__ import annotations

from abc import abstractmethod
from contextvars import copy_context
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dcfsc import processes
from dcfsc.errors import InputError

from .operator import RankedByCosine


class ClosedForm(RankedByCosine):
    """The minimizer B of problem (4) as a linear operator on N x p matrices.

    Attributes
    ----------
    n, dim : the shape (N, d) of Z.
    lam : the ridge parameter.
    complement : Tensor (N,) in float64, 1 - h, without cancellation where the form allows it.
    leverage : Tensor (N,) in float64, the diagonal h of the hat matrix H.
    """

    form: str
    lam: float
    complement: Tensor
    leverage: Tensor

    def __init__(self, Z: Tensor, lam: float):
        self.n, self.dim = Z.shape
        self.lam = float(lam)
        self.dtype, self.device = Z.dtype, Z.device

    @property
    def effective_dof(self) -> float:
        """tr H = sum_i s_i^2 / (s_i^2 + lam): the effective number of degrees of freedom."""
        return processes.total_number(float(self.leverage.sum()))

    @abstractmethod
    def matmul(self, V: Tensor) -> Tensor:
        """B V for V of shape (N, p)."""

    @abstractmethod
    def rmatmul(self, V: Tensor) -> Tensor:
        """B' V for V of shape (N, p)."""

    @abstractmethod
    def code(self, z: Tensor) -> Tensor:
        """The ridge codes z (Z'Z + lam I)^-1 Z' of unseen z (n, d), (n, N)."""

    @abstractmethod
    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k entries of largest magnitude in each row of :meth:`code`: values, indices."""

    def apply(self, V: Tensor, rounded: bool = False) -> Tensor:
        """B V with B held constant: gradients flow through V only (Algorithm 2's stop-gradient).

        ``rounded`` lets a GPU multiply gradients in half precision, for those of a network that
        has no more.
        """
        return _ApplyConstant.apply(V, self, rounded)

    def for_backward(self, rounded: bool) -> ClosedForm:
        """What :meth:`rmatmul` needs of the operator: back-propagation keeps that alone."""
        return self

    def _check_operand(self, V: Tensor) -> None:
        if V.ndim != 2 or V.shape[0] != self.n:
            raise InputError(
                f"B has {self.n} columns, so it applies to a matrix of {self.n} rows; "
                f"got shape {tuple(V.shape)}."
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(N={self.n}, d={self.dim}, lam={self.lam:.4g}, "
            f"effective_dof={self.effective_dof:.4g})"
        )


class _ApplyConstant(torch.autograd.Function):
    """V -> B V and back: dL/dV = B' dL/d(BV)."""

    @staticmethod
    def forward(ctx: Any, V: Tensor, operator: ClosedForm, rounded: bool) -> Tensor:
        product = operator.matmul(V)
        ctx.operator = operator.for_backward(rounded)
        # Back-propagation may run in a thread that does not know whether samples are divided.
        ctx.context = copy_context()
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.context.run(ctx.operator.rmatmul, gradient), None, None


def check_problem(Z: Tensor, lam: float) -> None:
    if Z.ndim != 2 or Z.shape[0] < 1 or Z.shape[1] < 1:
        raise InputError(f"Z must be a matrix of samples in rows; got shape {tuple(Z.shape)}.")
    if Z.dtype not in (torch.float32, torch.float64):
        raise InputError(f"Z must be float32 or float64; got {Z.dtype}. Convert it first.")
    if not (lam > 0.0) or lam == float("inf"):
        raise InputError(f"lam must be a positive number; got {lam}.")


class Cholesky:
    """Lower Cholesky factor L of A + lam I (A is overwritten), or an error if lam is too small.

    A GPU is waited for only once before the factorization and once in :meth:`check`, which the
    caller calls when there is enough other work under way. ``least`` is the smallest lam that is
    not lost, where more than the factor's existence is asked. ``trace`` is that of A.
    """

    def __init__(self, A: Tensor, lam: float, least: float = 0.0):
        diagonal = A.diagonal()
        self.largest, self.trace = torch.stack((diagonal.max(), diagonal.sum())).tolist()
        if not self.largest < float("inf"):  # also catches NaN
            raise InputError("Z contains NaN or infinite values (or squares that overflow).")
        self.lam, self.least = lam, max(least, self.largest * torch.finfo(A.dtype).eps)
        diagonal.add_(lam)
        self.L, self.info = torch.linalg.cholesky_ex(A)

    def check(self, info: float) -> None:
        """Refuse the factor that :attr:`info`, as a number, says there is none of."""
        if self.lam < self.least or info != 0:
            raise InputError(
                f"lam={self.lam:.3g} is too small beside Z'Z (largest entry {self.largest:.3g}); "
                f"use a lam of at least {max(self.largest * 1e-13, 2.0 * self.least):.3g}."
            )


def cholesky(A: Tensor, lam: float, least: float = 0.0) -> Tensor:
    """The factor L of :class:`Cholesky`, checked."""
    factor = Cholesky(A, lam, least)
    factor.check(int(factor.info))
    return factor.L
