"""Random samples for tests, one a row, and a term of a loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dcfsc.training import Pass


def normal(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    """The same, of unit length."""
    return torch.nn.functional.normalize(normal(n, d, seed))


@dataclass(frozen=True)
class SelfExpressionTerm:
    """weight / 2 |Z - B Z|_F^2, to be added to equation 1."""

    weight: float = 1.0
    name: str = "self_expression"

    def __call__(self, state: Pass) -> torch.Tensor:
        return 0.5 * self.weight * (state.latent - state.expressed).square().sum()
