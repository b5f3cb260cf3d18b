"""Rows at unit length: what makes an inner product a cosine."""

from __future__ import annotations

import torch
from torch import Tensor


def unit_rows(Z: Tensor) -> Tensor:
    """Rows of Z (N, d) at unit length; zero rows stay zero."""
    # Scaled by the largest entry first, so that squares neither overflow nor vanish.
    largest = Z.abs().amax(dim=1, keepdim=True)
    scaled = Z / largest.masked_fill(largest == 0, 1.0)
    norm = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / norm.masked_fill(norm == 0, 1.0)
