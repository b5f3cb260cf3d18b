"""Views of a graph: its clusters' masses, its affinities as a picture, its embedding in a plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

BLOCKS = 400


def cluster_mass(A: Any, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """m_ic = sum of A_ij over the samples j != i of cluster c; A (N, N), m (N, K)."""
    n = len(labels)
    one_hot = sp.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, n_clusters))
    product = A @ one_hot
    mass = product.toarray() if sp.issparse(product) else np.array(product, np.float64)
    mass[np.arange(n), labels] -= A.diagonal()
    return np.maximum(mass, 0.0)  # the subtraction rounds


def block_means(A: Any, order: np.ndarray) -> np.ndarray:
    """A (N, N) with rows and columns in ``order``, reduced to the means of at most 400 x 400
    blocks of nearly equal size."""
    n = len(order)
    b = min(BLOCKS, n)
    block = np.empty(n, np.int64)
    block[order] = np.arange(n) * b // n
    if sp.issparse(A):
        coo = A.tocoo()
        flat = np.bincount(block[coo.row] * b + block[coo.col], weights=coo.data, minlength=b * b)
        sums = flat.reshape(b, b)
    else:
        indicator = sp.csr_array((np.ones(n), (block, np.arange(n))), shape=(b, n))
        sums = indicator @ (indicator @ A).T
    counts = np.bincount(block, minlength=b)
    return (sums / np.outer(counts, counts)).astype(np.float32)


def plane_view(vectors: np.ndarray, labels: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """A view (N, 2) of the spectral embedding (N, k) with the clusters around a circle.

    K clusters sit near the corners of a simplex in K dimensions, which no two principal
    components show. So the unit rows R (N, K) are given memberships B = R W by ridge regression
    of the clusters' indicators Y,

        min_W  sum_i |r_i W - y_i|^2 / size(label(i)) + eps |W|^2,

    and sample i lies at  sum_c b_ic a_c / sum_c b_ic  with places a_c on the unit circle, in an
    order that makes neighbors of clusters with much affinity. A sample between two clusters lies
    between their places, one without a row in the middle. Two clusters leave the second axis
    free: it shows the leading eigenvector, which grows with the degree.
    """
    n, K = mass.shape
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    R = vectors / np.where(norm > 0, norm, 1.0)
    angle = np.empty(K)
    angle[_circular_order(mass, labels)] = 2.0 * np.pi * np.arange(K) / K
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    weight = 1.0 / np.bincount(labels, minlength=K)[labels]
    G = R.T @ (R * weight[:, None])
    G[np.diag_indices_from(G)] += 1e-3 * np.trace(G) / len(G)
    indicator = sp.csr_array((weight, labels, np.arange(n + 1)), shape=(n, K))
    B = R @ np.linalg.solve(G, (indicator.T @ R).T)
    # unit rows have memberships of sum 1 to sqrt(K); the bound only holds for stray ones
    view = B @ places / np.maximum(B.sum(axis=1, keepdims=True), 0.5)
    if K == 2:
        first = vectors[:, 0]
        view[:, 1] = np.clip((first - first.mean()) / max(3.0 * first.std(), 1e-30), -1.0, 1.0)
    return view


def _circular_order(mass: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A tour of the clusters (K,) that always goes on to the one of largest mean affinity."""
    K = mass.shape[1]
    size = np.maximum(np.bincount(labels, minlength=K), 1)
    one_hot = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    between = np.zeros((K, K))
    between[: one_hot.shape[0]] = one_hot @ mass
    between /= np.outer(size, size)
    tour, left = [0], set(range(1, K))
    while left:
        tour.append(max(sorted(left), key=lambda c: between[tour[-1], c]))
        left.remove(tour[-1])
    return np.array(tour)
