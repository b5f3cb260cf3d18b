"""Where a number was measured: versions, machine, peak memory. Never host names or paths."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from dcfsc._version import __version__

_STATUS = Path("/proc/self/status")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "dcfsc": __version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn"):
        found[package] = importlib.metadata.version(package)
    return found


def machine(device: torch.device) -> dict[str, Any]:
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": available_cpus(),
        "threads": torch.get_num_threads(),
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def available_cpus() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class PeakMemory:
    """The peak of the memory that a block of code holds.

    On CUDA: the allocator's peak. On the CPU: the process's peak resident set, reset at the start
    of the block where the system allows it (Linux), so that one cell does not inherit another's.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.kind = "cuda_allocated" if device.type == "cuda" else "process_resident"

    def __enter__(self) -> PeakMemory:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            _reset_peak_resident()
        self.before = self._now()
        self.peak = self.before
        return self

    def __exit__(self, *exception: object) -> None:
        if self.device.type == "cuda":
            self.peak = int(torch.cuda.max_memory_allocated(self.device))
        else:
            # The system counts both roughly: a peak may read a little below what there was.
            self.peak = max(self.before, peak_resident())

    def _now(self) -> int:
        if self.device.type == "cuda":
            return int(torch.cuda.memory_allocated(self.device))
        return _status("VmRSS") or peak_resident()

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "peak_bytes": self.peak, "before_bytes": self.before}


def peak_resident() -> int:
    """Bytes; of the process's life where it cannot be reset, 0 where the system tells nothing."""
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource  # not on every system
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _reset_peak_resident() -> None:
    # Where that is not allowed, the peak is that of the process's life: an upper bound.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _status(field: str) -> int | None:
    try:
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None
