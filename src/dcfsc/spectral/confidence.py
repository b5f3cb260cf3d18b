"""How sure a partition is of each point: probabilities of the clusters, from the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.spectral.assignment import grouped_rows
from dcfsc.spectral.descent import Partitions
from dcfsc.spectral.embedding import Embedding

KEPT = 4  # clusters that are remembered of a point
SAMPLE = 20_000  # points that the sharpness is chosen on
LOG_SHARPNESS = (-3.0, 6.0)  # powers of ten: from "all clusters alike" to "the nearest one alone"
HALVINGS = 40
CHUNK = 1 << 22  # numbers held at a time


@dataclass(frozen=True)
class Memberships:
    """The likeliest clusters of N points.

    ``clusters`` (N, m) has the point's own cluster first and then the likeliest others, the
    likeliest first; ``probabilities`` (N, m) belong to them. m is ``KEPT``, or K if that is fewer:
    what is missing to a sum of 1 lies in the other clusters.
    """

    clusters: np.ndarray
    probabilities: np.ndarray
    n_clusters: int

    @property
    def confidence(self) -> np.ndarray:
        """The probability (N,) of each point's own cluster."""
        return self.probabilities[:, 0]

    @property
    def next_best(self) -> np.ndarray:
        """The likeliest other cluster (N,) of each point; -1 where there is no other."""
        if self.n_clusters == 1:
            return np.full(len(self.clusters), -1, np.int32)
        return self.clusters[:, 1]


def memberships(
    embedding: Embedding,
    labels: np.ndarray,
    n_clusters: int,
    A: Any,
    assign: str = "kmeans",
    rows: Tensor | None = None,
) -> Memberships:
    """Probabilities of the clusters for the points of an affinity A (N, N) that was cut.

        p_ic = exp(-b |r_i - m_c|^2) / sum_c' exp(-b |r_i - m_c'|^2)

    r_i is the row of the embedding that the assignment ``assign`` grouped, at unit length (``rows``
    if they are known), and m_c the mean of the rows of cluster c. The embedding says who is in
    doubt, and the affinity how much doubt there is on the whole: the sharpness b is the one at
    which the mean probability of a point's own cluster is the mean share of its affinity that lies
    in that cluster,

        mean_i p_{i, label(i)} = mean_i  sum_{j: label(j) = label(i)} A_ij / sum_j A_ij   (j != i).

    Points set aside by the embedding carry no evidence: every cluster is as likely for them.
    Memory N m beside the rows, which are read some at a time where they are, and no N x N matrix
    beside A.
    """
    rows = grouped_rows(embedding, n_clusters, assign) if rows is None else rows
    own = torch.from_numpy(labels).to(rows.device)
    partition = Partitions.of(rows[None], own[None], n_clusters)
    means, size = partition.centers[0], partition.counts[0]
    evident = np.flatnonzero(~embedding.set_aside)
    if not len(evident):
        evident = np.arange(len(labels))
    few = evident[np.unique(np.linspace(0, len(evident) - 1, SAMPLE).astype(np.int64))]
    at = torch.from_numpy(few).to(rows.device)
    nearness = _nearness(rows[at], means, size)
    b = _sharpness(nearness, own[at], _share_in_own(A, labels, n_clusters, few))
    kept = min(KEPT, n_clusters)
    clusters = np.empty((len(labels), kept), np.int32)
    probabilities = np.empty((len(labels), kept), np.float32)
    aside = torch.from_numpy(embedding.set_aside).to(rows.device)
    step = max(1, CHUNK // n_clusters)
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        p = _probabilities(_nearness(rows[part], means, size), b)
        p[aside[part]] = 1.0 / n_clusters
        likeliest = _likeliest(p, own[part], kept)
        clusters[part], probabilities[part] = (found.cpu().numpy() for found in likeliest)
    return Memberships(clusters, probabilities, n_clusters)


def certain(labels: np.ndarray, n_clusters: int) -> Memberships:
    """The memberships of points whose clusters are beyond doubt."""
    kept = min(KEPT, n_clusters)
    clusters = (labels[:, None] + np.arange(kept)) % n_clusters
    probabilities = np.zeros(clusters.shape, np.float32)
    probabilities[:, 0] = 1.0
    return Memberships(clusters.astype(np.int32), probabilities, n_clusters)


def _nearness(rows: Tensor, means: Tensor, size: Tensor) -> Tensor:
    """|r_i|^2 - |r_i - m_c|^2, (n, K); minus infinity for a cluster without points."""
    near = torch.addmm(-means.square().sum(1), rows.double(), means.T, alpha=2.0)
    return near.masked_fill_(size == 0, -torch.inf)


def _probabilities(nearness: Tensor, b: float) -> Tensor:
    return torch.softmax((nearness - nearness.amax(1, keepdim=True)).mul_(b), dim=1)


def _sharpness(nearness: Tensor, labels: Tensor, share: float) -> float:
    """The b at which the mean probability of a point's own cluster is ``share``, by halving."""
    low, high = LOG_SHARPNESS
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        p = _probabilities(nearness, 10.0**middle).gather(1, labels[:, None])
        low, high = (middle, high) if float(p.mean()) < share else (low, middle)
    return 10.0**high


def _share_in_own(A: Any, labels: np.ndarray, n_clusters: int, points: np.ndarray) -> float:
    """The mean share of the affinity of ``points`` that lies in their own clusters."""
    n = len(labels)
    one_hot = sp.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, n_clusters))
    shares, diagonal = [], A.diagonal()
    step = max(1, CHUNK // (n_clusters if sp.issparse(A) else n))
    for start in range(0, len(points), step):
        part = points[start : start + step]
        mass = A[part] @ one_hot
        mass = mass.toarray() if sp.issparse(mass) else np.asarray(mass)
        mass[np.arange(len(part)), labels[part]] -= diagonal[part]
        total = mass.sum(axis=1)
        linked = total > 0
        shares.append(mass[np.arange(len(part)), labels[part]] / np.where(linked, total, 1.0))
    return float(np.concatenate(shares).mean())


def _likeliest(p: Tensor, labels: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """The own cluster and the likeliest others, (n, kept), and their probabilities."""
    order, rank = labels[:, None], p.clone()
    while order.shape[1] < kept:
        rank.scatter_(1, order[:, -1:], -1.0)
        order = torch.cat([order, rank.argmax(1, keepdim=True)], dim=1)
    return order, p.gather(1, order)
