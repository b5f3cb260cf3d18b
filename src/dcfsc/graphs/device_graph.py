"""A sparse affinity held and checked where the eigenproblem is solved: torch tensors, one device.

The same graph as a SciPy matrix gives in :mod:`.graph`, for devices other than the CPU: a million
points are read, checked and split into components there in milliseconds, and only the degrees and
the components travel back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.graphs.graph import (
    ROUNDING,
    Affinity,
    Graph,
    ImplicitAffinity,
    NormalizedAffinity,
    check_finite,
    check_range,
    check_shape,
    check_symmetry,
    csr_tensor,
    inverse_root,
    read_sparse,
)


class DeviceAffinity(ImplicitAffinity):
    """S on a device, B a torch CSR matrix."""

    def __init__(self, csr: CSR, values: Tensor, s: Tensor, tau: float) -> None:
        self.n, self.device = csr.n, values.device
        self._csr, self._values = csr, values
        self.s, self.tau = s, tau

    def _matrix(self, kind: torch.dtype) -> Tensor:
        return self._csr.matrix(self._values.to(kind))


@dataclass(frozen=True)
class CSR:
    """Where the entries are: ``pointers`` (n + 1,), ``rows`` and sorted ``columns`` (nnz,)."""

    pointers: Tensor
    rows: Tensor
    columns: Tensor

    @property
    def n(self) -> int:
        return len(self.pointers) - 1

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, n: int) -> CSR:
        pointers = torch.zeros(n + 1, dtype=torch.int64, device=rows.device)
        torch.cumsum(torch.bincount(rows, minlength=n), 0, out=pointers[1:])
        return cls(pointers, rows, columns)

    def matrix(self, values: Tensor) -> Tensor:
        return csr_tensor(self.pointers, self.columns, values)

    def row_sums(self, values: Tensor) -> Tensor:
        """(n,), each row added by one thread: repeatable to the bit."""
        return torch.segment_reduce(values, "sum", offsets=self.pointers, initial=0.0)


@dataclass(frozen=True, eq=False)
class DeviceGraph(Graph):
    """A checked sparse affinity on a device, ``weights`` its values; see :class:`Graph`."""

    csr: CSR

    @classmethod
    def of(cls, matrix: Affinity, csr: CSR, values: Tensor, scale: float) -> DeviceGraph:
        degrees = csr.row_sums(values).cpu().numpy()
        return cls(matrix, values, degrees, scale, values.device, csr)

    @property
    def _degrees(self) -> Tensor:
        return self.csr.row_sums(self.values)

    @property
    def values(self) -> Tensor:
        assert isinstance(self.weights, Tensor)
        return self.weights

    @cached_property
    def components(self) -> np.ndarray:
        s = inverse_root(self._degrees)
        rows, columns = self.csr.rows, self.csr.columns
        seen = self.values * s[rows] * s[columns] > ROUNDING
        smallest = smallest_members(rows[seen], columns[seen], self.n)
        return torch.unique(smallest, return_inverse=True)[1].cpu().numpy()

    def subgraph(self, keep: np.ndarray) -> Graph:
        if keep.all():
            return self
        kept = torch.from_numpy(keep).to(self.device)
        number = torch.cumsum(kept, 0) - 1
        rows, columns = self.csr.rows, self.csr.columns
        inside = kept[rows] & kept[columns]
        csr = CSR.of(number[rows[inside]], number[columns[inside]], int(keep.sum()))
        return DeviceGraph.of(self.matrix, csr, self.values[inside], self.scale)

    def normalized(self, tau: float) -> NormalizedAffinity:
        s = inverse_root(self._degrees + tau)
        values = self.values * s[self.csr.rows] * s[self.csr.columns]
        return DeviceAffinity(self.csr, values, s, tau)


def smallest_members(rows: Tensor, columns: Tensor, n: int) -> Tensor:
    """The smallest point (n,) of every point's connected component, for edges in both directions.

    Labels fall along edges and along the trees of labels, whose roots are hooked onto smaller ones:
    a number of rounds logarithmic in n. Reference: Y. Zhang, A. Azad and Z. Hu, "FastSV: a
    distributed-memory connected component algorithm with fast convergence", SIAM PP 2020.
    """
    label = torch.arange(n, device=rows.device)
    while True:
        offered = label[columns]
        lower = label.scatter_reduce(0, label[rows], offered, "amin")
        lower.scatter_reduce_(0, rows, offered, "amin")
        lower = lower[lower]
        lower = lower[lower]
        if torch.equal(lower, label):
            return label
        label = lower


def read_on_device(A: Any, device: torch.device) -> Graph:
    """Check a SciPy sparse affinity on ``device``; the checks and words of the CPU's reader."""
    check_shape(A.shape, A.dtype)
    single = A.dtype == np.float32
    W = sp.csr_array(A)
    if not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    n = W.shape[0]
    pointers = torch.from_numpy(W.indptr).to(device, torch.int64)
    columns = torch.from_numpy(W.indices).to(device, torch.int64)
    values = torch.from_numpy(W.data).to(device, torch.float64)
    rows = torch.repeat_interleave(
        torch.arange(n, device=device), pointers.diff(), output_size=len(columns)
    )
    check_finite(int((~torch.isfinite(values)).sum()))
    inside = (rows != columns) & (values != 0)
    rows, columns, values = rows[inside], columns[inside], values[inside]
    extremes = torch.aminmax(values) if len(values) else (torch.zeros(()), torch.zeros(()))
    smallest, largest = (float(extreme) for extreme in extremes)
    check_range(smallest, largest)
    transposed, order = torch.sort(columns * n + rows)
    if not torch.equal(transposed, rows * n + columns):
        return _symmetrized_on_the_host(A, device)
    values /= largest
    mirrored = values[order]
    gap = float((values - mirrored).abs().max())
    check_symmetry(largest * gap, largest, single)
    if gap > 0:
        values = (values + mirrored) / 2
    return DeviceGraph.of(A, CSR.of(rows, columns, n), values, largest)


def _symmetrized_on_the_host(A: Any, device: torch.device) -> Graph:
    """Entries without a mirror image are an error, or rounding that the CPU's reader averages."""
    graph = read_sparse(A, torch.device("cpu"))
    W: Any = graph.weights
    W.sort_indices()
    columns = torch.from_numpy(W.indices).to(device, torch.int64)
    counts = torch.from_numpy(np.diff(W.indptr)).to(device, torch.int64)
    rows = torch.repeat_interleave(torch.arange(graph.n, device=device), counts)
    values = torch.from_numpy(W.data).to(device)
    return DeviceGraph.of(A, CSR.of(rows, columns, graph.n), values, graph.scale)
