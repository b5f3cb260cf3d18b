"""Devices, free memory, versions: the only file that asks the machine.

Nothing here names a host or a path, so that every answer may go into a record.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from dcfsc._version import __version__
from dcfsc.errors import InputError, unknown_name

if TYPE_CHECKING:
    import torch

_starting = Lock()  # while what PyTorch gives new threads is changed

Item = TypeVar("Item")
Result = TypeVar("Result")


def resolve_device(device: Any) -> torch.device:
    """Return the ``torch.device`` of a name; "auto" is the GPU where there is one, else the CPU."""
    import torch

    if isinstance(device, str):
        if device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if not re.fullmatch(r"cpu|meta|mps|cuda(:\d+)?", device):
            raise unknown_name("device", device, ("auto", "cpu", "cuda", "cuda:0"))
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"unknown device {device!r}; use 'auto', 'cpu' or 'cuda[:index]'."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"device {device!r} was asked for, but PyTorch finds no CUDA device on this machine."
        )
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {device!r} was asked for, but the last one on this machine is "
            f"'cuda:{torch.cuda.device_count() - 1}'."
        )
    return resolved


def free_memory(device: torch.device | None = None) -> int:
    """Bytes that can be had on the device, or on the host without swapping."""
    if device is not None and device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62  # unknown: assume enough


def require_memory(needed: int, n: int, method: str, device: torch.device, instead: str) -> None:
    """Refuse before the work, not after: does a method's N x N memory fit?"""
    available = free_memory(device)
    if needed > available:
        raise InputError(
            f"{method} on N={n} samples needs about {needed / 2**30:.1f} GiB, but {device} has "
            f"{available / 2**30:.1f} GiB free; use {instead}, or fewer samples."
        )


def versions() -> dict[str, str]:
    installed = {"python": platform.python_version(), "dcfsc": __version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn"):
        installed[package] = importlib.metadata.version(package)
    return installed


def machine(device: Any) -> dict[str, Any]:
    """The device that does the work, and the cores beside it, for a record."""
    import torch

    resolved = resolve_device(device)
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": available_cpus(),
        "threads": torch.get_num_threads(),
        "device": str(resolved),
        "gpu": torch.cuda.get_device_name(resolved) if resolved.type == "cuda" else None,
    }


def available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_a_core(
    work: Callable[[Item], Result], items: Iterable[Item], device: torch.device
) -> list[Result]:
    """``[work(item) for item in items]``, on the CPU with as many at a time as PyTorch has threads.

    Each has one thread. Small tensors gain nothing by more, and the results do not depend on their
    number. On another device one item follows the other.
    """
    import torch

    items, pool = list(items), None
    with _starting:
        threads = torch.get_num_threads()
        if threads > 1 and device.type == "cpu" and items:
            pool, all_here = ThreadPoolExecutor(len(items[:threads])), Barrier(len(items[:threads]))

            def begin() -> None:
                torch.get_num_threads()  # a thread's own number begins as that of all
                torch.set_num_threads(1)  # its own, and that of threads that start just now
                all_here.wait()

            try:
                for begun in [pool.submit(begin) for _ in items[:threads]]:
                    begun.result()
            finally:
                all_here.abort()
                torch.set_num_threads(threads)
    if pool is None:
        return [work(item) for item in items]
    with pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        try:
            return [future.result() for future in waiting]
        finally:
            for future in waiting:
                future.cancel()  # after an error or Ctrl-C: those that did not begin
