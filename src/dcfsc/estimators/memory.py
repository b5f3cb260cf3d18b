"""Refuse before the work, not after: does a method's N x N memory fit?"""

from __future__ import annotations

import torch

from dcfsc.datasets.streamed import free_memory
from dcfsc.errors import InputError


def available_bytes(device: torch.device) -> int:
    """Free memory of the device, as the driver or the operating system tells it."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_memory()


def require_memory(needed: int, n: int, method: str, device: torch.device, instead: str) -> None:
    available = available_bytes(device)
    if needed > available:
        raise InputError(
            f"{method} on N={n} samples needs about {needed / 2**30:.1f} GiB, but {device} has "
            f"{available / 2**30:.1f} GiB free; use {instead}, or fewer samples."
        )
