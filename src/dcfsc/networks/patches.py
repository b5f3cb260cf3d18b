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
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dcfsc.networks.convolution import SameGeometry

# Patches of one block. Larger blocks fall out of the last-level cache, smaller ones spend their
# time on the calls around the products; the measured optimum is flat between 8 and 32 MiB.
BLOCK_BYTES = 16 * 2**20


class Workspace(threading.local):
    """Buffers that every layer, block and step reuses: fresh pages for each would cost as much as
    the products. Nothing in them outlives a call, and each thread has its own; copies and pickles
    start empty."""

    # Enough for every layer at two block sizes; a stream of other batch sizes starts afresh.
    MOST_GRIDS = 32

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._grids: dict[tuple[Any, ...], PatchGrid] = {}

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        return Workspace, ()

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialized tensor; it is valid until ``name`` is taken again."""
        size, key = math.prod(shape), (name, like.dtype, like.device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size:
            self._grids.clear()  # their views would keep the smaller buffer alive
            buffer = self._buffers[key] = torch.empty(size, dtype=like.dtype, device=like.device)
        return buffer[:size].view(shape)

    def grid(self, geometry: SameGeometry, channels: int, n: int, like: Tensor) -> PatchGrid:
        """The patches of maps (channels, height, width, n)."""
        key = (geometry, channels, n, like.dtype, like.device)
        grid = self._grids.get(key)
        if grid is None:
            grid = PatchGrid(geometry, channels, n, like, self)
            if len(self._grids) >= self.MOST_GRIDS:
                self._grids.clear()
            self._grids[key] = grid
        return grid


class PatchGrid:
    """The linear map from a large map to its patches, and its adjoint.

    All views are made once: on the small networks making them would cost as much as the sums.
    """

    def __init__(
        self, geometry: SameGeometry, channels: int, n: int, like: Tensor, workspace: Workspace
    ) -> None:
        k, s = geometry.kernel, geometry.stride
        height, width = geometry.padded_height, geometry.padded_width
        sites = (geometry.out_height, geometry.out_width)
        rows, positions = channels * k * k, math.prod(sites) * n
        patches = workspace.take("patches", like, rows + 1, positions)
        large = workspace.take("large", like, channels, height, width, n)
        # Only the interior is ever written, so the border stays zero.
        bordered = torch.zeros(large.shape, dtype=like.dtype, device=like.device)
        channel, row, column, _ = bordered.stride()
        self._inside, self._large_inside = _interior(bordered, geometry), _interior(large, geometry)
        self._windows = bordered.as_strided(
            (channels, k, k, *sites, n), (channel, row, column, s * row, s * column, 1)
        )
        self._patches, self._patches_and_ones, self._ones = patches[:rows], patches, patches[rows]
        self._gathered = self._patches.view(self._windows.shape)
        self._large = large
        self._pieces = []
        spread = self._gathered.permute(0, 3, 1, 4, 2, 5)
        # An s x s piece of the kernel tiles the map without overlap: ceil(k / s)^2 additions do.
        for i in range(0, k, s):
            for j in range(0, k, s):
                piece = spread[:, :, i : i + s, :, j : j + s]
                strides = (channel, s * row, row, s * column, column, 1)
                place = large.as_strided(piece.shape, strides, i * row + j * column)
                self._pieces.append((place, piece))

    def gather(self, x: Tensor, ones: bool) -> Tensor:
        """P (c k^2 [+ 1], positions n): column (i, j, sample) is the patch that y[:, i, j] sees."""
        self._inside.copy_(x)
        self._gathered.copy_(self._windows)
        if not ones:
            return self._patches
        self._ones.fill_(1)
        return self._patches_and_ones

    def scatter(self, weight: Tensor, y: Tensor, start: Tensor | float) -> Tensor:
        """``start`` + overlap-add of W' y, y (o, positions n) -> (c, h, w, n), a buffer's view."""
        torch.mm(weight.flatten(1).t(), y, out=self._patches)
        if isinstance(start, Tensor):
            self._large.copy_(start)
        else:
            self._large.fill_(start)
        for place, piece in self._pieces:
            place.add_(piece)
        return self._large_inside


def _interior(padded: Tensor, geometry: SameGeometry) -> Tensor:
    top, left = geometry.rows[0], geometry.columns[0]
    return padded[:, top : top + geometry.height, left : left + geometry.width]


def block_size(weight: Tensor, geometry: SameGeometry) -> int:
    """Samples whose patches fill BLOCK_BYTES."""
    patch = math.prod(weight.shape[1:]) * geometry.out_height * geometry.out_width
    return max(1, BLOCK_BYTES // (patch * weight.element_size()))


def even_blocks(n: int, size: int) -> int:
    """The block size at most ``size`` that cuts ``n`` samples into blocks of nearly one size."""
    return max(1, math.ceil(n / max(1, math.ceil(n / size))))


def samples_last(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """x (n, ...) -> blocks (..., at most ``size``)."""
    blocks = x.flatten(1).t().contiguous().split(size, dim=1)
    return tuple(block.unflatten(0, x.shape[1:]) for block in blocks)


def samples_first(blocks: Iterable[Tensor]) -> Tensor:
    """Blocks (..., size) -> (n, features)."""
    return torch.cat([block.flatten(0, -2) for block in blocks], dim=1).t().contiguous()


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: SameGeometry,
        workspace: Workspace | None = None,
    ) -> Tensor:
        workspace = workspace or Workspace()
        matrix, ones = weight.flatten(1), bias is not None
        if bias is not None:
            matrix = torch.cat([matrix, bias[:, None]], dim=1)
        y = x.new_empty(len(weight), geometry.out_height, geometry.out_width, x.shape[-1])
        for x_block, y_block in _blocks(weight, geometry, x, y):
            grid = workspace.grid(geometry, len(x), x_block.shape[-1], x)
            _product_into(y_block, matrix, grid.gather(x_block, ones))
        ctx.save_for_backward(x, weight)
        ctx.geometry, ctx.workspace, ctx.has_bias = geometry, workspace, ones
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        geometry, workspace, grad_y = ctx.geometry, ctx.workspace, grad_y.contiguous()
        matrix_gradient = _column_major(weight, math.prod(weight.shape[1:]) + ctx.has_bias)
        grad_x = x.new_empty(x.shape) if ctx.needs_input_grad[0] else x
        for x_block, grad_x_block, grad_y_block in _blocks(weight, geometry, x, grad_x, grad_y):
            grid = workspace.grid(geometry, len(x), x_block.shape[-1], x)
            g = grad_y_block.reshape(len(weight), -1)
            matrix_gradient.addmm_(g, grid.gather(x_block, ctx.has_bias).t())
            if ctx.needs_input_grad[0]:
                grad_x_block.copy_(grid.scatter(weight, g, 0.0))
        grad_bias = matrix_gradient[:, -1] if ctx.has_bias else None
        grad_weight = matrix_gradient[:, : -1 if ctx.has_bias else None].reshape(weight.shape)
        grad_input = grad_x if ctx.needs_input_grad[0] else None
        return grad_input, grad_weight, grad_bias, None, None


class _TransposedConvolution(Function):
    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: SameGeometry,
        workspace: Workspace | None = None,
    ) -> Tensor:
        workspace, channels = workspace or Workspace(), weight.shape[1]
        start = 0.0 if bias is None else bias.view(-1, 1, 1, 1)
        x = y.new_empty(channels, geometry.height, geometry.width, y.shape[-1])
        for x_block, y_block in _blocks(weight, geometry, x, y):
            grid = workspace.grid(geometry, channels, y_block.shape[-1], y)
            x_block.copy_(grid.scatter(weight, y_block.reshape(len(y), -1), start))
        ctx.save_for_backward(y, weight)
        ctx.geometry, ctx.workspace, ctx.has_bias = geometry, workspace, bias is not None
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_x: Tensor) -> tuple[Tensor | None, ...]:
        y, weight = ctx.saved_tensors
        geometry, workspace, grad_x = ctx.geometry, ctx.workspace, grad_x.contiguous()
        matrix = weight.flatten(1)
        matrix_gradient = _column_major(weight, matrix.shape[1])
        grad_y = y.new_empty(y.shape)
        for grad_x_block, y_block, grad_y_block in _blocks(weight, geometry, grad_x, y, grad_y):
            grid = workspace.grid(geometry, len(grad_x), y_block.shape[-1], y)
            patches = grid.gather(grad_x_block, ones=False)
            if ctx.needs_input_grad[1]:
                matrix_gradient.addmm_(y_block.reshape(len(y), -1), patches.t())
            _product_into(grad_y_block, matrix, patches)
        grad_bias = grad_x.sum((1, 2, 3)) if ctx.has_bias else None
        return grad_y, matrix_gradient.reshape(weight.shape), grad_bias, None, None


def _column_major(weight: Tensor, columns: int) -> Tensor:
    """Zeros (o, columns) in column-major order, to which a product A B' is added.

    On ARM builds PyTorch hands a row-major A B' to a library that builds a new kernel for each
    call, some 0.4 ms; a column-major result goes to BLAS, up to twice as fast at these sizes.
    """
    return weight.new_zeros(columns, len(weight)).t()


def _blocks(weight: Tensor, geometry: SameGeometry, *maps: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The maps (..., n) cut alike into blocks of samples."""
    n = maps[0].shape[-1]
    size = even_blocks(n, block_size(weight, geometry))
    if n <= size:
        return iter([maps])
    return zip(*(m.split(size, dim=-1) for m in maps), strict=True)


def _product_into(out: Tensor, matrix: Tensor, patches: Tensor) -> None:
    if out.is_contiguous():
        torch.mm(matrix, patches, out=out.view(len(out), -1))
    else:
        out.copy_((matrix @ patches).view(out.shape))


convolve = _Convolution.apply  # x (c, h, w, n) -> (o, ceil(h / s), ceil(w / s), n)
convolve_transposed = _TransposedConvolution.apply  # and back
