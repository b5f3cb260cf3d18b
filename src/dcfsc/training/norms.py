"""Batch norm over a batch that never passes in one piece, with its exact gradient.

    y = gamma (x - mu) / sqrt(s + eps) + beta,   mu = mean x,  s = mean (x - mu)^2  over all samples

A loss F(theta, mu_1, s_1, ..., mu_L, s_L) that is a sum over samples once the statistics are given
depends on the weights also through the statistics. With the adjoints a = dF/dmu, b = dF/ds (total
derivatives: through the statistics of later layers too), the gradient is that of the per-sample sum

    F(theta, mu, s) + sum over layers and samples of  <a, x> / M + <b, (x - mu)^2> / M,

mu, s, a, b held constant and M the number of values a channel has. (s moves with mu too, but its
derivative by mu is zero at the mean.) Statistics are therefore measured layer by layer from the
first on, adjoints from the last one back, each by one sweep over the chunks, and one more sweep
collects the gradient. For L layers that is 2 L more sweeps, most of them partial, and no
approximation; a network without batch norm has L = 0 and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dcfsc import processes
from dcfsc.networks.shared_norm import BatchNorm, update_running

Chunk = TypeVar("Chunk")


class _Reached(Exception):
    """The layer whose statistics are being measured has seen its input."""


class _Layer:
    """One batch norm: what it does with its input during a sweep."""

    def __init__(self, norm: BatchNorm, surrogates: list[Tensor]):
        self.norm = norm
        self.surrogates = surrogates
        self.sums: Tensor | None = None  # (2 C + 1,) while being measured
        self._statistics: tuple[Tensor, Tensor] | None = None  # mean and variance, (C,) each
        self.count = 0.0
        self.adjoint: tuple[Tensor, Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.sums is not None:
            self._add(x)
            raise _Reached
        mean, variance = self.statistics
        if self.adjoint is not None:
            self.surrogates.append(self._surrogate(x))
        scale = torch.rsqrt(variance + self.norm.eps)
        if self.norm.weight is not None:
            scale = scale * self.norm.weight
        offset = -mean * scale
        if self.norm.bias is not None:
            offset = offset + self.norm.bias
        return torch.addcmul(_channels(offset, x), x, _channels(scale, x)).to(x.dtype)

    @property
    def statistics(self) -> tuple[Tensor, Tensor]:
        if self._statistics is None:
            raise RuntimeError("batch norms run in another order than the network lists them")
        return self._statistics

    @statistics.setter
    def statistics(self, value: tuple[Tensor, Tensor]) -> None:
        self._statistics = value

    def _add(self, x: Tensor) -> None:
        assert self.sums is not None
        wide, dims = x.to(torch.float64), [i for i in range(x.ndim) if i != 1]
        moments = torch.stack((wide.sum(dims), wide.square().sum(dims)))
        self.sums[:-1] += moments.flatten()
        self.sums[-1] += x.numel() / x.shape[1]

    def begin(self) -> None:
        home = next((p for p in (self.norm.weight, self.norm.running_mean) if p is not None), None)
        device = "cpu" if home is None else home.device
        width = 2 * self.norm.num_features + 1
        self.sums = torch.zeros(width, dtype=torch.float64, device=device)

    def measured(self) -> None:
        """Turn the sums into statistics, and note them as running ones as PyTorch does."""
        assert self.sums is not None
        sums, self.sums = processes.total(self.sums), None
        self.count = float(sums[-1])
        first, second = (sums[:-1] / sums[-1]).view(2, -1)
        variance = (second - first.square()).clamp_min(0.0)
        dtype = self.norm.running_mean.dtype if self.norm.running_mean is not None else first.dtype
        self.statistics = mean, variance = first.to(dtype), variance.to(dtype)
        update_running(self.norm, mean, variance, self.count)

    def _surrogate(self, x: Tensor) -> Tensor:
        """<a, x> / M + <b, (x - mu)^2> / M, as a linear function with the same gradient."""
        assert self.adjoint is not None
        a, b = self.adjoint
        mean, _ = self.statistics
        slope = _channels(a, x) + 2.0 * _channels(b, x) * (x.detach() - _channels(mean, x))
        # Summed wide: a half-precision sum of so many values could overflow.
        return (x * (slope / self.count).to(x.dtype)).sum(dtype=torch.float64)


class ExactNorms:
    """The batch norms of one module, given the statistics of all chunks and of all processes.

    The module runs its batch norms in the order in which ``module.modules()`` lists them.
    """

    def __init__(self, module: nn.Module):
        self._surrogates: list[Tensor] = []
        self._layers = [
            _Layer(m, self._surrogates) for m in module.modules() if isinstance(m, BatchNorm)
        ]

    def __len__(self) -> int:
        return len(self._layers)

    @contextmanager
    def installed(self) -> Iterator[ExactNorms]:
        """Within the block the module's batch norms use the statistics given here."""
        modes = [layer.norm.training for layer in self._layers]
        try:
            for layer in self._layers:
                # In evaluation mode a network takes no short cut past its norms' forward.
                layer.norm.training = False
                layer.norm.forward = layer  # type: ignore[method-assign, assignment]
            yield self
        finally:
            for layer, mode in zip(self._layers, modes, strict=True):
                layer.norm.training = mode
                layer.norm.__dict__.pop("forward", None)

    @torch.no_grad()
    def measure(self, chunks: Sequence[Chunk], run: Callable[[Chunk], Any]) -> None:
        """Set every layer's statistics to those of all chunks; ``run`` passes one through."""
        for layer in self._layers:
            layer.begin()
            for chunk in chunks:
                try:
                    run(chunk)
                except _Reached:
                    continue
                raise RuntimeError("a batch norm was not reached by the forward pass")
            layer.measured()

    @torch.no_grad()
    def fix_running_statistics(self) -> None:
        """Make the measured statistics the running ones: evaluation is then as in the batch.

        The variance as it is, without the factor M / (M - 1) of PyTorch's running average.
        """
        for layer in self._layers:
            running = layer.norm.running_mean, layer.norm.running_var
            for kept, measured in zip(running, layer.statistics, strict=True):
                if kept is not None:
                    kept.copy_(measured)

    def differentiate(self, chunks: Sequence[Chunk], objective: Callable[[Chunk], Tensor]) -> None:
        """Set every layer's adjoints for the sum of ``objective`` over the chunks."""
        for layer in self._layers:
            layer.adjoint = None
        for layer in reversed(self._layers):
            mean, variance = layer.statistics
            layer.statistics = leaves = mean.requires_grad_(), variance.requires_grad_()
            sums = torch.zeros(2, len(mean), dtype=torch.float64, device=mean.device)
            for chunk in chunks:
                value = self.with_statistics(objective(chunk))
                sums += torch.stack(torch.autograd.grad(value, leaves))
            layer.statistics = mean.detach(), variance.detach()
            first, second = processes.total(sums).to(mean.dtype)
            layer.adjoint = first, second

    def with_statistics(self, value: Tensor) -> Tensor:
        """``value`` of one chunk plus what its weights owe the statistics."""
        for surrogate in self._surrogates:
            value = value + surrogate
        self._surrogates.clear()
        return value


def sum_gradients(module: nn.Module) -> None:
    """Add up every parameter's gradient over the processes, in one message."""
    for parameter in module.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    if not processes.active():
        return
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    flat = processes.total(torch.cat([g.flatten() for g in gradients]))
    for gradient, summed in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(summed.view_as(gradient))


def _channels(values: Tensor, x: Tensor) -> Tensor:
    """(C,) in the shape that broadcasts over x (n, C, ...)."""
    return values.view(1, -1, *[1] * (x.ndim - 2))
