"""Matrix products of float32 data: accurate, and on a GPU's matrix units where it has them.

A GPU multiplies half-precision numbers on its matrix units an order of magnitude faster than
float32 outside them. A float32 number is nearly the sum of two float16 numbers (11 bits of mantissa
each, after a scaling by a power of two that keeps both in range), so

    A B = A_0 B_0 + A_0 B_1 + A_1 B_0 + O(2^-22 |A| |B|),

three products that accumulate in float32, several times as fast as the float32 product and nearly
as accurate (matrix units cut sums off where float32 rounds them). It changes no global setting.
Small products, float64 and the CPU use the plain product.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SMALLEST_WORK = 1 << 33  # multiply-adds below which splitting costs more than it saves
# The largest magnitude is brought to about 2^13: the high part cannot overflow (2^16), and the low
# part of a number 2^-16 times as large still has all of its bits above float16's smallest, 2^-24.
_LARGEST_EXPONENT = 13


class SplitMatrix:
    """A float32 matrix on a GPU as (A_0 + A_1) / scale in float16, to be multiplied repeatedly.

    With ``count=1`` it is A_0 alone: A rounded to float16. The scale stays on the device: nothing
    here waits for the GPU.
    """

    def __init__(self, A: Tensor, count: int = 2):
        low, high = torch.aminmax(A)
        exponent = _LARGEST_EXPONENT - torch.frexp(torch.maximum(high, -low)).exponent
        # Powers of two within float32; matrices beyond them have lost their digits already.
        self.scale = torch.ldexp(torch.ones_like(high), exponent.clamp(-60, 60))
        scaled = A * self.scale
        first = scaled.to(torch.float16)
        self.parts: tuple[Tensor, ...] = (first,)
        if count == 2:
            self.parts = first, torch.sub(scaled, first, out=torch.empty_like(first))

    def _with(self, parts: tuple[Tensor, ...]) -> SplitMatrix:
        other = object.__new__(SplitMatrix)
        other.scale, other.parts = self.scale, parts
        return other

    @property
    def mT(self) -> SplitMatrix:
        return self._with(tuple(part.mT for part in self.parts))

    def leading(self, count: int) -> SplitMatrix:
        """The first ``count`` of the parts."""
        return self._with(self.parts[:count])

    def __matmul__(self, other: SplitMatrix) -> Tensor:
        # Small terms first: they would drown if added last. A_1 B_1 is below the rounding.
        a, b = self.parts, other.parts
        pairs = [(a[0], part) for part in b[:0:-1]] + [(part, b[0]) for part in a[::-1]]
        result = None
        for pair in pairs:
            result = _product(*pair, result)
        assert result is not None
        return result.mul_(1.0 / (self.scale * other.scale))


def _product(a: Tensor, b: Tensor, added: Tensor | None) -> Tensor:
    """a b in float32, with ``added``, which is overwritten."""
    if added is None:
        return torch.mm(a, b, out_dtype=torch.float32)
    return torch.addmm(added, a, b, out_dtype=torch.float32, out=added)


def needs_one_part(A: Tensor) -> bool:
    """Whether A_1 is nothing: A came out of a bfloat16 network. Waits for a GPU."""
    return torch.equal(A, A.to(torch.bfloat16).to(A.dtype))


def splits(A: Tensor, columns: int) -> bool:
    """Whether products of A (n, d) with ``columns`` columns are worth splitting."""
    return (
        A.is_cuda
        and A.dtype == torch.float32
        and A.shape[0] * A.shape[1] * columns >= _SMALLEST_WORK
        and torch.cuda.get_device_capability(A.device)[0] >= 8
    )
