"""Random samples for tests, one a row, a term of a loss, and an affinity cut in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dcfsc import spectral
from dcfsc.training import Pass


def normal(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    """The same, of unit length."""
    return torch.nn.functional.normalize(normal(n, d, seed))


@dataclass(frozen=True)
class SelfExpressionTerm:
    """weight / 2 |Z - B Z|_F^2, to be added to equation 1."""

    weight: float = 1.0
    name: str = "self_expression"

    def __call__(self, state: Pass) -> torch.Tensor:
        return 0.5 * self.weight * (state.latent - state.expressed).square().sum()


@dataclass(frozen=True)
class Cut:
    """Labels (N,), and the embedding that they were read from."""

    labels: np.ndarray
    embedding: spectral.Embedding


def cut_affinity(
    A: Any,
    n_clusters: int,
    *,
    assign: str = "kmeans",
    n_components: int | None = None,
    random_state: Any = None,
    device: str | None = None,
    **options: Any,
) -> Cut:
    """The points of an affinity A (N, N) in clusters; one seed drives both steps.

    The options are those of `spectral.embed` and `spectral.assign`.
    """
    random = spectral.embedding.random_from(random_state)
    of_embed = {k: options.pop(k) for k in ("solver", "regularization", "tol") if k in options}
    count = n_components or spectral.default_components(assign, n_clusters, np.shape(A)[0])
    embedding = spectral.embed(
        A, count, n_clusters=n_clusters, random_state=random, device=device, **of_embed
    )
    labels = spectral.assign(
        embedding, n_clusters, method=assign, random_state=random, device=device, **options
    )
    return Cut(labels, embedding)
