"""The sample of the rows that representations are chosen and fitted on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dcfsc import processes

MOST_SAMPLES = 3000
KEY_ROWS = 4096  # whose keys are computed at a time


def common_sample(Z: Tensor, order: np.ndarray | None = None) -> Tensor:
    """At most ``MOST_SAMPLES`` rows of all processes' Z, the same on each.

    They are the first in ``order`` and come in it, if there is one.
    """
    N = processes.total_count(len(Z))
    if N <= MOST_SAMPLES and order is None:
        return processes.gather_rows(Z)
    chosen = sampled_rows(N, order)
    ascending = np.sort(chosen)
    counts = processes.row_counts(len(Z), Z.device)
    first = sum(counts[: processes.rank()])
    own = ascending[(ascending >= first) & (ascending < first + len(Z))] - first
    sample = processes.gather_rows(Z[torch.from_numpy(own).to(Z.device)])
    if order is None:
        return sample
    return sample[torch.from_numpy(np.searchsorted(ascending, chosen)).to(Z.device)]


def sampled_rows(n: int, order: np.ndarray | None = None) -> np.ndarray:
    """Indices of the at most ``MOST_SAMPLES`` of n rows that are a common sample, as they come."""
    if order is not None:
        return order[:MOST_SAMPLES]
    return np.sort(np.random.RandomState(0).permutation(n)[:MOST_SAMPLES])


def canonical_order(X: Tensor) -> np.ndarray:
    """An order of all processes' samples X (n, d) that depends on their values alone.

    It looks random: that of their keys.
    """
    return row_keys(X).argsort(stable=True).cpu().numpy()


def row_keys(X: Tensor) -> Tensor:
    """A key (N,) for each of all processes' samples X (n, d); equal samples have equal keys.

    It is a sum of the row's bits, each number's times a random odd integer, modulo 2^64: exact
    arithmetic gives it the same value wherever the row stands.
    """
    kind = torch.int64 if X.dtype == torch.float64 else torch.int32
    factors = np.random.RandomState(0).randint(-(2**62), 2**62, X.shape[1], dtype=np.int64) * 2 + 1
    times = torch.from_numpy(factors).to(X.device)
    keys = torch.empty(len(X), dtype=torch.int64, device=X.device)
    for start in range(0, len(X), KEY_ROWS):
        bits = (X[start : start + KEY_ROWS] + 0.0).view(kind).long()  # -0.0 is 0.0
        mixed = (bits ^ (bits >> 15)) * times
        keys[start : start + KEY_ROWS] = (mixed ^ (mixed >> 31)).sum(dim=1)
    return processes.gather_rows(keys)
