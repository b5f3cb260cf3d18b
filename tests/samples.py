"""Random samples for tests, one a row."""

from __future__ import annotations

import numpy as np
import torch


def normal(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    """The same, of unit length."""
    return torch.nn.functional.normalize(normal(n, d, seed))
