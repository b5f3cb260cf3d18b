"""Gram matrices in double precision, whatever the precision of the data.

Images are strongly correlated, so the condition number of Z'Z + lam I is about N over the
relative lam: a Gram matrix rounded to single precision carries an error of the size of lam
itself. It is therefore accumulated in float64, never in float32 or TF32. The rows are converted
a chunk at a time, so the double copy of Z never exists as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dcfsc import processes

# Float64 numbers held at a time: 32 MiB on a CPU; a GPU wants larger products.
CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 25}
_COLUMN_BLOCK = {"cpu": 256, "cuda": 1024}


def row_chunks(n: int, width: int, device: torch.device) -> Iterator[slice]:
    """Slices over n rows that hold about ``CHUNK_ELEMENTS`` numbers each."""
    step = max(1, CHUNK_ELEMENTS.get(device.type, 1 << 22) // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def add_gram(G: Tensor, Z: Tensor) -> Tensor:
    """G <- G + Z'Z in float64; Z is (n, d), G is (d, d). Returns G.

    Only the upper block triangle is multiplied out (about half of the flops of a full product)
    and mirrored.
    """
    n, d = Z.shape
    block = _COLUMN_BLOCK.get(Z.device.type, 256)
    for rows in row_chunks(n, d, Z.device):
        chunk = Z[rows].to(torch.float64)
        for start in range(0, d, block):
            stop = min(start + block, d)
            G[start:stop, start:] += chunk[:, start:stop].T @ chunk[:, start:]
    for start in range(0, d, block):
        stop = min(start + block, d)
        corner = G[start:stop, start:stop]
        corner.copy_(torch.triu(corner) + torch.triu(corner, 1).T)
        G[stop:, start:stop] = G[start:stop, stop:].T
    return G


def squared_lengths(Z: Tensor) -> Tensor:
    """|z|^2 of the rows of Z (n, d), in float64."""
    if Z.is_cuda:  # fewer passes
        return torch.linalg.vector_norm(Z, dim=1, dtype=torch.float64).square_()
    return Z.to(torch.float64).square().sum(1)


def gram(Z: Tensor) -> Tensor:
    """Z'Z, (d, d) in float64."""
    d = Z.shape[1]
    return add_gram(torch.zeros(d, d, dtype=torch.float64, device=Z.device), Z)


def outer_gram(Z: Tensor) -> Tensor:
    """Z Z', (N, N) in float64; meant for N <= d."""
    return gram(Z.mT)


def squared_singular_values(Z: Tensor) -> Tensor:
    """The squared singular values of Z, ascending, min(N, d) of them, in float64.

    Of all processes' rows together where samples are divided among them, and then d of them.
    """
    return torch.linalg.eigvalsh(smaller_gram(Z)).clamp_min(0.0)


def fewer_samples(Z: Tensor) -> bool:
    """Whether Z Z' is not larger than Z'Z, and all of it in one process."""
    return Z.shape[0] <= Z.shape[1] and not processes.active()


def smaller_gram(Z: Tensor) -> Tensor:
    """Z Z' or Z'Z of all processes' rows, whichever is smaller, in float64."""
    return outer_gram(Z) if fewer_samples(Z) else processes.total(gram(Z))
