"""Batch norm with ReLU in one sweep each way, and the overlap-add of patches, for GPUs.

y = max(a x + b, 0),  a = gamma / sqrt(var + eps),  b = beta - a mean,  mean and var over the batch.

PyTorch runs the statistics, the normalisation and the ReLU one after the other, each reading and
writing the whole map, and keeps two maps for the way back. Fused, the map is read twice and written
once forward, read four times and written once backward, and the input is all that is kept: such
layers are bound by memory, so that is their cost. Where there is no Triton, PyTorch does it.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SAMPLE = 4096  # pixels that tell the mean well enough to sum about


@cache
def kernels() -> Any:
    """The module of kernels, or None where there is no Triton."""
    try:
        return importlib.import_module("dcfsc.networks.triton_kernels")
    except ImportError:
        return None


def applies(x: Tensor, norm: nn.BatchNorm2d) -> bool:
    """Whether x (n, c, h, w) is a map on a GPU with the channels last, seen in training."""
    return (
        x.is_cuda
        and norm.training
        and x.is_contiguous(memory_format=torch.channels_last)
        and kernels() is not None
    )


def batch_norm_relu(x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    """ReLU of the norm of x (n, c, h, w) in training mode; updates the running statistics."""
    y, mean, variance = _BatchNormReLU.apply(x, norm.weight, norm.bias, norm.eps)
    with torch.no_grad():
        count = x.numel() // x.shape[1]
        momentum = norm.momentum if norm.momentum is not None else 0.0
        unbiased = variance * (count / max(count - 1, 1))
        for running, now in ((norm.running_mean, mean), (norm.running_var, unbiased)):
            if running is not None:
                running.lerp_(now.to(running.dtype), momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    return y


class _BatchNormReLU(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        pixels = _matrix(x)
        # Sums about nearly the mean, so that a mean far from zero costs no digits.
        shift = pixels[:: max(1, len(pixels) // SAMPLE)].mean(0, dtype=torch.float32)
        first, second = kernels().moments(pixels, shift) / len(pixels)
        mean = shift + first
        variance = (second - first.square()).clamp_min(0.0)
        deviation = (variance + eps).sqrt()
        a = (gamma / deviation).to(torch.float32)
        b = (beta - a * mean).to(torch.float32)
        y = kernels().scale_relu(pixels, a, b)
        ctx.save_for_backward(x, a, b, mean, deviation)
        ctx.mark_non_differentiable(mean, variance)
        return _map(y, x), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *unused: Any) -> tuple[Tensor, Tensor, Tensor, None]:
        x, a, b, mean, deviation = ctx.saved_tensors
        pixels = _matrix(x)
        g = _matrix(gradient.contiguous(memory_format=torch.channels_last))
        about = mean.to(torch.float32)
        beta, moment = kernels().masked_moments(g, pixels, a, b, about)
        gamma = (moment + (about - mean) * beta) / deviation  # sum of u times the normalised x
        # dx = a (u - mean(u) - xhat mean(u xhat)) is a u + p x + q
        p = -a * gamma / (deviation * len(pixels))
        q = -a * beta / len(pixels) - p * mean
        dx = kernels().masked_gradient(g, pixels, a, b, p.to(torch.float32), q.to(torch.float32))
        return _map(dx, x), gamma.to(torch.float32), beta.to(torch.float32), None


def _matrix(x: Tensor) -> Tensor:
    """(n, c, h, w) with the channels last -> (n h w, c), the same memory."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _map(pixels: Tensor, like: Tensor) -> Tensor:
    n, c, h, w = like.shape
    return pixels.view(n, h, w, c).permute(0, 3, 1, 2)
