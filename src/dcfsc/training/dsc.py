"""Deep subspace clustering (Ji et al. 2017): the self-expressive layer as N x N parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from .checkpoint import State
from .history import History
from .loop import run_steps


@dataclass(frozen=True)
class DSCLoss:
    """r |X - Dec(C Z)|_F^2 + a |C|_p + b / 2 |Z - C Z|_F^2   (paper, equation 3).

    ``norm="l2"`` takes the squared Frobenius norm and leaves the diagonal free, as released: the
    penalty keeps C from the identity. ``norm="l1"`` takes the sum of magnitudes of C with its
    diagonal removed.
    """

    coefficients: float = 1.0  # a
    self_expression: float = 1.0  # b
    reconstruction: float = 0.5  # r
    norm: Literal["l1", "l2"] = "l2"

    def used(self, C: Tensor) -> Tensor:
        """The matrix that the layer multiplies with."""
        return C - torch.diag(C.diagonal()) if self.norm == "l1" else C

    def __call__(self, X: Tensor, Z: Tensor, network: Any, C: Tensor) -> dict[str, Tensor]:
        used = self.used(C)
        expressed = used @ Z
        reconstruction = network.decoder(expressed)
        size = used.abs().sum() if self.norm == "l1" else used.square().sum()
        return {
            "reconstruction": self.reconstruction * (reconstruction - X).square().sum(),
            "coefficients": self.coefficients * size,
            "self_expression": 0.5 * self.self_expression * (Z - expressed).square().sum(),
        }


def train_dsc(
    network: Any,
    X: Tensor,
    C: Tensor,
    loss: DSCLoss,
    *,
    steps: int,
    learning_rate: float,
    history: History,
) -> Tensor:
    """Algorithm 1: full-batch Adam on the network and C (N, N) together; returns the final C."""
    C = C.detach().clone().requires_grad_(True)
    optimizer = torch.optim.Adam([*network.parameters(), C], lr=learning_rate)

    def step() -> tuple[float, dict[str, float]]:
        parts = loss(X, network.encoder(X), network, C)
        total = torch.stack(list(parts.values())).sum()
        optimizer.zero_grad(set_to_none=True)
        total.backward()
        optimizer.step()
        return float(total.detach()), {name: float(part.detach()) for name, part in parts.items()}

    run_steps("train", steps, step, State(network, optimizer, history))
    return loss.used(C.detach())
