"""SAME convolution and its exact adjoint, the two linear maps every layer here is made of.

With stride s and kernel k a map of n rows becomes ceil(n / s) rows: TensorFlow's SAME padding,
total = max((ceil(n / s) - 1) s + k - n, 0), the smaller half before. The transposed convolution is
the adjoint of that map, <conv(x), y> = <x, conv'(y)>, so it takes ceil(n / s) rows back to n
exactly, and both share one weight tensor layout: (channels of the small map, channels of the large
map, k, k), which is PyTorch's order for Conv2d and for ConvTranspose2d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class SameGeometry:
    """One layer's sizes: a ``height`` x ``width`` map seen by a ``kernel`` with a ``stride``."""

    height: int
    width: int
    kernel: int
    stride: int

    @cached_property
    def out_height(self) -> int:
        return -(-self.height // self.stride)

    @cached_property
    def out_width(self) -> int:
        return -(-self.width // self.stride)

    @cached_property
    def rows(self) -> tuple[int, int]:
        """Rows of zeros before and after."""
        return _same_padding(self.height, self.kernel, self.stride)

    @cached_property
    def columns(self) -> tuple[int, int]:
        """Columns of zeros before and after."""
        return _same_padding(self.width, self.kernel, self.stride)

    @cached_property
    def padded_height(self) -> int:
        return self.height + sum(self.rows)

    @cached_property
    def padded_width(self) -> int:
        return self.width + sum(self.columns)


def _same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: SameGeometry) -> Tensor:
    """PyTorch's own convolution: x (n, c, h, w) -> (n, o, ceil(h / s), ceil(w / s))."""
    weight, padding = _symmetric(weight, geometry)
    return F.conv2d(x, weight, bias, geometry.stride, padding)


def convolve_transposed(
    y: Tensor, weight: Tensor, bias: Tensor | None, geometry: SameGeometry
) -> Tensor:
    """PyTorch's own transposed convolution: y (n, o, ceil(h / s), ceil(w / s)) -> (n, c, h, w)."""
    # A kernel smaller than the stride leaves the last rows without any contribution.
    missing = (
        geometry.padded_height - (geometry.out_height - 1) * geometry.stride - geometry.kernel,
        geometry.padded_width - (geometry.out_width - 1) * geometry.stride - geometry.kernel,
    )
    weight, padding = _symmetric(weight, geometry)
    return F.conv_transpose2d(y, weight, bias, geometry.stride, padding, missing)


def _symmetric(weight: Tensor, geometry: SameGeometry) -> tuple[Tensor, tuple[int, int]]:
    """The same map with as much padding before as after, as the libraries want it.

    Where SAME pads one more after than before, a kernel with a line of zeros in front of it and
    one more line of padding before does the same; padding the weight costs nothing beside padding
    the images.
    """
    (top, bottom), (left, right) = geometry.rows, geometry.columns
    if top != bottom or left != right:
        weight = F.pad(weight, (right - left, 0, bottom - top, 0))
    return weight, (bottom, right)
