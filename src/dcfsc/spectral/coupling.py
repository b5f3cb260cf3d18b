"""How closely clusters hang together: each cut in two, and the affinity between any two."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from dcfsc.spectral.assignment import grouped_rows
from dcfsc.spectral.embedding import Embedding
from dcfsc.spectral.kmeans import kmeans

STARTS = 5


def halves(
    embedding: Embedding, labels: np.ndarray, n_clusters: int, assign: str = "kmeans"
) -> np.ndarray:
    """For each point (N,) whether it lies in the second (1) of the two parts of its cluster, or 0.

    The parts are those of k-means on the cluster's rows of the embedding; a cluster whose rows
    are all the same has one. The first part is the larger one.
    """
    rows = grouped_rows(embedding, n_clusters, assign)
    half = np.zeros(len(labels), np.uint8)
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=n_clusters))
    for members in np.split(order, ends[:-1]):
        if len(members) > 2:
            own = rows[torch.from_numpy(members)]
            part = kmeans(own, 2, np.random.RandomState(0), STARTS)
            half[members] = part if 2 * part.sum() <= len(part) else 1 - part
    return half


def coupling(A: Any, labels: np.ndarray, half: np.ndarray, n_clusters: int) -> np.ndarray:
    """The coupling (K, K) of any two clusters and, on the diagonal, of the two parts of each.

    With W_ab the sum of the affinities A_ij (i != j) between groups a and b, the coupling is

        W_ab / min(W_aa + W_ab, W_bb + W_ab)    in 0..1,

    the share that the group with less affinity gives to the other one. A cluster of one part has
    nothing to cut: its coupling is 1.
    """
    n = len(labels)
    group = 2 * labels + half
    member = sp.csr_array((np.ones(n), group, np.arange(n + 1)), shape=(n, 2 * n_clusters))
    W = member.T @ (A @ member)
    W = W.toarray() if sp.issparse(W) else np.asarray(W)
    W[np.diag_indices_from(W)] -= np.bincount(group, A.diagonal(), minlength=2 * n_clusters)
    within = W.reshape(n_clusters, 2, n_clusters, 2)
    between = within.sum(axis=(1, 3))
    own = np.diag(between)
    found = _share(between, own[:, None], own[None, :])
    parts = np.arange(n_clusters)
    first, second = within[parts, 0, parts, 0], within[parts, 1, parts, 1]
    whole = np.bincount(labels[half == 1], minlength=n_clusters) == 0
    found[parts, parts] = np.where(whole, 1.0, _share(within[parts, 0, parts, 1], first, second))
    return found.astype(np.float32)


def cut_share(A: Any, labels: np.ndarray) -> float:
    """The share of the affinity A (N, N) that lies between clusters; a sample's own is left out."""
    A = sp.coo_array(A)
    others = A.row != A.col
    between = others & (labels[A.row] != labels[A.col])
    return float(A.data[between].sum() / max(A.data[others].sum(), np.finfo(float).tiny))


def _share(between: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    less = np.minimum(first, second) + between
    return between / np.where(less > 0, less, 1.0)
