"""Spectral clustering in one call: affinity -> embedding -> labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from dcfsc.errors import InputError
from dcfsc.graphs.graph import Affinity
from dcfsc.spectral.assignment import assign as assign_labels
from dcfsc.spectral.embedding import Embedding, Seed, embed, random_from


@dataclass(frozen=True)
class SpectralResult:
    """``labels`` (N,) int64 and the `Embedding` that they were read from."""

    labels: np.ndarray
    embedding: Embedding


def cluster(
    affinity: Affinity,
    n_clusters: int,
    *,
    assign: str = "kmeans",
    n_components: int | None = None,
    rows: str = "auto",
    solver: str = "auto",
    regularization: float | Literal["auto"] = "auto",
    random_state: Seed = None,
    n_init: int = 10,
    n_restarts: int = 1,
    tol: float | Literal["auto"] = "auto",
    device: str | torch.device | None = None,
) -> SpectralResult:
    """Partition the points of ``affinity`` (N x N) into ``n_clusters`` clusters.

    The embedding has ``n_components`` eigenvectors, ``n_clusters`` unless given, and twice as many
    for the assignment "filtered" (more help only these and k-means). The other parameters are those
    of `embed` and, with ``assign`` naming the method, of `assign`. One seed drives both steps.
    """
    if not isinstance(n_clusters, int | np.integer) or isinstance(n_clusters, bool):
        raise InputError(f"n_clusters is {n_clusters!r}; give an integer.")
    random = random_from(random_state)
    if n_components is None:
        points = np.shape(affinity)[:1]  # none where it is no matrix, which `embed` tells
        n_components = default_components(assign, int(n_clusters), *points)
    embedding = embed(
        affinity,
        n_components,
        n_clusters=int(n_clusters),
        solver=solver,
        regularization=regularization,
        random_state=random,
        tol=tol,
        device=device,
    )
    labels = assign_labels(
        embedding,
        int(n_clusters),
        method=assign,
        rows=rows,
        random_state=random,
        n_init=n_init,
        n_restarts=n_restarts,
        device=device,
    )
    return SpectralResult(labels, embedding)


def default_components(assign: str, n_clusters: int, n: int = 0) -> int:
    """How many eigenvectors of n points an assignment looks at."""
    return max(n_clusters, min(2 * n_clusters, n)) if assign == "filtered" else n_clusters
