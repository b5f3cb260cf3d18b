"""SAME convolutions as matrix products over patches, samples last: the fast path on a CPU.

PyTorch's CPU convolutions are slow for the few channels these networks have, and a transposed one
can be slower still by an order of magnitude. Here a map is stored (channels, height, width, n)
with the n samples innermost, so that gathering the k x k patches copies whole runs of n numbers.
With P (c k^2, positions n) the patches of x and W the weights as a matrix (o, c k^2),

    convolution        y = W P            dL/dW = (dL/dy) P'     dL/dx = overlap-add of W' (dL/dy)
    its adjoint        x = overlap-add of W' y,    dL/dW = y P(dL/dx)',     dL/dy = W P(dL/dx)

exactly the convolution's sums. A row of ones under P carries the bias, and its gradient, through
the same products. The patches are k^2 / s^2 times the map: they are made for a block of samples at
a time, in one workspace, and made again for the backward pass rather than kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dcfsc.networks.convolution import SameGeometry

# Patches of one block. Larger blocks fall out of the last-level cache, smaller ones spend their
# time on the calls around the products; the measured optimum is flat between 8 and 32 MiB.
BLOCK_BYTES = 16 * 2**20


class Workspace:
    """Buffers reused by every block of one pass; fresh pages for each would cost as much as the
    products."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised tensor; it is valid until ``name`` is taken again."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size or buffer.dtype != like.dtype:
            buffer = self._buffers[name] = like.new_empty(size)
        return buffer[:size].view(shape)


def block_size(weight: Tensor, geometry: SameGeometry) -> int:
    """Samples whose patches fill BLOCK_BYTES."""
    patch = weight[0].numel() * geometry.out_height * geometry.out_width
    return max(1, BLOCK_BYTES // (patch * weight.element_size()))


def even_blocks(n: int, size: int) -> int:
    """The block size at most ``size`` that cuts ``n`` samples into blocks of nearly one size."""
    return max(1, math.ceil(n / max(1, math.ceil(n / size))))


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: SameGeometry,
    relu: bool = False,
    workspace: Workspace | None = None,
) -> Tensor:
    """x (c, h, w, n) -> (o, ceil(h / s), ceil(w / s), n), with ReLU if asked."""
    return _Convolution.apply(x, weight, bias, geometry, relu, workspace or Workspace())


def convolve_transposed(
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: SameGeometry,
    relu: bool = False,
    workspace: Workspace | None = None,
) -> Tensor:
    """y (o, ceil(h / s), ceil(w / s), n) -> (c, h, w, n), with ReLU if asked."""
    return _TransposedConvolution.apply(y, weight, bias, geometry, relu, workspace or Workspace())


def samples_last(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """x (n, ...) -> blocks (..., at most ``size``)."""
    blocks = _SamplesLast.apply(x.flatten(1), size)
    return tuple(block.view(*x.shape[1:], block.shape[1]) for block in blocks)


def samples_first(blocks: Iterable[Tensor]) -> Tensor:
    """Blocks (..., size) -> (n, features)."""
    return _SamplesFirst.apply(*(block.flatten(0, -2) for block in blocks))


class _SamplesLast(Function):
    """Plain two-dimensional transposes: torch.split and torch.cat would make them element by
    element, several times slower, in the backward pass of the one and the forward of the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> tuple[Tensor, ...]:
        return tuple(block.t().contiguous() for block in x.split(size))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _stack_transposed(gradients), None


class _SamplesFirst(Function):
    @staticmethod
    def forward(ctx: Any, *blocks: Tensor) -> Tensor:
        ctx.sizes = [block.shape[1] for block in blocks]
        return _stack_transposed(blocks)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return tuple(block.t().contiguous() for block in gradient.split(ctx.sizes))


def _stack_transposed(blocks: Sequence[Tensor]) -> Tensor:
    out = blocks[0].new_empty(sum(block.shape[1] for block in blocks), blocks[0].shape[0])
    start = 0
    for block in blocks:
        out[start : start + block.shape[1]].copy_(block.t())
        start += block.shape[1]
    return out


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: SameGeometry,
        relu: bool,
        workspace: Workspace,
    ) -> Tensor:
        matrix = weight.flatten(1)
        if bias is not None:
            matrix = torch.cat([matrix, bias[:, None]], dim=1)
        shape = (len(weight), geometry.out_height, geometry.out_width)
        y = x.new_empty(*shape, x.shape[-1])
        for block in _blocks(x.shape[-1], weight, geometry):
            patches = _patches(x[..., block], geometry, workspace, ones=bias is not None)
            _product_into(y[..., block], matrix, patches)
        if relu:
            y.relu_()
        ctx.save_for_backward(x, weight, y if relu else None)
        ctx.geometry, ctx.workspace, ctx.has_bias = geometry, workspace, bias is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        geometry, workspace = ctx.geometry, ctx.workspace
        grad_y = _through_relu(grad_y, y, workspace)
        matrix_gradient = _ColumnMajor(len(weight), weight[0].numel() + ctx.has_bias, x)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = x.new_zeros(len(x), geometry.padded_height, geometry.padded_width, x.shape[-1])
        for block in _blocks(x.shape[-1], weight, geometry):
            g = grad_y[..., block].reshape(len(weight), -1)
            if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
                matrix_gradient.add(
                    g, _patches(x[..., block], geometry, workspace, ones=ctx.has_bias)
                )
            if grad_x is not None:
                overlap = _spread(weight, g, workspace)
                _overlap_add(overlap, geometry, grad_x[..., block])
        if grad_x is not None:
            grad_x = _interior(grad_x, geometry)
        matrix = matrix_gradient.value
        grad_bias = matrix[:, -1] if ctx.has_bias else None
        grad_weight = matrix[:, : weight[0].numel()].reshape(weight.shape)
        return grad_x, grad_weight, grad_bias, None, None, None


class _TransposedConvolution(Function):
    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: SameGeometry,
        relu: bool,
        workspace: Workspace,
    ) -> Tensor:
        channels, n = weight.shape[1], y.shape[-1]
        padded = (channels, geometry.padded_height, geometry.padded_width)
        start = y.new_zeros(1) if bias is None else bias
        start = start.view(-1, 1, 1, 1)
        x = y.new_empty(channels, geometry.height, geometry.width, n)
        for block in _blocks(n, weight, geometry):
            y_block, x_block = y[..., block], x[..., block]
            overlap = _spread(weight, y_block.reshape(len(y), -1), workspace)
            large = workspace.take("padded", y, *padded, y_block.shape[-1]).copy_(start)
            _overlap_add(overlap, geometry, large)
            if relu:
                torch.clamp_min(_interior(large, geometry), 0, out=x_block)
            else:
                x_block.copy_(_interior(large, geometry))
        ctx.save_for_backward(y, weight, x if relu else None)
        ctx.geometry, ctx.workspace, ctx.has_bias = geometry, workspace, bias is not None
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_x: Tensor) -> tuple[Tensor | None, ...]:
        y, weight, x = ctx.saved_tensors
        geometry, workspace = ctx.geometry, ctx.workspace
        grad_x = _through_relu(grad_x, x, workspace)
        matrix = weight.flatten(1)
        matrix_gradient = _ColumnMajor(len(weight), weight[0].numel(), y)
        grad_y = y.new_empty(y.shape) if ctx.needs_input_grad[0] else None
        for block in _blocks(y.shape[-1], weight, geometry):
            patches = _patches(grad_x[..., block], geometry, workspace, ones=False)
            if ctx.needs_input_grad[1]:
                matrix_gradient.add(y[..., block].reshape(len(y), -1), patches)
            if grad_y is not None:
                _product_into(grad_y[..., block], matrix, patches)
        grad_bias = grad_x.sum((1, 2, 3)) if ctx.has_bias else None
        return grad_y, matrix_gradient.value.reshape(weight.shape), grad_bias, None, None, None


class _ColumnMajor:
    """Accumulates A B' (rows, columns) in column-major order.

    On ARM builds PyTorch hands a row-major A B' to a library that builds a new kernel for each
    call, some 0.4 ms; a column-major result goes to BLAS, up to twice as fast at these sizes.
    """

    def __init__(self, rows: int, columns: int, like: Tensor) -> None:
        self._value = like.new_zeros(columns, rows).t()

    def add(self, a: Tensor, b: Tensor) -> None:
        self._value.addmm_(a, b.t())

    @property
    def value(self) -> Tensor:
        return self._value


def _blocks(n: int, weight: Tensor, geometry: SameGeometry) -> Iterator[slice]:
    size = even_blocks(n, block_size(weight, geometry))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _through_relu(gradient: Tensor, output: Tensor | None, workspace: Workspace) -> Tensor:
    """The gradient before ReLU; ``output`` is ReLU's result, None where there was no ReLU."""
    if output is None:
        return gradient
    into = workspace.take("gradient", output, *output.shape)
    return torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=into)


def _patches(x: Tensor, geometry: SameGeometry, workspace: Workspace, ones: bool) -> Tensor:
    """P (c k^2 [+ 1], positions n): column (i, j, sample) holds the patch that y[:, i, j] sees."""
    channels, n, k, s = len(x), x.shape[-1], geometry.kernel, geometry.stride
    height, width = geometry.padded_height, geometry.padded_width
    padded = workspace.take("padded", x, channels, height, width, n)
    if (height, width) != (geometry.height, geometry.width):
        padded.zero_()
    _interior(padded, geometry).copy_(x)
    row = width * n
    view = padded.as_strided(
        (channels, k, k, geometry.out_height, geometry.out_width, n),
        (height * row, row, n, s * row, s * n, 1),
    )
    positions = geometry.out_height * geometry.out_width * n
    patches = workspace.take("patches", x, channels * k * k + ones, positions)
    patches[: channels * k * k].view(view.shape).copy_(view)
    if ones:
        patches[-1].fill_(1)
    return patches


def _spread(weight: Tensor, y: Tensor, workspace: Workspace) -> Tensor:
    """W' y (c k^2, positions n): what each value of the small map adds to the large one."""
    into = workspace.take("patches", y, weight[0].numel(), y.shape[1])
    return torch.mm(weight.flatten(1).t(), y, out=into)


def _overlap_add(overlap: Tensor, geometry: SameGeometry, padded: Tensor) -> None:
    """Add every patch of ``overlap`` to its place in ``padded``, in place; the adjoint of _patches.

    An s x s piece of the kernel tiles the map without overlap, so ceil(k / s)^2 additions do it.
    """
    channels, n, k, s = len(padded), padded.shape[-1], geometry.kernel, geometry.stride
    shape = (geometry.out_height, geometry.out_width)
    pieces = overlap.view(channels, k, k, *shape, n).permute(0, 3, 1, 4, 2, 5)
    channel, row, column, sample = padded.stride()
    for i in range(0, k, s):
        for j in range(0, k, s):
            piece = pieces[:, :, i : i + s, :, j : j + s]
            padded.as_strided(
                piece.shape,
                (channel, s * row, row, s * column, column, sample),
                padded.storage_offset() + i * row + j * column,
            ).add_(piece)


def _interior(padded: Tensor, geometry: SameGeometry) -> Tensor:
    top, left = geometry.rows[0], geometry.columns[0]
    return padded[:, top : top + geometry.height, left : left + geometry.width]


def _product_into(out: Tensor, matrix: Tensor, patches: Tensor) -> None:
    if out.is_contiguous():
        torch.mm(matrix, patches, out=out.view(len(out), -1))
    else:
        out.copy_((matrix @ patches).view(out.shape))
