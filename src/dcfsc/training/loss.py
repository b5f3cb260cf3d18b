"""What training minimizes: the paper's equation 1, and any term added to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

# What a step says of itself, the loss's parts and the closed form; reading it may wait for a GPU.
Figures = Callable[[], tuple[dict[str, float], dict[str, float]]]


@dataclass
class Pass:
    """What one pass through the network leaves for a loss to read."""

    X: Tensor  # (N, ...) input as the network sees it
    latent: Tensor  # (N, d) Enc(X)
    expressed: Tensor  # (N, d) B Enc(X), or Enc(X) itself in pre-training
    reconstruction: Tensor  # (N, ...)


class LossTerm(Protocol):
    """A scalar to be added to the reconstruction error; ``name`` is its column in the history."""

    @property
    def name(self) -> str: ...

    def __call__(self, state: Pass) -> Tensor: ...


def reconstruction_error(state: Pass) -> Tensor:
    """|X - Dec(B Enc(X))|_F^2 (equation 1)."""
    return (state.reconstruction - state.X).square().sum()
