"""Seconds by stage and memory of the default on many unequal subspaces, only K given.

The problem is K = 100 subspaces of dimension 4 to 12 with a noise of 0.3: the largest has three
times as many samples as the smallest, and the samples come in random order. Each size runs in a
process of its own. On a GPU a small problem runs first, so that no kernel is built inside the
times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from dcfsc import ClosedFormSubspaceClustering, spectral
from dcfsc.affinity import TopK
from dcfsc.estimators import base, closed_form
from dcfsc.metrics import clustering_error
from research.alone import alone
from research.machine import PeakMemory

from .generated_problems import Samples, unions
from .measure import Figures, Rows, benchmark
from .scale import Stages

K, LEAST, MOST, NOISE = 100, 4, 12, 0.3
STAGES = {
    "choice": (closed_form, "select"),
    "graph": (base, "graph_of"),
    "eigenvectors": (spectral, "embed"),
    "assignment": (spectral, "assign"),
    "confidence": (spectral, "memberships"),
}


def unequal_subspaces(n: int, dimension: int = 64, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.5, 1.5, K)
    sizes = np.floor(n * share / share.sum()).astype(int)
    sizes[: n - sizes.sum()] += 1
    X, y = unions(seed, sizes.tolist(), rng.integers(LEAST, MOST + 1, K).tolist(), dimension, NOISE)
    order = rng.permutation(n)
    return X[order], y[order]


@benchmark
def unequal(
    device: str = "cpu",
    sizes: tuple[int, ...] = (30_000, 60_000),
    dimension: int = 64,
    search: str = "exact",
) -> Rows:
    """The default on K = 100 unequal subspaces: seconds by stage, error, peak memory."""
    for n in sizes:
        row = alone(unequal_at, n, device, dimension, search)
        print(n, dimension, row, file=sys.stderr, flush=True)
        yield f"{n} x {dimension}", row


def unequal_at(n: int, device: str, dimension: int, search: str) -> Figures:
    if device.startswith("cuda"):
        fit_in_stages(unequal_subspaces(60_000, dimension)[0], device, search)
    X, y = unequal_subspaces(n, dimension)
    with PeakMemory(torch.device(device)) as memory:
        model, stages = fit_in_stages(X, device, search)
    embedding = model._partition.embedding
    assert embedding is not None
    return {
        "N": n,
        "d": dimension,
        "seconds": stages.pop("fit"),
        "stages": stages,
        "error_percent": clustering_error(y, model.labels_),
        "confidence": float(model.confidence_.mean()),
        "representation": model.representation_,
        "edges": int(model.affinity_matrix_.nnz),
        "solver": embedding.solver,
        "residual": embedding.residual,
        "memory": memory.record(),
        "data_bytes": X.nbytes,
    }


def fit_in_stages(
    X: np.ndarray, device: str, search: str = "exact"
) -> tuple[ClosedFormSubspaceClustering, dict[str, float]]:
    """The fitted default, and the seconds of the whole and of its stages."""
    stages = Stages()
    affinity: Any = "topk" if search == "exact" else TopK(search="approximate")
    model = ClosedFormSubspaceClustering(K, affinity=affinity, device=device, random_state=0)
    with ExitStack() as patches:
        for name, (module, function) in STAGES.items():
            measured = _measured(stages, name, getattr(module, function))
            patches.enter_context(patch.object(module, function, measured))
        stages("fit", lambda: model.fit(X))
    return model, dict(stages)


def _measured(stages: Stages, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *words, **named: stages(name, lambda: function(*words, **named))
