"""The inverse of a triangular matrix by matrix products, which a GPU does best."""

from __future__ import annotations

import torch
from torch import Tensor

_LEAF = 512  # diagonal blocks inverted by substitution, all at once


def triangular_inverse(L: Tensor) -> Tensor:
    """L^-1 for a lower triangular L (d, d).

    Substitution, and on a GPU substitution for the diagonal blocks alone, which are then joined:

        [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1 C^-1].
    """
    d = len(L)
    if not L.is_cuda or d <= _LEAF:
        return _by_substitution(L)
    return joined_inverse(L, _LEAF)


def joined_inverse(L: Tensor, leaf: int) -> Tensor:
    """The blocked inverse with diagonal blocks of ``leaf``."""
    d = len(L)
    inverse = torch.zeros_like(L)
    whole = d // leaf
    if whole:
        at = [slice(i * leaf, (i + 1) * leaf) for i in range(whole)]
        for part, block in zip(
            at, _by_substitution(torch.stack([L[s, s] for s in at])), strict=True
        ):
            inverse[part, part] = block
    if whole * leaf < d:
        rest = slice(whole * leaf, d)
        inverse[rest, rest] = _by_substitution(L[rest, rest])
    _join(L, inverse, leaf)
    return inverse


def _by_substitution(L: Tensor) -> Tensor:
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L)
    return torch.linalg.solve_triangular(L, eye, upper=False)


def _join(L: Tensor, inverse: Tensor, leaf: int) -> None:
    """Fill in what lies under the diagonal blocks, in place."""
    d = len(L)
    if d <= leaf:
        return
    half = -(-d // leaf) // 2 * leaf
    _join(L[:half, :half], inverse[:half, :half], leaf)
    _join(L[half:, half:], inverse[half:, half:], leaf)
    torch.mm(
        inverse[half:, half:],
        L[half:, :half] @ inverse[:half, :half],
        out=inverse[half:, :half],
    ).neg_()
