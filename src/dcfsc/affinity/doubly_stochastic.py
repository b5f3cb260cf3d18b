"""The nearest doubly stochastic matrix to the magnitudes of coefficients (Lim et al. 2020).

With K = |C| / s and the set of matrices A >= 0 whose rows and columns sum to one,

    min_A  |K - eta A|_F^2,    A 1 = 1,  A' 1 = 1,  A >= 0,

is solved by A = (K - a 1' - 1 b')_+ / eta, where a and b minimize the dual

    sum_i a_i + sum_j b_j + |(K - a 1' - 1 b')_+|_F^2 / (2 eta).

The smaller eta, the sparser A. So the dual is solved over a few entries of each row and the
diagonal, which alone has a feasible A; then the entries that should have been among them, where
K_ij > a_i + b_j, join until none is missing. Over fixed entries, exact minimization over a and over
b takes turns with a Newton step for both: each lowers the dual.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from dcfsc.parameters import FLAG, Checked, real, table

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator

START = 16  # entries of a row at first; as many may join in the first round, then twice as many
ROUNDS, STEPS, ROUGH = 30, 200, 0.01
BLOCK = 2**24  # entries of K looked at together
ETA = real(1e-6, 1e6)  # by less, the sums of K / eta would be lost in rounding


@dataclass(frozen=True)
class DoublyStochastic(Checked):
    """(A + A') / 2 without its diagonal, A the doubly stochastic matrix nearest to |C| / eta.

    ``relative=True`` takes |C| over the mean of its rows' largest magnitudes, so that the scale of
    the coefficients does not matter; ``False`` takes |C| as it is, as the authors do. ``tol``
    bounds the error of every sum of a row or column.

    Memory N times the entries of a row that count; coefficients are read a block of rows at a time.
    """

    eta: float = 0.1
    relative: bool = True
    tol: float = 1e-6

    _table = table(eta=ETA, relative=FLAG, tol=real(1e-12, 0.1))

    def __call__(self, operator: Operator, n_clusters: int) -> sp.csr_array:
        scale = 1.0
        if self.relative:
            scale = float(operator.topk(1)[0].abs().double().mean()) or 1.0
        A = nearest_doubly_stochastic(operator, self.eta * scale, self.tol)
        A = sp.csr_array(0.5 * (A + A.T))
        A.setdiag(0.0)
        A.eliminate_zeros()
        return A


def nearest_doubly_stochastic(operator: Operator, eta: float, tol: float = 1e-6) -> sp.csr_array:
    """The doubly stochastic A (N, N) that minimizes | |C| - eta A |_F."""
    entries, a, b = _dual(operator, eta, tol)
    weights = np.maximum(entries.k - a[entries.i] - b[entries.j], 0.0) / eta
    A = sp.csr_array((weights, (entries.i, entries.j)), shape=(operator.n, operator.n))
    A.eliminate_zeros()
    return A


def _dual(operator: Operator, eta: float, tol: float) -> tuple[_Entries, np.ndarray, np.ndarray]:
    """The entries of K that may be positive in A, and the minimizer (a, b) of the dual."""
    entries = _first_entries(operator)
    a, b = _smooth_start(entries, eta)
    accuracy = max(ROUGH, tol)  # while entries are missing it need not be better
    for number in range(ROUNDS):
        a, b, error = _minimize(entries, eta, a, b, accuracy)
        missing = _missing(operator, entries, a, b, accuracy * eta, START << number)
        if missing is not None:
            entries = entries.with_(*missing)
        elif accuracy == tol:
            break
        else:
            accuracy = tol
    if error > 10.0 * tol:
        warnings.warn(
            "the doubly stochastic affinity did not converge: a row or column sums to 1 only "
            f"within {error:.2g}; raise eta={eta:.3g}.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return entries, a, b


class _Entries:
    """Entries k of K at (i, j), sorted by i; ``by_column`` sorts them by j."""

    def __init__(self, i: np.ndarray, j: np.ndarray, k: np.ndarray, n: int):
        order = np.lexsort((j, i))
        self.i, self.j, self.k, self.n = i[order], j[order], k[order], n
        self.by_column = np.argsort(self.j, kind="stable")

    def with_(self, i: np.ndarray, j: np.ndarray, k: np.ndarray) -> _Entries:
        """These and others besides."""
        both = [np.concatenate(part) for part in ((self.i, i), (self.j, j), (self.k, k))]
        return _Entries(both[0], both[1], both[2], self.n)


def _first_entries(operator: Operator) -> _Entries:
    """The largest magnitudes of each row, and the diagonal."""
    n = operator.n
    values, columns = operator.topk(START)
    magnitudes, diagonal = (
        C.abs().double().cpu().numpy().ravel() for C in (values, operator.diagonal())
    )
    i = np.repeat(np.arange(n), columns.shape[1])
    return _Entries(
        np.concatenate([i, np.arange(n)]),
        np.concatenate([columns.cpu().numpy().ravel(), np.arange(n)]),
        np.concatenate([magnitudes, diagonal]),
        n,
    )


def _smooth_start(entries: _Entries, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) from ever less smooth problems: at a small eta it is nearly a linear programme."""
    a, b = np.zeros(entries.n), np.zeros(entries.n)
    smooth = eta
    while smooth < entries.k.max():
        smooth *= 4.0
    while smooth > eta:
        a, b, _ = _minimize(entries, smooth, a, b, 0.1)
        smooth *= 0.25
    return a, b


def _minimize(
    entries: _Entries, eta: float, a: np.ndarray, b: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The minimizer (a, b) of the dual over some entries, and the largest error of a sum."""
    i, j, k, n = entries.i, entries.j, entries.k, entries.n
    by_column = entries.by_column
    for _ in range(STEPS):
        a = _thresholds(i, k - b[j], eta, n)
        b = _thresholds(j[by_column], (k - a[i])[by_column], eta, n)
        excess = k - a[i] - b[j]
        inside = excess > 0
        weights = np.where(inside, excess, 0.0) / eta
        g = np.concatenate([1.0 - np.bincount(i, weights, n), 1.0 - np.bincount(j, weights, n)])
        error = float(np.abs(g).max())
        if error <= tol:
            break
        step = _newton_step(sp.csr_array((inside[inside] / eta, (i[inside], j[inside])), (n, n)), g)
        a, b = _shorter(k, i, j, eta, a, b, step, g)
    return a, b, error


def _thresholds(row: np.ndarray, v: np.ndarray, eta: float, n: int) -> np.ndarray:
    """t with sum_j (v_j - t)_+ = eta over each of n rows; ``row``, of the entries v, is sorted."""
    order = np.lexsort((-v, row))
    v = v[order]
    first = np.searchsorted(row, np.arange(n))
    rank = np.arange(len(v)) - first[row]
    reached = np.cumsum(v)
    before = np.concatenate([[0.0], reached])[first]
    t = (reached - before[row] - eta) / (rank + 1)
    # The largest rank whose entry is above its own threshold; the first one always is.
    return t[first + np.maximum.reduceat(np.where(v > t, rank, 0), first)]


def _newton_step(M: sp.csr_array, g: np.ndarray) -> np.ndarray:
    """-H^-1 g for H = [[diag(M 1), M], [M', diag(M' 1)]], singular along (1, -1)."""
    n = M.shape[0]
    diagonal = np.concatenate([M.sum(axis=1), M.sum(axis=0)])
    diagonal = diagonal + 1e-9 * diagonal.mean()
    Mt = sp.csr_array(M.T)

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        return diagonal * x + np.concatenate([M @ x[n:], Mt @ x[:n]])

    shape = (2 * n, 2 * n)
    H = LinearOperator(shape, matvec=product, dtype=np.float64)
    jacobi = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    accuracy = min(0.1, float(np.abs(g).max()))  # quadratic convergence needs no more
    step, _ = cg(H, -g, rtol=accuracy, maxiter=200, M=jacobi)
    return step


def _shorter(
    k: np.ndarray,
    i: np.ndarray,
    j: np.ndarray,
    eta: float,
    a: np.ndarray,
    b: np.ndarray,
    step: np.ndarray,
    g: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) moved along the step as far as lowers the dual enough, if at all."""
    n = len(a)
    slope = float(step @ g)

    def dual(a: np.ndarray, b: np.ndarray) -> float:
        excess = np.maximum(k - a[i] - b[j], 0.0)
        return float(a.sum() + b.sum() + excess @ excess / (2.0 * eta))

    now, t = dual(a, b), 1.0
    while t > 1e-3:
        one, other = a + t * step[:n], b + t * step[n:]
        if dual(one, other) <= now + 1e-4 * t * slope:
            return one, other
        t *= 0.5
    return a, b


def _missing(
    operator: Operator, entries: _Entries, a: np.ndarray, b: np.ndarray, above: float, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The entries outside with the largest K_ij - a_i - b_j > above, ``most`` of a row; or None."""
    n = operator.n
    shift = torch.from_numpy(b).to(operator.device)
    found: list[tuple[np.ndarray, ...]] = []
    step = max(1, BLOCK // n)
    starts = np.searchsorted(entries.i, np.arange(0, n + step, step))
    for number, start in enumerate(range(0, n, step)):
        stop = min(start + step, n)
        K = operator.rows(start, stop).abs().double()
        excess = K - shift - torch.from_numpy(a[start:stop]).to(K)[:, None]
        mine = slice(starts[number], starts[number + 1])
        row = torch.from_numpy(entries.i[mine] - start).to(K.device)
        excess[row, torch.from_numpy(entries.j[mine]).to(K.device)] = 0.0
        values, columns = excess.topk(min(most, n), dim=1)
        row, place = (values > above).nonzero(as_tuple=True)
        column = columns[row, place]
        picked = (row + start, column, K[row, column])
        found.append(tuple(part.cpu().numpy() for part in picked))
    i, j, k = (np.concatenate(part) for part in zip(*found, strict=True))
    return (i, j, k) if len(i) else None
