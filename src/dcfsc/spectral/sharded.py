"""The eigenproblem of a sparse affinity with its rows divided among processes.

    S X = [S_1 X; ...; S_R X],      S_r the rows of S that process r holds

The first process solves, as `embed` does, and holds the vectors; every product with a block
X (n x b) is one broadcast of X and one collection of the n b results. Decisions, such as when the
residual is small enough, are taken in one place: processes on unlike machines cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.graphs.graph import NormalizedAffinity, SparseAffinity

_END, _ROWS, _MULTIPLY = range(3)


class ShardedAffinity(NormalizedAffinity):
    """S (n x n) of the first process, multiplied by all; they are in :func:`serve_products`."""

    has_single = True

    def __init__(self, S: SparseAffinity) -> None:
        self.n, self.device = S.n, S.device
        self._S = S
        shares = _shares(S.n)
        processes.tell(_ROWS, S.n, 0)
        for target, share in enumerate(shares[1:], 1):
            _send_rows(S.B[share], target)
        self._rows = _Rows(S.B[shares[0]])

    def apply(self, X: Tensor) -> Tensor:
        processes.tell(_MULTIPLY, X.shape[1], X.dtype == torch.float32)
        processes.broadcast(X.contiguous(), 0)
        product = processes.collect_rows(self._rows @ X, _counts(self.n))
        assert product is not None
        if self._S.tau > 0:
            s = self._S.s.to(X.dtype)
            product += (self._S.tau / self.n) * torch.outer(s, s @ X)
        return product

    def dense(self) -> Tensor:
        return self._S.dense()


@contextmanager
def sharing() -> Iterator[Callable[[NormalizedAffinity], NormalizedAffinity]]:
    """What shares the products of an affinity with the other processes, for the first one.

    The others are in :func:`serve_products` meanwhile.
    """

    def shared(S: NormalizedAffinity) -> NormalizedAffinity:
        assert isinstance(S, SparseAffinity)
        return ShardedAffinity(S)

    try:
        yield shared
    finally:
        processes.tell(_END, 0, 0)


def serve_products() -> None:
    """Multiply for the first process until it has its eigenvectors."""
    n, rows = 0, None
    while True:
        order, number, single = processes.hear(3)
        if order == _END:
            return
        if order == _ROWS:
            n, rows = number, _Rows(_receive_rows(number))
            continue
        assert rows is not None
        kind = torch.float32 if single else torch.float64
        X = processes.broadcast(torch.empty(n, number, dtype=kind), 0)
        processes.collect_rows(rows @ X, _counts(n))


class _Rows:
    """Some rows of B (n_r x n), in both precisions."""

    def __init__(self, B: sp.csr_array) -> None:
        self._double, self._single = B, B.astype(np.float32)

    def __matmul__(self, X: Tensor) -> Tensor:
        B = self._single if X.dtype == torch.float32 else self._double
        return torch.from_numpy(B @ X.numpy())


def _shares(n: int) -> list[slice]:
    return [processes.shard(n, r, processes.size()) for r in range(processes.size())]


def _counts(n: int) -> list[int]:
    return [share.stop - share.start for share in _shares(n)]


def _send_rows(B: sp.csr_array, target: int) -> None:
    processes.send(torch.tensor([B.shape[0], B.nnz]), target)
    processes.send(torch.from_numpy(B.indptr.astype(np.int64)), target)
    if B.nnz:
        processes.send(torch.from_numpy(B.indices.astype(np.int64)), target)
        processes.send(torch.from_numpy(B.data), target)


def _receive_rows(n: int) -> sp.csr_array:
    count, nnz = processes.receive(torch.zeros(2, dtype=torch.int64), 0).tolist()
    pointers = processes.receive(torch.zeros(count + 1, dtype=torch.int64), 0)
    columns, values = torch.zeros(nnz, dtype=torch.int64), torch.zeros(nnz, dtype=torch.float64)
    if nnz:
        processes.receive(columns, 0)
        processes.receive(values, 0)
    kind = np.int32 if max(n, nnz) < 2**31 - 1 else np.int64
    place = columns.numpy().astype(kind), pointers.numpy().astype(kind)
    return sp.csr_array((values.numpy(), *place), shape=(count, n))
