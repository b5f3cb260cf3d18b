"""How long a training takes, before it begins."""

from __future__ import annotations

import time

import torch

from dcfsc.networks import ViewNetwork
from dcfsc.training.chunked import Inputs

from .loop import Schedule
from .model import ViewSpec

PROBED = 8  # samples whose gradient is timed


def training_seconds(X: Inputs, spec: ViewSpec, schedule: Schedule) -> float:
    """Seconds of a training on samples like X, from the gradient of a few of them; roughly."""
    network, x = ViewNetwork(spec).to(X.device), X[:PROBED]
    best = float("inf")
    for _ in range(2):  # the first one also prepares the kernels
        begin = time.perf_counter()
        torch.stack([part.float().square().mean() for part in network(x)]).sum().backward()
        best = min(best, time.perf_counter() - begin)
    views = schedule.steps * schedule.views * min(schedule.batch_size, len(X))
    return best / len(x) * views
