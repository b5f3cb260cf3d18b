"""How the network computes; the self-expressive layer always stays accurate."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError, unknown_name

PRECISIONS = ("float32", "bfloat16")


def check_precision(precision: str, device: torch.device) -> None:
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    if precision == "bfloat16" and device.type != "cuda":
        raise InputError(
            f"precision 'bfloat16' is for CUDA devices; on {device.type} it would be slower. "
            "Use 'float32'."
        )


def check_compilable(device: torch.device, batch_size: int | None) -> None:
    if device.type != "cuda":
        raise InputError(f"compile=True is for CUDA devices; this is {device.type}.")
    if batch_size is not None or processes.active():
        raise InputError("compile=True needs all samples at once; leave batch_size at None.")


class Compiled:
    """A network's encoder and decoder with kernels of PyTorch's compiler; the network stays."""

    def __init__(self, network: Any):
        self.encoder = torch.compile(network.encoder)
        self.decoder = torch.compile(network.decoder)


def network_context(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Convolutions and matrix products of the network in bfloat16, or as they are."""
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    return nullcontext()


def convolutions(fastest: bool) -> AbstractContextManager[Any]:
    """Let cuDNN try its algorithms and take the fastest, or take only repeatable ones."""
    return torch.backends.cudnn.flags(
        enabled=True,
        benchmark=fastest,
        deterministic=not fastest,
        allow_tf32=torch.backends.cudnn.allow_tf32,
    )


def prepare(network: Any, X: Tensor) -> Tensor:
    """Lay images and weights out with the channels last where that is the faster order."""
    if X.is_cuda and X.ndim == 4:
        network.to(memory_format=torch.channels_last)
        return X.contiguous(memory_format=torch.channels_last)
    return X
