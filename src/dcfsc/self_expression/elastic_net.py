"""Elastic net self-expression (EnSC) with an oracle active set, all samples in batches.

For a sample x over the others, rows Z (N, d),

    min_c  r |c|_1 + (1 - r)/2 |c|^2 + g/2 |x - c Z|^2,    c_x = 0,    0 < r < 1,

and with the *oracle point* y = g (x - c Z) the optimum is c_j = soft(z_j . y, r) / (1 - r): sample
j has a coefficient just where |z_j . y| > r. So the problem is solved over a few samples, the
oracle point tells which others should have been among them, and the strongest of these join until
none is missing. Each round lowers the objective, so the rounds end, at the optimum over all N.

Over m samples the dual is smooth and piecewise quadratic. Newton's method with a line search finds
its exact solution in a few steps: the linear system of the right support and signs.

References
----------
C. You, C.-G. Li, D. Robinson, R. Vidal. Oracle based active set algorithm for scalable elastic net
subspace clustering. CVPR, 2016.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.errors import InputError

from .explicit import SparseCoefficients
from .operator import Solution
from .sparse import check_matrix, check_positive, peak_correlations

START, GROWTH = 64, 32  # samples that a code starts from, and that may join in a round
NEWTON_STEPS, BISECTIONS = 100, 20
_CPU_BLOCK, _GPU_BLOCK = 2**23, 2**27  # numbers in a block of correlations
_SAMPLES = 8  # times as many in the samples that the codes of a block start from


@torch.no_grad()
def elastic_net_self_expression(
    Z: Tensor,
    alpha: float = 50.0,
    l1_ratio: float = 0.95,
    *,
    weight: float | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    block_rows: int | None = None,
) -> Solution:
    """The elastic net's code of every sample by the others, sparse.

    Parameters
    ----------
    Z : samples in rows, (N, d), float32 or float64.
    alpha : g of each sample in units of the least that gives it a coefficient,
        r / max_j |z_i . z_j|; more than 1. The code is then free of the scale of Z, but for
        that of the quadratic term : take rows of unit length.
    l1_ratio : r. Near 1 codes are sparse; smaller ones connect more samples of a subspace.
    weight : g itself, the same for all samples, in place of alpha's.
    tol : stop where no sample outside the code has |z_j . y| > (1 + tol) r.
    max_iter : at most so many rounds.
    block_rows : samples solved at a time; by default as many as keep a block of their N
        correlations small.

    Notes
    -----
    2 N^2 d flops a round for the samples that are not finished, and for each of them m^2 d and
    a few m^3 for the m samples of its active set. Memory: the result, and a block of rows.
    """
    check_matrix(Z, "Z")
    check_positive(alpha=alpha, weight=weight, tol=tol, max_iter=max_iter, block_rows=block_rows)
    if not 0.0 < l1_ratio < 1.0:
        raise InputError(f"l1_ratio must lie between 0 and 1, both excluded; got {l1_ratio}.")
    n = len(Z)
    peaks = peak_correlations(Z).double()
    if weight is None:
        g = torch.where(peaks > 0, alpha * l1_ratio / peaks.clamp_min(1e-300), 0.0)
    else:
        g = torch.full_like(peaks, weight)
    step = block_rows or rows_together(n, Z.shape[1], Z.device.type == "cpu")
    parts, rounds, worst = [], 0, 0.0
    for start in range(0, n, step):
        part = _solve_rows(Z, range(start, min(start + step, n)), g, l1_ratio, tol, int(max_iter))
        parts.append(part.codes)
        rounds, worst = max(rounds, part.rounds), max(worst, part.violation)
    C = sp.vstack(parts, format="csr")
    return Solution(SparseCoefficients(C), rounds, worst, worst <= tol)


def rows_together(n: int, d: int, on_cpu: bool = True) -> int:
    """The samples whose codes are solved together."""
    block = _CPU_BLOCK if on_cpu else _GPU_BLOCK
    return max(1, min(block // n, _SAMPLES * block // (START * d)))


class _Part(NamedTuple):
    codes: sp.csr_matrix
    rounds: int
    violation: float


def _solve_rows(Z: Tensor, rows: range, g: Tensor, r: float, tol: float, max_iter: int) -> _Part:
    """The codes of some samples, each over an active set T of its own."""
    n, device = len(Z), Z.device
    row = torch.arange(rows.start, rows.stop, device=device)
    T = _strongest(Z[row], Z, row, None, min(START, n - 1), 0.0)
    c = torch.zeros(T.shape, dtype=torch.float64, device=device)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    worst, rounds = 0.0, 0
    while len(row):
        rounds += 1
        x, weight = Z[row], g[row]
        A = Z[T.clamp_min(0)].masked_fill_((T < 0)[..., None], 0)  # (b, m, d)
        c, solved = newton((A @ A.mT).double(), _times(A, x).double(), weight, r, c)
        oracle = weight[:, None].to(x.dtype) * (x - (c.to(A.dtype)[:, None, :] @ A)[:, 0])
        missing = _strongest(oracle, Z, row, T, min(GROWTH, n - 1), r * (1.0 + tol))
        unfinished = (missing >= 0).any(dim=1)
        if not solved:
            worst = math.inf
        if rounds == max_iter and bool(unfinished.any()):
            most = (oracle * Z[missing[:, 0].clamp_min(0)]).sum(dim=1).abs()[unfinished].max()
            worst = max(worst, float(most) / r - 1.0)
            unfinished = torch.zeros_like(unfinished)
        done = ~unfinished
        found.append(_entries(row[done], T[done], c[done].to(Z.dtype)))
        T, c = _joined(T[unfinished], c[unfinished], missing[unfinished])
        row = row[unfinished]
    i, j, values = (np.concatenate(part) for part in zip(*found, strict=True))
    shape = (len(rows), n)
    return _Part(sp.csr_matrix((values, (i - rows.start, j)), shape=shape), rounds, worst)


def _strongest(y: Tensor, Z: Tensor, row: Tensor, T: Tensor | None, k: int, above: float) -> Tensor:
    """The k samples of largest |z_j . y| > above for each y (b, d), but for itself and T; or -1."""
    products = (y @ Z.mT).abs_()  # (b, N)
    products.scatter_(1, row[:, None], 0.0)
    if T is not None:
        # A place in T that is empty hides the sample itself, which is hidden already.
        products.scatter_(1, torch.where(T < 0, row[:, None], T), 0.0)
    values, indices = products.topk(k, dim=1)
    return indices.masked_fill_(values <= above, -1)


def _joined(T: Tensor, c: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """The samples with a coefficient and those that were missing, (b, m'); -1 where there is none.

    What has no coefficient leaves: the oracle point would not choose it either.
    """
    T = torch.cat([T.masked_fill(c == 0, -1), missing], dim=1)
    c = torch.cat([c, c.new_zeros(missing.shape)], dim=1)
    T, order = T.sort(dim=1, descending=True)
    width = int((T >= 0).sum(dim=1).max()) if len(T) else 0
    return T[:, :width], c.gather(1, order)[:, :width]


def _entries(row: Tensor, T: Tensor, c: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the coefficients c (b, m) over the samples T."""
    i, place = (c != 0).nonzero(as_tuple=True)
    return row[i].cpu().numpy(), T[i, place].cpu().numpy(), c[i, place].cpu().numpy()


def newton(G: Tensor, b: Tensor, g: Tensor, r: float, z: Tensor) -> tuple[Tensor, bool]:
    """argmin_c r |c|_1 + (1 - r)/2 |c|^2 + g/2 |x - c A|^2 for G = A A', b = A x (n, m), from z.

    The dual in y = g (x - z A) is |y|^2/(2 g) - x . y + |soft(A y, r)|^2 / (2 (1 - r)). Its Newton
    step goes to the code of the present support S and signs s, (g G_SS + (1 - r) I) z_S =
    g b_S - r s_S; where these are those of the step's end, it is the optimum. The second value says
    whether all have come there.
    """
    ridge, diagonal = 1.0 - r, torch.arange(G.shape[1], device=G.device)
    left, code = torch.arange(len(b), device=b.device), torch.zeros_like(b)
    Gz = _times(G, z)
    for _ in range(NEWTON_STEPS):
        scale = g[:, None]
        u = scale * (b - Gz)  # A y
        signs = torch.where(u.abs() > r, u.sign(), 0.0)
        S = signs.abs()
        system = scale[..., None] * G * S[:, :, None] * S[:, None, :]
        system[:, diagonal, diagonal] += torch.where(S > 0, ridge, 1.0)
        factor = torch.linalg.cholesky_ex(system).L
        target = torch.cholesky_solve((S * (scale * b) - r * signs)[..., None], factor)[..., 0]
        code[left] = target
        Gt = _times(G, target)
        reached = scale * (b - Gt)
        moving = (torch.where(reached.abs() > r, reached.sign(), 0.0) != signs).any(dim=1)
        if not bool(moving.any()):
            return code, True
        p, Gp = (target - z)[moving], (Gt - Gz)[moving]
        G, b, g, left, z, Gz = (v[moving] for v in (G, b, g, left, z, Gz))
        t = _line_search(u[moving], (reached - u)[moving], g, (z * Gp).sum(1), (p * Gp).sum(1), r)
        z, Gz = z + t[:, None] * p, Gz + t[:, None] * Gp
    return code, False


def _line_search(u: Tensor, du: Tensor, g: Tensor, zp: Tensor, pp: Tensor, r: float) -> Tensor:
    """The t in (0, 1] at which the dual's derivative along a step vanishes, or 1; (n,).

    D'(t) = g (z . G p + t p . G p) + soft(u + t du, r) . du / (1 - r) rises with t.
    """
    low, high = torch.zeros_like(g), torch.ones_like(g)
    t = high
    for _ in range(BISECTIONS):
        soft = torch.nn.functional.softshrink(u + t[:, None] * du, r)
        rises = g * (zp + t * pp) + (soft * du).sum(dim=1) / (1.0 - r) > 0
        low, high = torch.where(rises, low, t), torch.where(rises, t, high)
        t = 0.5 * (low + high)
    return high


def _times(G: Tensor, z: Tensor) -> Tensor:
    return (G @ z[..., None])[..., 0]
