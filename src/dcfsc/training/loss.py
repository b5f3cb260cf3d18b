"""What training minimizes: the paper's equation 1, and any term added to it; and its lam.

lam is a number, or a share of the latents' energy that follows their scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from dcfsc import processes
from dcfsc.self_expression import choose_lam

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


LamRule = Callable[[Tensor], float]  # latents Z (N, d) -> the lam of this step


@dataclass(frozen=True)
class Absolute:
    """The same lam at every step, as in the paper."""

    lam: float

    def __call__(self, Z: Tensor) -> float:
        return self.lam


@dataclass(frozen=True)
class ShareOfEnergy:
    """lam = share * |Z|_F^2.

    An absolute lam loses its meaning as training rescales the latents: doubling Z divides lam by
    four at no cost to the reconstruction. A share of the energy is free of that.
    """

    share: float

    def __call__(self, Z: Tensor) -> float:
        return self.share * energy(Z)

    @classmethod
    def for_dof(cls, Z: Tensor, dof: float) -> ShareOfEnergy:
        """The share at which Z has ``dof`` effective degrees of freedom."""
        return cls(choose_lam(Z, dof) / energy(Z))


def energy(Z: Tensor) -> float:
    """|Z|_F^2, bounded away from zero so that lam stays positive for dead latents."""
    own = sum(float(part.double().square().sum()) for part in Z.detach().split(1 << 16))
    return max(processes.total_number(own), 1e-300)
