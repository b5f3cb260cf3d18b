"""SAME convolutions as matrix products over patches, samples last: the fast path on a CPU.

PyTorch's CPU convolutions are slow for the few channels these networks have, and a transposed one
can be slower still by an order of magnitude. Here a map is stored (channels, height, width, n)
with the n samples innermost, so that gathering the k x k patches copies whole runs of n numbers.
With P(x) (c k^2, positions n) the patches of x, P' their overlap-add, which is the adjoint of P,
and W the weights as a matrix (o, c k^2),

    convolution    y = W P(x)            its adjoint    x = P'(W' y)

exactly the convolution's sums. The patches are k^2 / s^2 times the map: callers pass a block of
samples at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dcfsc.networks.convolution import SameGeometry

# Patches of one block. Larger blocks fall out of the last-level cache, smaller ones spend their
# time on the calls around the products; the measured optimum is flat between 8 and 32 MiB.
BLOCK_BYTES = 16 * 2**20


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: SameGeometry) -> Tensor:
    """x (c, h, w, n) -> (o, ceil(h / s), ceil(w / s), n)."""
    patches, matrix = _Gather.apply(x, geometry), weight.flatten(1)
    y = matrix @ patches if bias is None else torch.addmm(bias[:, None], matrix, patches)
    return y.view(len(weight), geometry.out_height, geometry.out_width, x.shape[-1])


def convolve_transposed(
    y: Tensor, weight: Tensor, bias: Tensor | None, geometry: SameGeometry
) -> Tensor:
    """y (o, ceil(h / s), ceil(w / s), n) -> (c, h, w, n)."""
    patches = weight.flatten(1).t() @ y.reshape(len(y), -1)
    x = _Scatter.apply(patches, geometry, y.shape[-1])
    return x if bias is None else x + bias.view(-1, 1, 1, 1)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, geometry: SameGeometry) -> Tensor:
        ctx.geometry, ctx.n = geometry, x.shape[-1]
        return _gathered(x, geometry)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _scattered(gradient, ctx.geometry, ctx.n), None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, patches: Tensor, geometry: SameGeometry, n: int) -> Tensor:
        ctx.geometry = geometry
        return _scattered(patches, geometry, n)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _gathered(gradient, ctx.geometry), None, None


def _gathered(x: Tensor, geometry: SameGeometry) -> Tensor:
    """P(x) (c k^2, positions n): column (i, j, sample) is the patch that y[:, i, j] sees."""
    k, s, sites = geometry.kernel, geometry.stride, (geometry.out_height, geometry.out_width)
    x = F.pad(x, (0, 0, *geometry.columns, *geometry.rows)).contiguous()
    channel, row, column, _ = x.stride()
    strides = (channel, row, column, s * row, s * column, 1)
    windows = x.as_strided((len(x), k, k, *sites, x.shape[-1]), strides)
    return windows.reshape(len(x) * k * k, math.prod(sites) * x.shape[-1])


def _scattered(patches: Tensor, geometry: SameGeometry, n: int) -> Tensor:
    """The adjoint of :func:`_gathered`: patches that overlap are added, (c, h, w, n)."""
    k, s, channels = geometry.kernel, geometry.stride, len(patches) // geometry.kernel**2
    x = patches.new_zeros(channels, geometry.padded_height, geometry.padded_width, n)
    channel, row, column, _ = x.stride()
    spread = patches.reshape(channels, k, k, geometry.out_height, geometry.out_width, n)
    spread = spread.permute(0, 3, 1, 4, 2, 5)
    # An s x s piece of the kernel tiles the map without overlap: ceil(k / s)^2 additions do.
    for i in range(0, k, s):
        for j in range(0, k, s):
            piece = spread[:, :, i : i + s, :, j : j + s]
            strides = (channel, s * row, row, s * column, column, 1)
            x.as_strided(piece.shape, strides, i * row + j * column).add_(piece)
    top, left = geometry.rows[0], geometry.columns[0]
    return x[:, top : top + geometry.height, left : left + geometry.width]


def block_size(weight: Tensor, geometry: SameGeometry) -> int:
    """Samples whose patches fill BLOCK_BYTES."""
    patch = math.prod(weight.shape[1:]) * geometry.out_height * geometry.out_width
    return max(1, BLOCK_BYTES // (patch * weight.element_size()))


def samples_last(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """x (n, ...) -> blocks (..., at most ``size``) of nearly equal size."""
    size = max(1, math.ceil(len(x) / max(1, math.ceil(len(x) / size))))
    blocks = x.flatten(1).t().contiguous().split(size, dim=1)
    return tuple(block.unflatten(0, x.shape[1:]) for block in blocks)


def samples_first(blocks: Iterable[Tensor]) -> Tensor:
    """Blocks (..., size) -> (n, features)."""
    return torch.cat([block.flatten(0, -2) for block in blocks], dim=1).t().contiguous()
