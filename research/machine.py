"""What a record says of the code and the machine beside what dcfsc itself records."""

from __future__ import annotations

import contextlib
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dcfsc
from dcfsc import machine

if TYPE_CHECKING:
    import torch

PACKAGE = Path(dcfsc.__file__)
_STATUS = Path("/proc/self/status")


def versions() -> dict[str, str]:
    """Of Python, dcfsc, its commit where it is known, and the packages below it."""
    found = machine.versions()
    known = commit()
    mine = {"python": found.pop("python"), "dcfsc": found.pop("dcfsc")}
    return mine | ({"commit": known} if known else {}) | found


@cache
def commit() -> str | None:
    """The commit of the checkout that dcfsc is in, "-dirty" if the package differs from it.

    A copy without a history names it in the environment variable DCFSC_COMMIT.
    """
    if named := os.environ.get("DCFSC_COMMIT"):
        return named
    tracked = _git("ls-files", "--error-unmatch", PACKAGE.name)  # not a user's own history
    head = tracked and _git("rev-parse", "HEAD")
    return f"{head}-dirty" if head and _git("status", "--porcelain", ".") else head


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


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
            import torch

            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            self.before = int(torch.cuda.memory_allocated(self.device))
        else:
            # Where that is not allowed, the peak is that of the process's life: an upper bound.
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            self.before = _status("VmRSS")
        self.peak = self.before
        return self

    def __exit__(self, *exception: object) -> None:
        if self.device.type == "cuda":
            import torch

            self.peak = int(torch.cuda.max_memory_allocated(self.device))
        else:
            # The system counts both roughly: a peak may read a little below what there was.
            self.peak = max(self.before, peak_resident())

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "peak_bytes": self.peak, "before_bytes": self.before}


def peak_resident() -> int:
    return _status("VmHWM")


def _status(field: str) -> int:
    """Bytes that Linux tells of the process; 0 elsewhere."""
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith(f"{field}:")), 0)
