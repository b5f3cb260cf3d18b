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
        and x.dtype in (torch.float32, torch.bfloat16, torch.float16)  # sums are float32
        and x.is_contiguous(memory_format=torch.channels_last)
        and norm.training
        and norm.momentum is not None
        and norm.running_mean is not None
        and norm.weight is not None
        and norm.weight.dtype == torch.float32
        and kernels() is not None
    )


def batch_norm_relu(x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    """ReLU of the norm of x (n, c, h, w) in training mode; moves the running statistics."""
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    return _BatchNormReLU.apply(x, norm.weight, norm.bias, norm)


class _BatchNormReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, norm: nn.BatchNorm2d) -> Tensor:
        pixels = _matrix(x)
        # Sums about nearly the mean, so that a mean far from zero costs no digits.
        shift = pixels[:: max(1, len(pixels) // SAMPLE)].mean(0, dtype=torch.float32)
        sums = kernels().moments(pixels, shift)
        stats = kernels().forward_constants(sums, shift, norm, len(pixels))
        ctx.save_for_backward(x, stats)
        return _map(kernels().scale_relu(pixels, stats[0], stats[1]), x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, stats = ctx.saved_tensors
        pixels = _matrix(x)
        g = _matrix(gradient.contiguous(memory_format=torch.channels_last))
        a, b, mean, _ = stats
        sums = kernels().masked_moments(g, pixels, a, b, mean)
        dgamma, dbeta, p, q = kernels().backward_constants(sums, stats, len(pixels))
        return _map(kernels().masked_gradient(g, pixels, a, b, p, q), x), dgamma, dbeta, None


def _matrix(x: Tensor) -> Tensor:
    """(n, c, h, w) with the channels last -> (n h w, c), the same memory."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _map(pixels: Tensor, like: Tensor) -> Tensor:
    n, c, h, w = like.shape
    return pixels.view(n, h, w, c).permute(0, 3, 1, 2)
