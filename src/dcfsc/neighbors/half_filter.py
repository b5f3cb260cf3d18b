"""Upper bounds of groups' largest |q . y| from float16 products: a filter that never loses one.

With unit q and y scaled to a largest norm of one, rounded to float16 (11 bits, and 2^-25 below the
normal range),

    |fl(q) . fl(y) - q . y|  <=  2 * 2^-11 |y| + 2 sqrt(d) 2^-25 + O(d 2^-24) |y|,

the last term being the accumulation in float32. A group's bound is its largest approximate
magnitude plus that error at its largest |y|. float16 rather than bfloat16, whose error is eight
times larger at the same speed and would let that many more groups through.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

logger = logging.getLogger("dcfsc")

# Columns side by side in a tile. Group (s, l) holds the columns  s G LANES + t LANES + l,
# t = 0, ..., G - 1: a maximum over t needs no reduction across a tile, only between tiles.
KERNEL_WIDTH = 64  # features up to which the fused kernel is used; see half_kernel
LANES = 128
# What a kernel that ranks a row holds at once: its candidates, and the stretches of its bounds.
MOST_RANKED = 4096
_MOST_STRETCHES = 8192
_BOUND_BYTES = 256 << 20
_COARSE = 32
_LARGE = 2_000_000
_CHUNK_ROWS = 1 << 18


class HalfFilter:
    """Candidates for the largest |q . y_j| over the rows of Y (N, d), and a proof of enough."""

    def __init__(self, Y: Tensor, group: int | None = None):
        self.n, self.d = Y.shape
        if group is None:
            group = 32 if self.n <= _LARGE else 64
        self.group = group
        self.width = LANES * group
        whole, rest = divmod(self.n, self.width)
        self.n_groups = whole * LANES + min(LANES, rest)
        norms = torch.linalg.vector_norm(Y, dim=1)
        self.scale = norms.max().clamp_min(torch.finfo(torch.float32).tiny)
        self.Y = torch.empty(self.n, _padded(self.d), dtype=torch.float16, device=Y.device)
        for start in range(0, self.n, _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            self.Y[rows] = _half(Y[rows] / self.scale)
        error = self._error(norms / self.scale)
        error = F.pad(error, (0, -self.n % self.width)).view(-1, group, LANES).amax(1)
        self.error = error.reshape(-1)[: self.n_groups].contiguous()

    @property
    def block_rows(self) -> int:
        """Rows at a time, so that their bounds fill a few hundred MiB at most."""
        rows = _BOUND_BYTES // (4 * self.n_groups)
        return max(LANES, min(8192, rows // LANES * LANES))

    def groups(self, Q: Tensor, own: Tensor | None, keep: int) -> tuple[Tensor, Tensor]:
        """The ``keep`` groups (b, keep) with the largest bounds, and the bound of the next.

        Q is (b, d). The bound is (b,), 0 where no group is left out.
        """
        U, maxima = self._bounds(Q, own)
        if keep >= self.n_groups:
            every = torch.arange(self.n_groups, device=Q.device).expand(len(Q), -1)
            return every, U.new_zeros(len(Q))
        chosen = None
        if keep * _COARSE < MOST_RANKED and keep < maxima.shape[1] <= _MOST_STRETCHES:
            chosen = fused("largest_groups", U, maxima, keep)
        if chosen is None:
            bounds, order = _largest(U, maxima, keep + 1)
            chosen = order[:, :keep], bounds[:, keep]
        return chosen

    def columns(self, groups: Tensor) -> Tensor:
        """The columns (b, keep * group) of groups (b, keep); those >= N are none."""
        first = groups // LANES * self.width + groups % LANES
        steps = torch.arange(0, self.width, LANES, device=groups.device)
        return (first[:, :, None] + steps).flatten(1)

    def proves(self, Q: Tensor, smallest: Tensor, rest: Tensor) -> Tensor:
        """Whether no column left out can exceed ``smallest`` (b,), the k-th |q . y| found.

        Not a number compares false, so rows with one are never proven. All products of a zero row
        are equal, so whatever was found is right.
        """
        length = torch.linalg.vector_norm(Q, dim=1)
        rounding = (self.d + 8) * 2.0**-24
        return (rest <= smallest / (length * self.scale) - rounding) | (length == 0)

    def _error(self, norms: Tensor) -> Tensor:
        """The module's bound for columns of scaled norm |y| (N,); 2.01 covers the scaling too."""
        relative = 2.01 * 2.0**-11 + (self.d + 16) * 2.0**-21
        return relative * norms + 2.01 * self.d**0.5 * 2.0**-25

    def _bounds(self, Q: Tensor, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Upper bounds (b, n_groups and a few), and the maxima of stretches of 32 of them.

        The last few columns are -1.
        """
        length = torch.linalg.vector_norm(Q, dim=1, keepdim=True)
        q = torch.empty(len(Q), self.Y.shape[1], dtype=torch.float16, device=Q.device)
        q[:] = _half(Q / length.masked_fill(length == 0, 1.0))
        if own is None:
            own = torch.full((len(Q),), -1, device=Q.device)
        found = None
        if q.shape[1] <= KERNEL_WIDTH:
            rest = self.error, self.group, LANES, _COARSE
            found = fused("group_bounds", q, self.Y, own, *rest)
        if found is None:
            U = self._bounds_by_tiles(q, own)
            found = U, U.view(len(Q), -1, _COARSE).amax(2)
        return found

    def _bounds_by_tiles(self, q: Tensor, own: Tensor) -> Tensor:
        U = torch.empty(len(q), -(-self.n_groups // _COARSE) * _COARSE, device=q.device)
        U[:, self.n_groups :] = -1.0
        for start in range(0, self.n, self.width):
            y = self.Y[start : start + self.width]
            if q.is_cuda:
                tile = torch.mm(q, y.T, out_dtype=torch.float32)
            else:
                tile = q.float() @ y.float().T
            c = tile.shape[1]
            place = (own - start)[:, None]
            inside = (place >= 0) & (place < c)
            place = place.clamp(0, c - 1)
            tile.scatter_(1, place, tile.gather(1, place).masked_fill_(inside, 0.0))
            tile = F.pad(tile, (0, self.width - c)).view(-1, self.group, LANES)
            first = start // self.width * LANES
            last = min(first + LANES, self.n_groups)
            largest = torch.linalg.vector_norm(tile, float("inf"), dim=1)[:, : last - first]
            torch.add(largest, self.error[first:last], out=U[:, first:last])
        return U


def _padded(d: int) -> int:
    """The width that the kernel's tiles want: a power of two up to 128, else a multiple of 64."""
    if d <= LANES:
        return max(16, 1 << (d - 1).bit_length())
    return -(-d // 64) * 64


def _half(X: Tensor) -> Tensor:
    """X (n, d) in float16, padded with zeros to the kernel's width."""
    return F.pad(X, (0, _padded(X.shape[1]) - X.shape[1])).to(torch.float16)


def _largest(U: Tensor, maxima: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The m largest entries of each row of U (b, w) and their places, in descending order.

    ``maxima`` are those of stretches of 32 entries. The m stretches with the largest hold them all,
    so that U itself is read once: a selection over whole rows reads it many times.
    """
    if maxima.shape[1] <= 2 * m:
        top = U.topk(m, dim=1)
        return top.values, top.indices
    chosen = maxima.topk(m, dim=1, sorted=False).indices
    inside = torch.arange(_COARSE, device=U.device)
    places = (chosen[:, :, None] * _COARSE + inside).flatten(1)
    top = U.gather(1, places).topk(m, dim=1)
    return top.values, places.gather(1, top.indices)


_failed: list[str] = []


def fused(name: str, rows: Tensor, *args: Any) -> Any:
    """What the kernel of that name gives for rows on a GPU; None where it cannot be had."""
    kernels = _kernels() if rows.is_cuda else None
    if kernels is None:
        return None
    try:
        return getattr(kernels, name)(rows, *args)
    except Exception as error:  # a kernel that cannot be built: no compiler, old driver
        _kernel_failed(error)
        return None


@cache
def _import_kernels() -> Any:
    try:
        from . import half_kernel
    except ImportError:
        logger.info("neighbor scan: no Triton here; tiles are multiplied by PyTorch")
        return None
    return half_kernel


# Releases of PyTorch before 2.8 have no AcceleratorError.
_OF_THE_DEVICE: tuple[type[Exception], ...] = (
    torch.cuda.OutOfMemoryError,
    getattr(torch, "AcceleratorError", torch.cuda.OutOfMemoryError),
)


def _kernels() -> Any:
    """The module of kernels, or None where they cannot be had."""
    return None if _failed else _import_kernels()


def _kernel_failed(error: Exception) -> None:
    """Remember that the kernel cannot be built; an error of the device itself is passed on."""
    if isinstance(error, _OF_THE_DEVICE):
        raise error
    _failed.append(str(error))
    logger.warning("the fused neighbor scan cannot be built (%s); a slower one runs", error)
