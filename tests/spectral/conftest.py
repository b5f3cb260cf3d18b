"""Graphs with known clusters."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

Planted = tuple[sp.csr_array, np.ndarray]


@pytest.fixture
def blocks() -> Callable[..., Planted]:
    """Disconnected dense blocks of random positive weights, points shuffled."""

    def build(sizes: list[int], seed: int = 0) -> Planted:
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        A = rng.uniform(0.5, 1.0, (len(y), len(y))) * (y[:, None] == y[None, :])
        return sp.csr_array(A + A.T), y

    return build


@pytest.fixture
def ring_of_clusters() -> Callable[..., Planted]:
    """Clusters of random neighbors; a share of edges goes to the next cluster on a ring or,
    half of it, anywhere. ``strays`` adds cliques of 2-5 points with the mean degree (y = -1)."""

    def build(n: int, K: int, noise: float = 0.1, strays: int = 0, seed: int = 0) -> Planted:
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(n) % K)
        members = [np.flatnonzero(y == c) for c in range(K)]
        rows = np.repeat(np.arange(n), 5)
        goal = (y[rows] + (rng.random(len(rows)) < noise / 2)) % K
        pick = (rng.random(len(rows)) * np.array([len(m) for m in members])[goal]).astype(int)
        columns = np.array([members[c][i] for c, i in zip(goal, pick, strict=True)])
        anywhere = rng.random(len(rows)) < noise / 2
        columns[anywhere] = rng.integers(0, n, anywhere.sum())
        weights = rng.uniform(0.5, 1.0, len(rows))
        for _ in range(strays):
            size = int(rng.integers(2, 6))
            i, j = np.triu_indices(size, 1)
            rows, columns = np.append(rows, i + len(y)), np.append(columns, j + len(y))
            weights = np.append(weights, np.full(len(i), 7.5 / (size - 1)))
            y = np.append(y, np.full(size, -1))
        A = sp.csr_array((weights, (rows, columns)), shape=(len(y), len(y)))
        return sp.csr_array(A + A.T), y

    return build
