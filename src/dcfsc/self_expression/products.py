"""Matrix products of float32 data: accurate, and on a GPU's matrix units where it has them.

A GPU multiplies bfloat16 on its matrix units an order of magnitude faster than float32 outside
them. A float32 number is the sum of three bfloat16 numbers (8 bits of mantissa each, 24 in all), so

    A B = sum over i + j <= 2 of A_i B_j + O(2^-24 |A| |B|),

six products that accumulate in float32: as accurate as float32, about twice as fast or more. It
changes no global precision setting. Small products, float64 and the CPU use the plain product.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SMALLEST_WORK = 1 << 33  # multiply-adds below which splitting costs more than it saves


class SplitMatrix:
    """A float32 matrix on a GPU as three bfloat16 ones, to be multiplied more than once."""

    def __init__(self, A: Tensor):
        high = A.to(torch.bfloat16)
        rest = A - high.to(torch.float32)
        middle = rest.to(torch.bfloat16)
        low = (rest - middle.to(torch.float32)).to(torch.bfloat16)
        self.parts = (high, middle, low)

    @property
    def mT(self) -> SplitMatrix:
        transposed = object.__new__(SplitMatrix)
        transposed.parts = tuple(part.mT for part in self.parts)  # type: ignore[assignment]
        return transposed

    def __matmul__(self, other: SplitMatrix) -> Tensor:
        result: Tensor | None = None
        # Smallest terms first: they would drown if added last.
        for i, j in ((0, 2), (2, 0), (1, 1), (0, 1), (1, 0), (0, 0)):
            product = torch.mm(self.parts[i], other.parts[j], out_dtype=torch.float32)
            result = product if result is None else result.add_(product)
        assert result is not None
        return result


def splits(A: Tensor, columns: int) -> bool:
    """Whether products of A (n, d) with ``columns`` columns are worth splitting."""
    return (
        A.is_cuda
        and A.dtype == torch.float32
        and A.shape[0] * A.shape[1] * columns >= _SMALLEST_WORK
        and torch.cuda.get_device_capability(A.device)[0] >= 8
    )
