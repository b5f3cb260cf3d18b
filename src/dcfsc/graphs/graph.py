"""A checked affinity: degrees, connected components, the normalized operator.

An affinity A (N x N, non-negative, symmetric) has degrees d_i = sum_j A_ij. Its normalized,
regularized form is

    S = D_t^-1/2 (A + tau/N 11') D_t^-1/2,    D_t = diag(d + tau),

with spectrum inside [-1, 1]. The rank-one term is never formed for a sparse A: it enters
products as  S x = B x + tau/N s (s'x)  with  B = D_t^-1/2 A D_t^-1/2  and  s = (d + tau)^-1/2.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from dcfsc.errors import InputError

Affinity: TypeAlias = "np.ndarray | Tensor | sp.spmatrix | sp.sparray"

# An edge of smaller normalized weight moves no eigenvalue by more than double rounding, so the
# eigensolver cannot see it and it must not count as a connection either.
ROUNDING = float(np.finfo(np.float64).eps)

_hearing, _heard = threading.Lock(), False


class NormalizedAffinity:
    """S (n x n) behind the two products that eigensolvers need; see the module's equation."""

    n: int
    device: torch.device
    has_single = False  # whether `apply` also takes float32

    def apply(self, X: Tensor) -> Tensor:
        """S X for a block X (n x b) on ``device``, float64 or, with ``has_single``, float32."""
        raise NotImplementedError

    def accumulate(self, out: Tensor, X: Tensor, alpha: float, beta: float) -> None:
        """out = alpha S X + beta out, in place and, where it can be, without another block."""
        out.mul_(beta).add_(self.apply(X), alpha=alpha)

    def dense(self) -> Tensor:
        """S itself (n x n) on ``device``."""
        raise NotImplementedError

    def matvec(self, x: np.ndarray) -> np.ndarray:
        """S x for one NumPy vector, wherever S lives."""
        column = torch.from_numpy(np.ascontiguousarray(x).reshape(self.n, -1)).to(self.device)
        return self.apply(column).cpu().numpy().reshape(x.shape)


class DenseAffinity(NormalizedAffinity):
    """S held as one float64 tensor, on the CPU or a CUDA device."""

    def __init__(self, S: Tensor) -> None:
        self.S, self.n, self.device = S, len(S), S.device

    def apply(self, X: Tensor) -> Tensor:
        return self.S @ X

    def dense(self) -> Tensor:
        return self.S


class ImplicitAffinity(NormalizedAffinity):
    """S as a sparse matrix B, in both precisions, plus the implicit rank-one term."""

    has_single = True
    s: Tensor  # (n,)
    tau: float

    def _matrix(self, kind: torch.dtype) -> Any:
        """B in a precision."""
        raise NotImplementedError

    @cached_property
    def _double(self) -> Any:
        return self._matrix(torch.float64)

    @cached_property
    def _single(self) -> Any:
        return self._matrix(torch.float32)

    def apply(self, X: Tensor) -> Tensor:
        product = torch.zeros_like(X)
        self.accumulate(product, X, 1.0, 0.0)
        return product

    def accumulate(self, out: Tensor, X: Tensor, alpha: float, beta: float) -> None:
        B = self._single if X.dtype == torch.float32 else self._double
        if isinstance(B, Tensor):
            torch.addmm(out, B, X, beta=beta, alpha=alpha, out=out)
        else:
            out.mul_(beta).add_(torch.from_numpy(B @ X.numpy()), alpha=alpha)
        if self.tau > 0:
            s = self.s.to(X.dtype)
            out.addmm_(s[:, None], (s @ X)[None], alpha=alpha * self.tau / self.n)

    def dense(self) -> Tensor:
        B = self._double
        S = B.to_dense() if isinstance(B, Tensor) else torch.from_numpy(B.toarray())
        return S.addr_(self.s, self.s, alpha=self.tau / self.n)


class SparseAffinity(ImplicitAffinity):
    """S on the CPU, B a SciPy matrix.

    Its products are PyTorch's where that has MKL, which take a half to a quarter of SciPy's time.
    """

    def __init__(self, B: sp.csr_array, s: np.ndarray, tau: float) -> None:
        self.B, self.n, self.device = B, B.shape[0], torch.device("cpu")
        self.s = torch.from_numpy(s)
        self.tau = tau

    def _matrix(self, kind: torch.dtype) -> Any:
        return _quick(self.B.astype(np.float32) if kind == torch.float32 else self.B)


def _quick(B: sp.csr_array) -> sp.csr_array | Tensor:
    """B as what multiplies blocks of vectors soonest on this CPU."""
    if not torch.backends.mkl.is_available():
        return B
    parts = (np.require(part, requirements="W") for part in (B.indptr, B.indices, B.data))
    return csr_tensor(*map(torch.from_numpy, parts))


def csr_tensor(pointers: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """A square matrix in PyTorch's CSR layout, from parts that are known to be right."""
    n = len(pointers) - 1
    # 32-bit indices halve what a product reads beside the values; the products take either.
    kind = torch.int32 if max(n, len(columns)) < 2**31 - 1 else torch.int64
    _silence_csr_beta_warning()
    return torch.sparse_csr_tensor(
        pointers.to(kind), columns.to(kind), values, size=(n, n), check_invariants=False
    )


def _silence_csr_beta_warning() -> None:
    """PyTorch says so once per process; warnings are silenced for all threads, hence once too."""
    global _heard
    with _hearing:
        if _heard:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            zero = torch.zeros(1, dtype=torch.int64)
            torch.sparse_csr_tensor(torch.tensor([0, 1]), zero, zero, check_invariants=False)
        _heard = True


@dataclass(frozen=True, eq=False)
class Graph:
    """A checked affinity without self-loops, scaled to a largest entry of 1.

    ``matrix`` is the affinity as it was given; ``weights`` is float64, dense (torch) or sparse
    (SciPy CSR); ``scale`` gives the original entries back; ``device`` is where products are to run.
    """

    matrix: Affinity
    weights: Tensor | sp.csr_array
    degrees: np.ndarray  # (N,), of the scaled weights
    scale: float
    device: torch.device

    @property
    def n(self) -> int:
        return len(self.degrees)

    @property
    def on_host(self) -> Any:
        """The affinity as it was given, as an array or a SciPy matrix."""
        return self.matrix.cpu().numpy() if isinstance(self.matrix, Tensor) else self.matrix

    @property
    def n_components(self) -> int:
        return int(self.components.max()) + 1

    @cached_property
    def components(self) -> np.ndarray:
        """The connected component of every point (N,), numbered from 0 by first member.

        Edges below rounding, relative to the degrees, do not connect.
        """
        s = inverse_root(self.degrees)
        if isinstance(self.weights, Tensor):
            return _dense_components(self.weights, torch.from_numpy(s).to(self.device))
        rows = np.repeat(np.arange(self.n), np.diff(self.weights.indptr))
        normalized = self.weights.data * s[rows] * s[self.weights.indices]
        seen = normalized > ROUNDING
        kept = sp.coo_array(
            (seen[seen], (rows[seen], self.weights.indices[seen])), shape=self.weights.shape
        )
        return connected_components(kept, directed=False)[1]

    def subgraph(self, keep: np.ndarray) -> Graph:
        """The graph induced by the points where ``keep`` (N,) is true."""
        if keep.all():
            return self
        index = np.flatnonzero(keep)
        if isinstance(self.weights, Tensor):
            at = torch.from_numpy(index).to(self.device)
            weights: Any = self.weights.index_select(0, at).index_select(1, at)
            degrees = weights.sum(1).cpu().numpy()
        else:
            weights = self.weights[index][:, index]
            degrees = np.asarray(weights.sum(axis=1)).ravel()
        return Graph(weights, weights, degrees, self.scale, self.device)

    def normalized(self, tau: float) -> NormalizedAffinity:
        """S for the absolute regularization ``tau`` (in the unit of the scaled weights)."""
        s = inverse_root(self.degrees + tau)
        if isinstance(self.weights, Tensor):
            root = torch.from_numpy(s).to(self.device)
            S = self.weights + tau / self.n if tau > 0 else self.weights.clone()
            S *= root[:, None]
            S *= root[None, :]
            return DenseAffinity(S)
        rows = np.repeat(s, np.diff(self.weights.indptr))
        data = self.weights.data * rows * s[self.weights.indices]
        B = sp.csr_array((data, self.weights.indices, self.weights.indptr), shape=(self.n, self.n))
        return SparseAffinity(B, s, tau)


def real_values(values: Tensor) -> Tensor:
    if values.is_complex():
        raise InputError(f"the affinity has dtype {values.dtype}; give real numbers.")
    return values if values.dtype in (torch.float32, torch.float64) else values.double()


def float_dtype(dtype: np.dtype) -> type:
    return np.float32 if dtype == np.float32 else np.float64


def _asymmetry_allowed(single: bool) -> float:
    """Asymmetry, relative to the largest entry, that rounding of a symmetric formula can make."""
    return 1e-5 if single else 1e-8


def check_shape(shape: tuple[int, ...], dtype: Any = None) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"the affinity has shape {tuple(shape)}; it must be N x N.")
    if shape[0] == 0:
        raise InputError("the affinity is empty (0 x 0); give at least two points.")
    if dtype is not None and dtype.kind not in "fiub":
        raise InputError(f"the affinity has dtype {dtype}; give real numbers.")


def check_finite(bad: int) -> None:
    if bad:
        raise InputError(
            f"the affinity has {bad} NaN or infinite entries; "
            "check the coefficients it was made from."
        )


def check_range(smallest: float, largest: float) -> None:
    if smallest < 0:
        raise InputError(
            f"the affinity has negative entries (smallest {smallest:.3g}); use absolute values."
        )
    if largest == 0:
        raise InputError("the affinity is all zero off the diagonal; no point has a neighbor.")


def check_symmetry(gap: float, largest: float, single: bool) -> None:
    if gap > _asymmetry_allowed(single) * largest:
        raise InputError(
            f"the affinity is not symmetric (max |A - A'| = {gap:.3g}, largest entry "
            f"{largest:.3g}); give (A + A') / 2."
        )


def read_dense(matrix: Affinity, A: Tensor, device: torch.device) -> Graph:
    check_shape(tuple(A.shape))
    A = real_values(A)
    single = A.dtype == torch.float32
    W = A.to(device=device, dtype=torch.float64, copy=True)
    check_finite(W.numel() - int(torch.isfinite(W).sum()))
    W.fill_diagonal_(0.0)
    largest = float(W.max())
    check_range(float(W.min()), largest)
    W /= largest
    blocks = range(0, len(W), 1024)
    gap = max(float((W[i : i + 1024] - W[:, i : i + 1024].T).abs().max()) for i in blocks)
    check_symmetry(largest * gap, largest, single)
    if gap > 0:
        W = (W + W.T) / 2
    return Graph(matrix, W, W.sum(1).cpu().numpy(), largest, device)


def trust_sparse(A: sp.csr_array) -> Graph:
    """The graph on the CPU of an affinity as `trusted` takes it."""
    check_finite(int((~np.isfinite(A.data)).sum()))
    largest = float(A.data.max(initial=0.0)) or 1.0
    W = sp.csr_array((A.data / largest, A.indices, A.indptr), shape=A.shape)
    return Graph(A, W, np.asarray(W.sum(axis=1)).ravel(), largest, torch.device("cpu"))


def read_sparse(A: Any, device: torch.device) -> Graph:
    check_shape(A.shape, A.dtype)
    single = A.dtype == np.float32
    W = sp.csr_array(A, dtype=np.float64, copy=True)
    W.sum_duplicates()
    check_finite(int((~np.isfinite(W.data)).sum()))
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    W.data[rows == W.indices] = 0.0
    W.eliminate_zeros()
    largest = float(W.data.max(initial=0.0))
    check_range(float(W.data.min(initial=0.0)), largest)
    W.data /= largest
    T = W.T.tocsr()
    T.sort_indices()
    difference = abs(W - T)
    gap = float(difference.data.max(initial=0.0))
    check_symmetry(largest * gap, largest, single)
    if gap > 0:
        W = sp.csr_array((W + T) / 2)
    return Graph(A, W, np.asarray(W.sum(axis=1)).ravel(), largest, device)


def inverse_root(degrees: Any) -> Any:
    """d^-1/2, and 0 where d = 0 so that an isolated point's row of S is zero.

    Arrays and tensors alike.
    """
    if isinstance(degrees, Tensor):
        return torch.where(degrees > 0, 1.0 / degrees.sqrt(), 0.0)
    root = np.sqrt(degrees)
    return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def _dense_components(W: Tensor, s: Tensor) -> np.ndarray:
    """Breadth-first search over a dense W; each row is read at most once, and none after all
    points are reached, so a fully connected matrix costs a few rows."""
    n = len(W)
    label = torch.full((n,), -1, dtype=torch.int64, device=W.device)
    current = 0
    while bool((label < 0).any()):
        frontier = (label < 0).nonzero()[:1, 0]
        label[frontier] = current
        while len(frontier) and bool((label < 0).any()):
            reached = torch.zeros(n, dtype=torch.bool, device=W.device)
            for rows in frontier.split(256):
                reached |= ((W[rows] * s[rows, None] * s[None, :]) > ROUNDING).any(0)
                if bool((reached | (label >= 0)).all()):
                    break
            frontier = (reached & (label < 0)).nonzero()[:, 0]
            label[frontier] = current
        current += 1
    return label.cpu().numpy()
