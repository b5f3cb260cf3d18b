"""Many processes: which samples are mine, and sums over all.

Everything here is the identity in a single process. Inside ``with sharded():`` the samples are
understood to be divided among the processes of torch.distributed, and what the closed form and
training need of all samples is summed over them: d x d matrices, statistics and gradients, never
samples. Outside of it nothing is ever communicated, whatever process group a program has opened.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from dcfsc.errors import DcfscError, InputError

# Whether sums are over processes; see `sharded`. The one ambient state there is.
_sharded: ContextVar[bool] = ContextVar("sharded", default=False)

TIMEOUT_SECONDS = 600.0
BLOCK_BYTES = 1 << 26  # sent at a time where rows are collected


class LostPeer(DcfscError):
    """Another process died or stopped answering."""


def launched() -> bool:
    """Whether torchrun started this process as one of several (or of one)."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and dist.is_available()


def active() -> bool:
    return _sharded.get()


def rank() -> int:
    return dist.get_rank() if active() else 0


def size() -> int:
    return dist.get_world_size() if active() else 1


def described(device: torch.device) -> dict[str, Any]:
    """The number of processes and what connects them, for a record; nothing for one alone."""
    if not launched():
        return {}
    return {"processes": int(os.environ["WORLD_SIZE"]), "backend": backend(device)}


def local_device(device: str) -> str:
    """ "auto" and "cuda" name each process's own GPU where there is one a process."""
    if launched() and device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
    return device


def backend(device: torch.device) -> str:
    """NCCL between GPUs, gloo between CPUs and where processes share a GPU, which NCCL forbids."""
    together = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    alone = device.type == "cuda" and together <= torch.cuda.device_count()
    return "nccl" if alone else "gloo"


@contextmanager
def process_group(device: torch.device, timeout: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Join the processes that torchrun started, for the length of the block.

    A process that stops answering ends every other one with an error after ``timeout`` seconds.
    """
    if not timeout > 0:
        raise InputError(f"the timeout must be a positive number of seconds; got {timeout}.")
    if device.type == "cuda" and device.index is not None:  # else the current one
        torch.cuda.set_device(device)
    with lost_peer():
        store, place, count = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
        token = _common_token(store, place, count, timeout)
        dist.init_process_group(
            backend(device),
            store=dist.PrefixStore(f"dcfsc/{token}", store),
            rank=place,
            world_size=count,
            timeout=timedelta(seconds=timeout),
        )
    try:
        yield
    finally:
        dist.destroy_process_group()


def _common_token(store: Any, place: int, count: int, timeout: float) -> str:
    """A name for this start of the processes that no earlier start has had, equal on all.

    torchrun keeps one store over restarts, and with it the addresses of processes that are gone.
    The first process draws a token and shows it beside the words it was greeted with; who finds
    its own word there knows that the token is not an old one.
    """
    deadline = time.monotonic() + timeout
    word = uuid.uuid4().hex
    if place:
        store.set(f"dcfsc/greeting/{place}", word)
    token, shown = word, ""
    while True:
        if place == 0:
            keys = [f"dcfsc/greeting/{i}" for i in range(1, count)]
            words = [store.get(key).decode() if store.check([key]) else "" for key in keys]
            showing = json.dumps([token, *words])
            if showing != shown:
                store.set("dcfsc/token", shown := showing)
            if store.add(f"dcfsc/{token}/met", 0) == count - 1:
                return token
        elif store.check(["dcfsc/token"]):
            found, *words = json.loads(store.get("dcfsc/token"))
            if place <= len(words) and words[place - 1] == word:
                store.add(f"dcfsc/{found}/met", 1)
                return found
        if time.monotonic() > deadline:
            raise LostPeer(
                f"process {place} waited {timeout:g} s for all {count} processes to start."
            )
        time.sleep(0.02)


def first_to_tell() -> bool:
    """Whether this process is the first of torchrun's to report an error; True without torchrun.

    What one process finds wrong stops them all; one of them says it.
    """
    if not launched() or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return True
    try:
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(*place, is_master=False, timeout=timedelta(seconds=5))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return store.add(f"dcfsc/told/{attempt}", 1) == 1
    except (RuntimeError, ValueError, KeyError):
        return True


@contextmanager
def sharded() -> Iterator[None]:
    """Within the block, rows of a data matrix are this process's share of the samples."""
    if not dist.is_available() or not dist.is_initialized():
        raise InputError("sharded() needs an open torch.distributed process group.")
    with _switched(True):
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Within the block, inside of :func:`sharded`, this process works for itself."""
    with _switched(False):
        yield


@contextmanager
def _switched(value: bool) -> Iterator[None]:
    token = _sharded.set(value)
    try:
        yield
    finally:
        _sharded.reset(token)


def shard(n: int, rank: int, size: int) -> slice:
    """The contiguous share of ``n`` samples that belongs to one of ``size`` processes."""
    return slice(n * rank // size, n * (rank + 1) // size)


def total(tensor: Tensor) -> Tensor:
    """The sum of ``tensor`` over the processes, in place and returned; every one gets it."""
    return _exchanged(tensor, dist.all_reduce) if active() else tensor


def differentiable_total(tensor: Tensor) -> Tensor:
    """The sum of ``tensor`` over the processes, of which each adds its part to the one loss.

    The gradient is the sum of the processes' gradients. ``tensor`` itself is left as it is.
    """
    return _Total.apply(tensor) if active() else tensor


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        # Back-propagation may run in a thread that does not know whether samples are divided.
        ctx.context = copy_context()
        return total(tensor.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return ctx.context.run(total, gradient.clone())


def total_number(value: float) -> float:
    """The sum of a number over the processes, in double precision."""
    return float(total(torch.tensor(float(value), dtype=torch.float64))) if active() else value


def total_count(n: int) -> int:
    return round(total_number(n))


def smallest_number(value: float) -> float:
    """The smallest of the processes' numbers."""
    if not active():
        return value
    number = torch.tensor(float(value), dtype=torch.float64)
    return float(_exchanged(number, partial(dist.all_reduce, op=dist.ReduceOp.MIN)))


def gather_rows(rows: Tensor) -> Tensor:
    """Every process's rows (n_r, ...), unequal in number, stacked in the order of the ranks."""
    if not active():
        return rows
    counts = row_counts(len(rows), rows.device)
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    wire = _on_wire(padded)
    parts = [torch.empty_like(wire) for _ in counts]
    with lost_peer():
        dist.all_gather(parts, wire)
    gathered = [part[:count] for part, count in zip(parts, counts, strict=True)]
    return torch.cat(gathered).to(rows.device)


def collect_rows(rows: Tensor, counts: Sequence[int] | None = None) -> Tensor | None:
    """Every process's rows (n_r, ...) stacked in the first one's host memory; None elsewhere.

    Sent a block at a time, so that no device ever holds more than a block besides its own rows.
    """
    if not active():
        return rows.cpu()
    counts = row_counts(len(rows), rows.device) if counts is None else counts
    row_bytes = math.prod(rows.shape[1:]) * rows.element_size()
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    if rank() != 0:
        for block in rows.split(step):
            send(block, 0)
        return None
    whole = torch.empty(sum(counts), *rows.shape[1:], dtype=rows.dtype)
    whole[: counts[0]] = rows
    start = counts[0]
    for source, count in enumerate(counts[1:], 1):
        end = start + count
        while start < end:
            stop = min(start + step, end)
            receive(whole[start:stop], source)
            start = stop
    return whole


def send(tensor: Tensor, target: int) -> None:
    with lost_peer():
        dist.send(_on_wire(tensor), target)


def receive(tensor: Tensor, source: int) -> Tensor:
    """Fill ``tensor`` with what ``source`` sends; returned."""
    return _exchanged(tensor, partial(dist.recv, src=source))


def row_counts(n: int, device: torch.device) -> list[int]:
    if not active():
        return [n]
    counts = torch.zeros(size(), dtype=torch.int64, device=device)
    counts[rank()] = n
    return total(counts).tolist()


def broadcast(tensor: Tensor, source: int) -> Tensor:
    return _exchanged(tensor, partial(dist.broadcast, src=source)) if active() else tensor


def tell(*numbers: int) -> None:
    """Broadcast integers from rank 0; the others :func:`hear` them."""
    broadcast(torch.tensor(numbers, dtype=torch.int64), 0)


def hear(count: int) -> list[int]:
    return broadcast(torch.zeros(count, dtype=torch.int64), 0).tolist()


def broadcast_bytes(content: bytes | None) -> bytes | None:
    """The first process's bytes, or None if it has none."""
    if not active():
        return content
    if rank() == 0:
        tell(-1 if content is None else len(content))
        if content:
            broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8), 0)
        return content
    (length,) = hear(1)
    if length < 0:
        return None
    if length == 0:
        return b""
    return broadcast(torch.empty(length, dtype=torch.uint8), 0).numpy().tobytes()


@contextmanager
def lost_peer() -> Iterator[None]:
    """A process that died or stopped answering, in one line."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        # Without the place in gloo's source, and without its advice.
        lines = re.sub(r"^\[[^\]]*\]\s*", "", str(error)).splitlines() or [type(error).__name__]
        reason = lines[0].split(". ")[0].rstrip(".")
        place = os.environ.get("RANK", "0") if not dist.is_initialized() else dist.get_rank()
        raise LostPeer(
            f"process {place} lost contact with another one ({reason}); the job ends here. Start "
            "it again with --resume, or let torchrun's --max-restarts do so."
        ) from error


def _on_wire(tensor: Tensor) -> Tensor:
    """``tensor`` where the back end takes it: NCCL moves the GPU's memory, gloo the host's."""
    place = "cuda" if dist.get_backend() == "nccl" else "cpu"
    return tensor.contiguous() if tensor.device.type == place else tensor.to(place).contiguous()


def _exchanged(tensor: Tensor, exchange: Callable[[Tensor], object]) -> Tensor:
    """``tensor`` after ``exchange`` has changed it in place; returned."""
    wire = _on_wire(tensor)
    with lost_peer():
        exchange(wire)
    if wire is not tensor:
        tensor.copy_(wire)
    return tensor
