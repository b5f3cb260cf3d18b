"""Samples are linked where their codes are alike, as in the code that came with EnSC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.parameters import Checked, table, whole

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator

BLOCK = 2**24  # cosines that are held together, at most
TIE = 1e-9  # of a coefficient of unit length: less than a cosine's digits that matter


@dataclass(frozen=True)
class NearestCodes(Checked):
    """A = (W + W') / 2, W_ij = 1 for the k samples j whose codes are nearest to that of sample i.

    A code is a row of C, here its ``n_nonzero`` largest coefficients with their signs, at unit
    length; the nearest have the largest cosine. Two samples of one subspace are expressed by the
    same others and so have codes alike, even if neither has a coefficient on the other.

    Only cosines above zero count. Equal ones go by the coefficient of i on j, then by the lower
    index. Where fewer than k codes have a cosine, the samples of the largest coefficients take
    their places: two copies of one sample are each other's code, and these codes are orthogonal.

    Cost about N n_nonzero^2 products, more where some samples are in very many codes; memory
    N n_nonzero and a block of rows.

    References
    ----------
    C. You, C.-G. Li, D. Robinson, R. Vidal. Oracle based active set algorithm for scalable elastic
    net subspace clustering. CVPR, 2016; k and n_nonzero are those of the authors' code.
    """

    k: int = 3
    n_nonzero: int = 50

    _table = table(k=whole(1), n_nonzero=whole(1))

    def __call__(self, operator: Operator, n_clusters: int) -> sp.csr_array:
        lists = operator.neighbors(self.n_nonzero)
        graphs = [self._graph(unit_codes(*neighbors)) for neighbors in lists]
        return graphs[0] if len(graphs) == 1 else sp.csr_array(sum(graphs[1:], start=graphs[0]))

    def _graph(self, codes: sp.csr_array) -> sp.csr_array:
        blocks = list(_nearest(codes, self.k))
        i, j = (np.concatenate(part) for part in zip(*blocks, strict=True))
        W = sp.csr_array((np.full(len(i), 0.5), (i, j)), shape=codes.shape)
        return sp.csr_array(W + W.T)


def unit_codes(values: Tensor, columns: Tensor) -> sp.csr_array:
    """Codes (N, N) of the coefficients (N, k) on some columns, rows of unit length or zero."""
    n = len(values)
    columns = columns.cpu()
    own = columns == torch.arange(n)[:, None]
    codes = values.detach().cpu().to(torch.float64).masked_fill(own, 0.0).numpy()
    largest = np.abs(codes).max(axis=1, keepdims=True, initial=0.0)
    codes = codes / np.where(largest > 0, largest, 1.0)  # first, so that no square overflows
    length = np.linalg.norm(codes, axis=1, keepdims=True)
    codes /= np.where(length > 0, length, 1.0)
    i = np.repeat(np.arange(n), codes.shape[1])
    C = sp.csr_array((codes.ravel(), (i, columns.numpy().ravel())), shape=(n, n))
    C.eliminate_zeros()
    return C


def _nearest(codes: sp.csr_array, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows i and columns j of the k largest cosines above zero of each row, a block at a time."""
    n = codes.shape[0]
    transposed = sp.csr_array(codes.T)
    step = max(1, BLOCK // n)
    for start in range(0, n, step):
        rows = codes[start : start + step]
        cosines = sp.csr_array(rows @ transposed + TIE * abs(rows))
        i = np.repeat(np.arange(rows.shape[0]), np.diff(cosines.indptr))
        counts = (cosines.data > 0) & (cosines.indices != i + start)
        i, j, values = i[counts], cosines.indices[counts], cosines.data[counts]
        few = values >= _thresholds(i, values, k)
        i, j, values = i[few], j[few], values[few]
        order = np.lexsort((j, -values, i))
        i, j = i[order], j[order]
        first = np.searchsorted(i, i)
        kept = np.arange(len(i)) - first < k
        yield i[kept] + start, j[kept]


def _thresholds(row: np.ndarray, values: np.ndarray, k: int) -> np.ndarray:
    """For each positive value, in sorted rows, what the k largest of its row do not fall below."""
    first = np.flatnonzero(np.diff(row, prepend=-1))
    which = np.repeat(np.arange(len(first)), np.diff(first, append=len(row)))
    left = values
    for _ in range(k):
        largest = np.maximum.reduceat(left, first)[which]
        left = np.where(left < largest, left, 0.0)
    return largest
