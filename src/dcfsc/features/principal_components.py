"""Principal components of rows that arrive in chunks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SMALL_SQUARE = 1e-8  # of the largest: a component below it has fewer than eight good digits
BLOCK = 512  # columns of the covariance updated together


class RunningCovariance:
    """Mean m and scatter sum_i (s_i - m)(s_i - m)' of rows s_i (d,), accumulated in float64.

    Rows are shifted by the first chunk's mean, so the correction at the end is small. Only
    the upper triangle is kept up to date. Memory d^2 float64, besides one chunk.
    """

    def __init__(self, d: int, device: torch.device):
        self.n = 0
        self._products = torch.zeros((d, d), dtype=torch.float64, device=device)
        self._sum = torch.zeros(d, dtype=torch.float64, device=device)
        self._shift: Tensor | None = None

    def add(self, S: Tensor) -> None:
        """Take the rows of S (b, d) in."""
        rows = S.double()
        if self._shift is None:
            self._shift = rows.mean(0)
        rows = rows - self._shift
        self.n += len(rows)
        self._sum += rows.sum(0)
        # a block row from its diagonal on: half the products of the whole matrix
        for start in range(0, rows.shape[1], BLOCK):
            stop = start + BLOCK
            self._products[start:stop, start:].addmm_(rows[:, start:stop].T, rows[:, start:])

    def principal(self, k: int, center: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean (d,), the k leading components (k, d) and their variances (k,), in float64.

        Without ``center`` the mean is taken as zero: the components are the leading right singular
        vectors of the rows themselves, and the variances their mean squares.
        """
        assert self._shift is not None
        offset = self._sum / self.n
        scatter = self._products.addr_(self._sum, offset, alpha=-1)
        m = self._shift + offset
        if not center:
            scatter.addr_(m, m, alpha=self.n)
            m = torch.zeros_like(m)
        squares, V = _leading(scatter, k, lower=False)
        variances = squares.clamp_min(0.0) / (self.n - 1 if center else self.n)
        components = _oriented(V.mT.contiguous().cpu().numpy())
        return m.cpu().numpy(), components, variances.cpu().numpy()


def principal_components(
    S: Tensor, k: int, center: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for rows S (n, d) in memory with n <= d, from their inner products.

    Those square the singular values: where the k-th is small, so that rounding would show, the
    singular value decomposition is taken, which costs several times as much. There are no more
    components than rows that differ.
    """
    rows = S.double()
    mean = rows.mean(0) if center else torch.zeros_like(rows[0])
    rows = rows - mean if center else rows
    squares, U = _leading(_products(rows), k)
    if float(squares[-1]) > SMALL_SQUARE * float(squares[0]):
        V = (U.mT @ rows) / squares.sqrt()[:, None]
    else:
        # copies are the usual reason: each row once, as long as its copies together
        rows, copies = torch.unique(rows, dim=0, return_counts=True)
        _, s, V = torch.linalg.svd(rows * copies.sqrt()[:, None], full_matrices=False)
        squares, V = s[:k].square(), V[:k]
    variances = squares / (len(S) - 1 if center else len(S))
    return mean.cpu().numpy(), _oriented(V.cpu().numpy()), variances.cpu().numpy()


def _products(rows: Tensor) -> Tensor:
    """The inner products (n, n) of rows (n, d), in the lower triangle."""
    G = rows.new_zeros(len(rows), len(rows))
    for start in range(0, len(rows), BLOCK):  # a block column from its diagonal on
        G[start:, start : start + BLOCK] = rows[start:] @ rows[start : start + BLOCK].mT
    return G


def _leading(G: Tensor, k: int, lower: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues of G (n, n), descending, and their vectors (n, k).

    Of G the lower triangle is read, or the upper one.
    """
    n = len(G)
    values, vectors = torch.linalg.eigh(G, UPLO="L" if lower else "U")
    return values[n - k :].flip(0), vectors[:, n - k :].flip(1)


def _oriented(components: np.ndarray) -> np.ndarray:
    """Components are known up to sign: the largest entry of each is made positive."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * signs[:, None]
