"""The sample of the rows that representations are chosen and fitted on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dcfsc import processes

MOST_SAMPLES = 3000


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


def sampled_rows(n: int) -> np.ndarray:
    """Sorted indices of the ``MOST_SAMPLES`` of n > MOST_SAMPLES rows that are a common sample."""
    return np.sort(np.random.RandomState(0).permutation(n)[:MOST_SAMPLES])
