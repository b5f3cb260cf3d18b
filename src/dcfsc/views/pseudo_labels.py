"""What the closed form teaches a network: neighbors as positives, and clusters as pseudo-labels."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from torch import Tensor, nn

from dcfsc import processes

# Positives of a sample besides itself, and how often it is its own.
POSITIVES = 3
OWN = 0.5


class PseudoLabels(nn.Module):
    """Positives and pseudo-labels of N samples; a module, so that a checkpoint keeps it."""

    positives: Tensor  # (N, 1 + k): what may stand in for a sample in its second view, itself first
    shares: Tensor  # (N, 1 + k): how often each is taken, added up along the row
    targets: Tensor  # (N,): pseudo-labels, -1 where not known
    first: Tensor  # (N,): the clusters learned first, -1 before

    def __init__(self, n: int, device: torch.device, k: int = POSITIVES):
        super().__init__()
        own = torch.arange(n, device=device)[:, None].expand(n, 1 + k).clone()
        self.register_buffer("positives", own)
        self.register_buffer("shares", torch.ones(n, 1 + k, device=device))
        self.register_buffer("targets", torch.full((n,), -1, device=device))
        self.register_buffer("first", torch.full((n,), -1, device=device))

    def positive_of(self, rows: Tensor, uniform: Tensor) -> Tensor:
        """A positive (n,) of each of the rows, by one uniform number in [0, 1) for each."""
        place = (uniform[:, None] >= self.shares[rows]).sum(dim=1)
        return self.positives[rows, place.clamp_max(self.positives.shape[1] - 1)]

    def learn(
        self,
        graph: csr_array | None,
        labels: np.ndarray | None,
        doubtful: float = 0.0,
        own: float = OWN,
    ) -> None:
        """Take positives from an affinity (N, N), and targets from its clusters (N,).

        The first clusters become no targets. Later ones do where the first ones agree with them
        (:func:`agreed`). Where processes share the samples, the first one brings graph and labels,
        and all of them learn.
        """
        if graph is not None and labels is not None:
            positives, shares = strongest(graph, self.positives.shape[1] - 1, own)
            self.positives.copy_(torch.from_numpy(positives))
            self.shares.copy_(torch.from_numpy(shares))
            first = self.first.cpu().numpy()
            if (first < 0).all():
                self.first.copy_(torch.from_numpy(labels))
            else:
                self.targets.copy_(torch.from_numpy(agreed(labels, first, doubtful)))
        for buffer in self.buffers():
            processes.broadcast(buffer, 0)


def agreed(labels: np.ndarray, others: np.ndarray, doubtful: float = 0.0) -> np.ndarray:
    """Labels (N,) where another clustering agrees, -1 elsewhere.

    The clusters of both are matched one to one, so that as many samples as possible agree. A
    cluster in which less than the share ``doubtful`` does keeps all of its labels: there the two
    differ about what is a cluster, not about single samples.
    """
    k = int(max(labels.max(), others.max())) + 1
    together = np.zeros((k, k), dtype=np.int64)
    np.add.at(together, (labels, others), 1)
    rows, columns = linear_sum_assignment(together, maximize=True)
    match = np.empty(k, dtype=np.int64)
    match[rows] = columns
    share = together[np.arange(k), match] / np.maximum(together.sum(axis=1), 1)
    agree = (match[labels] == others) | (share[labels] < doubtful)
    return np.where(agree, labels, -1)


def strongest(graph: csr_array, k: int, own: float = OWN) -> tuple[np.ndarray, np.ndarray]:
    """Each sample and its k strongest neighbors (N, 1 + k), and their shares added up.

    A sample itself has the share ``own``, its neighbors the rest in proportion to their weights.
    One that has fewer than k neighbors fills up with itself.
    """
    n = graph.shape[0]
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    linked = (graph.indices != rows) & (graph.data > 0)
    rows, columns, values = rows[linked], graph.indices[linked], graph.data[linked]
    order = np.lexsort((columns, -values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    first = np.searchsorted(rows, np.arange(n))
    rank = np.arange(len(rows)) - first[rows]
    near = rank < k
    positives = np.tile(np.arange(n)[:, None], (1, 1 + k))
    weights = np.zeros((n, 1 + k))
    positives[rows[near], 1 + rank[near]] = columns[near]
    weights[rows[near], 1 + rank[near]] = values[near]
    total = weights.sum(axis=1, keepdims=True)
    shares = (1.0 - own) * weights / np.where(total > 0, total, 1.0)
    shares[:, 0] = 1.0 - shares[:, 1:].sum(axis=1)
    return positives, np.cumsum(shares, axis=1).astype(np.float32)
