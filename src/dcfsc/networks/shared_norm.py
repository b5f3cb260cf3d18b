"""Batch norm over the mini-batches of all processes; PyTorch's own where there is one."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dcfsc import processes

BatchNorm = nn.modules.batchnorm._BatchNorm


@torch.no_grad()
def update_running(norm: BatchNorm, mean: Tensor, variance: Tensor, count: float) -> None:
    """Note a batch's statistics as running ones, as PyTorch does."""
    unbiased = variance * (count / max(count - 1.0, 1.0))
    for running, now in ((norm.running_mean, mean), (norm.running_var, unbiased)):
        if running is not None:
            running.lerp_(now, norm.momentum or 0.0)
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)


def _shared(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """Normalize x (n, C, ...), this process's part of a batch, by the statistics of all parts."""
    axes = [i for i in range(x.ndim) if i != 1]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    wide = x if x.dtype == torch.float64 else x.float()
    count = processes.total_number(x.numel() / x.shape[1])
    mean = processes.differentiable_total(wide.sum(axes)) / count
    centered = wide - mean.view(shape)
    variance = processes.differentiable_total(centered.square().sum(axes)) / count
    update_running(norm, mean, variance, count)
    y = centered * torch.rsqrt(variance + norm.eps).view(shape)
    if norm.affine:
        y = y * norm.weight.view(shape) + norm.bias.view(shape)
    return y.to(x.dtype)


class _Shared(nn.Module):
    """What both batch norms do where a batch is divided among processes."""

    def forward(self, x: Tensor) -> Tensor:
        # A compiled batch is never divided, and the compiler cannot ask.
        if self.training and not torch.compiler.is_compiling() and processes.active():
            return _shared(cast(nn.BatchNorm1d, self), x)
        return super().forward(x)


class SharedBatchNorm1d(_Shared, nn.BatchNorm1d):
    """Batch norm of vectors (n, C)."""


class SharedBatchNorm2d(_Shared, nn.BatchNorm2d):
    """Batch norm of maps (n, C, h, w)."""
