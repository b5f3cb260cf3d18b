"""The sample of the rows that representations are chosen and fitted on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dcfsc import processes

MOST_SAMPLES = 3000
KEY_ROWS = 4096  # rows whose keys are computed at a time


def common_sample(Z: Tensor) -> Tensor:
    """At most ``MOST_SAMPLES`` rows of all processes' Z, the same on each."""
    N = processes.total_count(len(Z))
    if N <= MOST_SAMPLES:
        return processes.gather_rows(Z)
    chosen = sampled_rows(N)
    counts = processes.row_counts(len(Z), Z.device)
    first = sum(counts[: processes.rank()])
    own = chosen[(chosen >= first) & (chosen < first + len(Z))] - first
    return processes.gather_rows(Z[torch.from_numpy(own).to(Z.device)])


def canonical_order(X: Tensor) -> np.ndarray:
    """An order of the samples X (n, d) that depends on their values alone, and looks random.

    The key of a row is a sum of its numbers' bits, each times a random odd integer, modulo 2^64.
    Exact arithmetic in integers gives it the same value wherever the row stands.
    """
    kind = torch.int64 if X.dtype == torch.float64 else torch.int32
    factors = np.random.RandomState(0).randint(-(2**62), 2**62, X.shape[1], dtype=np.int64) * 2 + 1
    times = torch.from_numpy(factors).to(X.device)
    keys = torch.empty(len(X), dtype=torch.int64, device=X.device)
    for start in range(0, len(X), KEY_ROWS):
        bits = (X[start : start + KEY_ROWS] + 0.0).view(kind).long()  # -0.0 is 0.0
        mixed = (bits ^ (bits >> 15)) * times
        keys[start : start + KEY_ROWS] = (mixed ^ (mixed >> 31)).sum(dim=1)
    return keys.argsort(stable=True).cpu().numpy()


def sampled_rows(n: int) -> np.ndarray:
    """Sorted indices of the ``MOST_SAMPLES`` of n > MOST_SAMPLES rows that are a common sample."""
    return np.sort(np.random.RandomState(0).permutation(n)[:MOST_SAMPLES])
