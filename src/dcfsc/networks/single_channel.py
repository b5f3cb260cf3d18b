"""SAME convolutions of one-channel images at stride 1, as matrix products over patches, for GPUs.

The first layer of an encoder for gray images and the last of its decoder have one channel on the
large side. The libraries' kernels for such layers leave a GPU's matrix units idle, their weight
gradients above all. Over the k^2 pixels of a patch the layer is one tall matrix product, forward
and backward, and its result comes out with the channels last.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dcfsc.networks.convolution import SameGeometry


def applies(x: Tensor, weight: Tensor, geometry: SameGeometry) -> bool:
    """Whether ``weight`` (small, large, k, k) is such a layer and x lives on a GPU."""
    symmetric = geometry.rows[0] == geometry.rows[1] and geometry.columns[0] == geometry.columns[1]
    return x.is_cuda and weight.shape[1] == 1 and geometry.stride == 1 and symmetric


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: SameGeometry) -> Tensor:
    """x (n, 1, h, w) -> (n, o, h, w), channels last in memory."""
    n, o = len(x), weight.shape[0]
    y = F.linear(_patches(x, geometry), _kernels(weight), bias)
    return y.view(n, geometry.height, geometry.width, o).permute(0, 3, 1, 2)


def convolve_transposed(
    y: Tensor, weight: Tensor, bias: Tensor | None, geometry: SameGeometry
) -> Tensor:
    """y (n, o, h, w) -> (n, 1, h, w)."""
    n, o = len(y), weight.shape[0]
    rows = y.permute(0, 2, 3, 1).reshape(n * geometry.height * geometry.width, o)
    spread = F.linear(rows, _kernels(weight).mT)  # every pixel's patch
    x = _OverlapAdd.apply(spread, n, geometry)
    return x if bias is None else x + bias.to(x.dtype).view(1, -1, 1, 1)


def _width(kernel: int) -> int:
    """Columns of a matrix of patches: k^2, and zeros up to what matrix units like to read."""
    return -(-kernel * kernel // 8) * 8


def _kernels(weight: Tensor) -> Tensor:
    """(o, 1, k, k) -> (o, width)."""
    o, _, k, _ = weight.shape
    return F.pad(weight.reshape(o, -1), (0, _width(k) - k * k))


def _patches(x: Tensor, geometry: SameGeometry) -> Tensor:
    """x (n, 1, h, w) -> the k x k patch around every pixel, (n h w, width)."""
    k, n = geometry.kernel, len(x)
    padded = F.pad(x[:, 0], (*geometry.columns, *geometry.rows))  # (n, h + k - 1, w + k - 1)
    out = x.new_zeros(n, geometry.height, geometry.width, _width(k))
    out[..., : k * k].view(n, geometry.height, geometry.width, k, k).copy_(
        padded.unfold(1, k, 1).unfold(2, k, 1)
    )
    return out.view(-1, _width(k))


class _OverlapAdd(Function):
    """The adjoint of :func:`_patches`, and back: PyTorch's own goes back a sample at a time."""

    @staticmethod
    def forward(ctx: Any, spread: Tensor, n: int, geometry: SameGeometry) -> Tensor:
        ctx.geometry = geometry
        size = (geometry.height, geometry.width)
        top, left = geometry.rows[0], geometry.columns[0]
        spread = spread[:, : geometry.kernel**2]
        columns = spread.reshape(n, size[0] * size[1], -1).transpose(1, 2)
        return F.fold(columns, size, geometry.kernel, padding=(top, left))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _patches(gradient, ctx.geometry), None, None
