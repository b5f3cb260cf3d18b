"""Many processes, each with a share of the samples: who am I, what is mine, and sums over all.

Everything here is the identity in a single process. Inside ``with sharded():`` the samples are
understood to be divided among the processes of torch.distributed, and what the closed form and
training need of all samples is summed over them: d x d matrices, statistics and gradients, never
samples. Outside of it nothing is ever communicated, whatever process group a program has opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from dcfsc.errors import DcfscError, InputError

_sharded = False  # whether sums are over processes; see `sharded`

TIMEOUT_SECONDS = 600.0


def launched() -> bool:
    """Whether torchrun started this process as one of several (or of one)."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and dist.is_available()


def active() -> bool:
    """Whether samples are divided among processes just now."""
    return _sharded


def rank() -> int:
    return dist.get_rank() if _sharded else 0


def size() -> int:
    return dist.get_world_size() if _sharded else 1


def local_device(device: str) -> str:
    """ "auto" and "cuda" name each process's own GPU where there is one a process."""
    if launched() and device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
    return device


@contextmanager
def process_group(device: torch.device, timeout: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Join the processes that torchrun started, for the length of the block.

    NCCL between GPUs, gloo between CPUs. A process that stops answering ends every other one with
    an error after ``timeout`` seconds.
    """
    if timeout <= 0:
        raise InputError(f"the timeout must be a positive number of seconds; got {timeout}.")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=timeout)
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def sharded() -> Iterator[None]:
    """Within the block, rows of a data matrix are this process's share of the samples."""
    global _sharded
    if not dist.is_available() or not dist.is_initialized():
        raise InputError("sharded() needs an open torch.distributed process group.")
    before, _sharded = _sharded, True
    try:
        yield
    finally:
        _sharded = before


def shard(n: int, rank: int, size: int) -> slice:
    """The contiguous share of ``n`` samples that belongs to one of ``size`` processes."""
    return slice(n * rank // size, n * (rank + 1) // size)


def total(tensor: Tensor) -> Tensor:
    """The sum of ``tensor`` over the processes, in place and returned; every one gets it."""
    if _sharded:
        with lost_peer():
            dist.all_reduce(tensor)
    return tensor


def total_number(value: float) -> float:
    """The sum of a number over the processes, in double precision."""
    return float(total(_number(value))) if _sharded else value


def smallest_number(value: float) -> float:
    """The smallest of the processes' numbers."""
    if not _sharded:
        return value
    number = _number(value)
    with lost_peer():
        dist.all_reduce(number, op=dist.ReduceOp.MIN)
    return float(number)


def gather_rows(rows: Tensor) -> Tensor:
    """Every process's rows (n_r, ...), unequal in number, stacked in the order of the ranks."""
    if not _sharded:
        return rows
    counts = row_counts(len(rows), rows.device)
    largest = max(counts)
    padded = rows.new_zeros(largest, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in counts]
    with lost_peer():
        dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def row_counts(n: int, device: torch.device) -> list[int]:
    """How many samples each process has."""
    if not _sharded:
        return [n]
    counts = torch.zeros(size(), dtype=torch.int64, device=device)
    counts[rank()] = n
    return total(counts).tolist()


def broadcast(tensor: Tensor, source: int) -> Tensor:
    """``tensor`` of the process ``source``, in place and returned."""
    if _sharded:
        with lost_peer():
            dist.broadcast(tensor, source)
    return tensor


@contextmanager
def lost_peer() -> Iterator[None]:
    """A process that died or stopped answering, in one line."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DcfscError(
            f"process {rank()} lost contact with another one ({reason}); the job ends here. Start "
            "it again with --resume, or let torchrun's --max-restarts do so."
        ) from error


def _number(value: float) -> Tensor:
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    return torch.tensor(float(value), dtype=torch.float64, device=device)
