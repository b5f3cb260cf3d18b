"""Training: reconstruction first, then Algorithm 2, full batch, Adam."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dcfsc.errors import InputError
from dcfsc.self_expression import ClosedForm, solve

from .history import History, Plateau
from .lam import LamRule
from .loss import LossTerm, Pass, reconstruction_error
from .precision import check_precision, network_context, prepare


def forward(
    network: Any, X: Tensor, lam: LamRule | None, precision: str = "float32"
) -> tuple[Pass, ClosedForm | None]:
    """Algorithm 2, lines 4-9: encode, solve, express with B held constant, decode.

    Without ``lam`` it is the plain auto-encoder. ``precision`` is the network's; the latents are
    brought back to that of X before they are solved.
    """
    with network_context(precision, X.device):
        latent = network.encoder(X)
    latent = latent.to(X.dtype)
    operator = None if lam is None else solve(latent, lam(latent))
    expressed = latent if operator is None else operator.apply(latent)
    with network_context(precision, X.device):
        reconstruction = network.decoder(expressed)
    return Pass(X, latent, expressed, reconstruction.to(X.dtype)), operator


def pretrain(
    network: nn.Module,
    X: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator,
    history: History,
) -> None:
    """Minimise |X - Dec(Enc(X))|^2 over shuffled mini-batches; no self-expression.

    The loss of a row in the history is the epoch's sum over the samples.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    network.train()
    n = X.shape[0]
    # Batches of nearly equal size: a last batch of one sample would break batch norm.
    n_batches = max(1, round(n / batch_size))
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        order = torch.randperm(n, generator=generator, device=generator.device).to(X.device)
        total = 0.0
        for batch in order.tensor_split(n_batches):
            state, _ = forward(network, X[batch], None)
            loss = reconstruction_error(state)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
        check_finite(total, "pre-training", epoch, learning_rate)
        history.record(
            phase="pretrain", step=epoch, loss=total, seconds=time.perf_counter() - start
        )


def train(
    network: nn.Module,
    X: Tensor,
    *,
    steps: int,
    lam: LamRule,
    learning_rate: float,
    history: History,
    terms: Sequence[LossTerm] = (),
    tol: float | None = None,
    patience: int = 20,
    precision: str = "float32",
) -> None:
    """Algorithm 2: ``steps`` full-batch Adam steps on equation 1 plus ``terms``."""
    check_precision(precision, X.device)
    X = prepare(network, X, precision)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    network.train()
    stalled = Plateau(tol, patience)
    for step in range(1, steps + 1):
        start = time.perf_counter()
        state, operator = forward(network, X, lam, precision)
        loss = reconstruction_error(state)
        parts = {"reconstruction": loss}
        for term in terms:
            parts[term.name] = term(state)
            loss = loss + parts[term.name]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        row = {name: float(part.detach()) for name, part in parts.items()} if terms else {}
        value = float(loss.detach())
        check_finite(value, "training", step, learning_rate)
        assert operator is not None
        history.record(
            phase="train",
            step=step,
            loss=value,
            seconds=time.perf_counter() - start,
            lam=operator.lam,
            effective_dof=operator.effective_dof,
            **row,
        )
        if stalled(value):
            break


@torch.no_grad()
def encode(network: Any, X: Tensor, batch_size: int = 4096, training: bool = False) -> Tensor:
    """Latents (N, d), a chunk at a time.

    With ``training=True`` batch norm uses the statistics of X itself, as during full-batch
    training, which needs X in one piece; otherwise the running statistics, so that a sample's
    latent does not depend on its company.
    """
    network.train(training)
    if training:
        return network.encoder(X)
    return torch.cat([network.encoder(part) for part in X.split(batch_size)])


def check_finite(loss: float, phase: str, step: int, learning_rate: float) -> None:
    if not abs(loss) < float("inf"):
        raise InputError(
            f"the loss became {loss} at {phase} step {step}; "
            f"lower the learning rate (now {learning_rate:g}) or rescale the data."
        )


@torch.no_grad()
def calibrate_batch_norm(network: Any, X: Tensor) -> None:
    """Set the running statistics to those of X under the final weights, and leave training mode.

    The averages gathered along the way belong to weights that are gone; after this a sample's
    latent alone is what it was within the full batch.
    """
    layers = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if layers:
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.momentum = 1.0
        network.train()
        network.decoder(network.encoder(X))
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    network.eval()
