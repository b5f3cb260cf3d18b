"""The full-batch step of Algorithm 2 with the activations of one chunk of samples.

    1. encode the chunks without gradients: Z, and from it the closed form, E = B Z;
    2. decode the chunks of E and back-propagate to them: g = dLoss/dE and the decoder's gradient;
    3. A = B'g; encode the chunks once more, with gradients, and back-propagate A.

B is a constant of the step, so the three passes give the gradient of the whole batch, not an
approximation of it. Kept for all samples: Z, E and its gradient, N d numbers each. Batch norms take
their statistics over all samples, exactly, by extra sweeps (see :mod:`.norms`). Where samples are
divided among processes, the same passes run on each one's share, and Z'Z, Y'g, statistics and
gradients are summed over them; every process then takes the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.self_expression import solve

from .loss import Figures, LamRule, LossTerm, Pass, reconstruction_error
from .norms import ExactNorms, sum_gradients
from .precision import network_context, prepare

# Samples encoded at a time where nothing else is asked for: so many, and not more bytes of them.
EVALUATION_CHUNK, EVALUATION_BYTES = 4096, 1 << 26


class Inputs(Protocol):
    """Samples on demand: a tensor, or an object that reads them from disk."""

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Tensor: ...


def evaluation_chunk(X: Inputs, batch_size: int | None = None) -> int:
    """Samples of X to encode at a time, at most ``batch_size``."""
    width = 4 * max(1, X[:1].numel())
    return max(1, min(batch_size or EVALUATION_CHUNK, EVALUATION_BYTES // width))


def chunk_slices(n: int, batch_size: int | None) -> list[slice]:
    """Contiguous chunks of nearly equal size, none larger than ``batch_size``."""
    count = 1 if batch_size is None else max(1, -(-n // batch_size))
    bounds = [n * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


class ChunkedStep:
    """Leaves the full-batch gradient in the parameters; a call returns how to read the loss.

    Parameters
    ----------
    X : this process's samples.
    batch_size : samples whose activations are held at a time; None for all.
    """

    def __init__(
        self,
        network: Any,
        X: Inputs,
        batch_size: int | None,
        terms: Sequence[LossTerm] = (),
        precision: str = "float32",
    ):
        self.network, self.X, self.terms = network, X, tuple(terms)
        self.precision = precision
        self.chunks = chunk_slices(len(X), batch_size)
        self._encoder_norms = ExactNorms(network.encoder)

    def __call__(self, lam: LamRule) -> Figures:
        Z = self.encode()
        operator = solve(Z, lam(Z))
        E = operator.matmul(Z)
        parts, direct = self._decode(Z, E)  # E now holds dLoss/dE
        A = operator.rmatmul(E)
        if direct is not None:
            A += direct
        self._encoder_gradient(A)
        sum_gradients(self.network)
        ridge = {"lam": operator.lam, "effective_dof": operator.effective_dof}
        return lambda: (parts, ridge)

    def encode(self) -> Tensor:
        """Latents (N, d) of this process's samples, without gradients."""
        norms = self._encoder_norms
        with torch.no_grad(), norms.installed():
            norms.measure(self.chunks, self._encode_chunk)
            return _stacked(self.chunks, len(self.X), self._encode_chunk)

    def _decode(self, Z: Tensor, E: Tensor) -> tuple[dict[str, float], Tensor | None]:
        """The loss's parts; overwrites E by its gradient, and gives Z's direct one, if any."""
        direct = torch.empty_like(Z) if self.terms else None
        values = torch.zeros(1 + len(self.terms), dtype=torch.float64, device=Z.device)

        def objective(rows: slice, e: Tensor, z: Tensor) -> tuple[Tensor, list[Tensor]]:
            with network_context(self.precision, Z.device):
                decoded = self.network.decoder(e)
            x = self.X[rows]
            state = Pass(x, z, e, decoded.to(x.dtype))
            parts = [reconstruction_error(state), *(term(state) for term in self.terms)]
            return sum(parts[1:], parts[0]), parts

        norms = ExactNorms(self.network.decoder)
        with norms.installed():
            norms.measure(self.chunks, lambda rows: self._decode_chunk(E[rows]))
            norms.differentiate(self.chunks, lambda rows: objective(rows, E[rows], Z[rows])[0])
            for rows in self.chunks:
                e = E[rows].clone().requires_grad_()
                z = Z[rows].detach().requires_grad_(direct is not None)
                loss, parts = objective(rows, e, z)
                norms.with_statistics(loss).backward()
                assert e.grad is not None
                E[rows] = e.grad
                if direct is not None:
                    direct[rows] = 0.0 if z.grad is None else z.grad
                values += torch.stack([p.detach().to(torch.float64) for p in parts])
        names = ["reconstruction", *(term.name for term in self.terms)]
        return dict(zip(names, processes.total(values).tolist(), strict=True)), direct

    def _encoder_gradient(self, A: Tensor) -> None:
        """Back-propagate A (N, d) through the encoder, under the statistics of :meth:`encode`."""

        def objective(rows: slice) -> Tensor:
            return (self._encode_chunk(rows) * A[rows]).sum()

        norms = self._encoder_norms
        with norms.installed():
            norms.differentiate(self.chunks, objective)
            for rows in self.chunks:
                norms.with_statistics(objective(rows)).backward()

    def _encode_chunk(self, rows: slice) -> Tensor:
        x = self.X[rows]
        with network_context(self.precision, self.X.device):
            z = self.network.encoder(prepare(self.network, x))
        return z.to(x.dtype)

    def _decode_chunk(self, e: Tensor) -> Tensor:
        with network_context(self.precision, self.X.device):
            return self.network.decoder(e)


def _stacked(chunks: Sequence[slice], n: int, run: Callable[[slice], Tensor]) -> Tensor:
    """The results of the chunks as one matrix, without a second copy of it."""
    out: Tensor | None = None
    for rows in chunks:
        part = run(rows)
        if out is None:
            out = part.new_empty(n, *part.shape[1:])
        out[rows] = part
    assert out is not None
    return out


@torch.no_grad()
def encode(
    network: Any, X: Inputs, batch_size: int | None = None, training: bool = False
) -> Tensor:
    """Latents (N, d), a chunk at a time, at most ``batch_size`` samples each.

    With ``training=True`` batch norm uses the statistics of all of X, as during full-batch
    training; otherwise the running statistics, so that a sample's latent does not depend on its
    company.
    """
    network.train(training)
    if training:
        return ChunkedStep(network, X, batch_size).encode()
    chunks = chunk_slices(len(X), evaluation_chunk(X, batch_size))
    return _stacked(chunks, len(X), lambda rows: network.encoder(X[rows]))


@torch.no_grad()
def calibrate_batch_norm(network: Any, X: Inputs, batch_size: int | None = None) -> None:
    """Set the running statistics to those of X under the final weights, and leave training mode.

    The averages gathered along the way belong to weights that are gone; after this a sample's
    latent alone is what it was within the full batch.
    """
    norms = ExactNorms(network)
    with norms.installed():
        norms.measure(
            chunk_slices(len(X), batch_size),
            lambda rows: network.decoder(network.encoder(X[rows])),
        )
    norms.fix_running_statistics()
    network.eval()
