"""What is known before the fit: labels of some samples, pairs that belong together or apart."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from dcfsc.errors import InputError
from dcfsc.graphs import Graph, read_affinity
from dcfsc.spectral import Memberships

# Links that a sample gets to others known to be in its cluster. A ring and its chords connect a
# cluster with a number of links that is linear in its known samples.
LINKS = 10
# Known samples from which their mean is a better first center than that of the cluster found.
SEEDS = 3
ROUNDS = 100  # of Lloyd's algorithm at most; it stops by itself
CHUNK = 1 << 22  # distances held at a time


@dataclass(frozen=True, eq=False)
class Known:
    """Labels, and groups and pairs of N samples that a partition must respect.

    ``labels`` (N,) is the cluster of a sample or -1; ``groups`` (N,) numbers sets of samples that
    belong together; ``apart`` (m, 2) are pairs of groups that do not.
    """

    labels: np.ndarray
    groups: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(
        cls, n: int, n_clusters: int, known_labels: Any, must_link: Any, cannot_link: Any
    ) -> Known | None:
        """Check what a user says of n samples; None if that is nothing.

        Samples with one label are a group, and what is known of one sample of a group holds for
        all of it.
        """
        if known_labels is None and must_link is None and cannot_link is None:
            return None
        labels = _labels(n, n_clusters, known_labels)
        together, apart = _pairs(n, "must_link", must_link), _pairs(n, "cannot_link", cannot_link)
        first = np.arange(n)  # the first sample with the same label
        _, place, which = np.unique(labels, return_index=True, return_inverse=True)
        first[labels >= 0] = place[which][labels >= 0]
        rows = np.concatenate([np.arange(n), together[:, 0]])
        columns = np.concatenate([first, together[:, 1]])
        links = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
        _, groups = connected_components(links, directed=False)
        of_group = np.full(groups.max() + 1, -1)
        of_group[groups[labels >= 0]] = labels[labels >= 0]
        clash = np.flatnonzero((labels >= 0) & (of_group[groups] != labels))
        if len(clash):
            row = int(clash[0])
            raise InputError(
                f"must_link joins row {row}, whose known label is {labels[row]}, to a row whose "
                f"known label is {of_group[groups[row]]} (rows counted from 0)."
            )
        same = np.flatnonzero(groups[apart[:, 0]] == groups[apart[:, 1]])
        if len(same):
            i, j = apart[same[0]]
            raise InputError(
                f"cannot_link keeps rows {i} and {j} apart (counted from 0), which known_labels or "
                "must_link put into one cluster."
            )
        return cls(of_group[groups], groups, np.unique(np.sort(groups[apart], axis=1), axis=0))

    def reordered(self, order: np.ndarray) -> Known:
        """The same of the samples in another order."""
        return Known(self.labels[order], self.groups[order], self.apart)

    def linked(self, graph: Graph, rng: np.random.RandomState) -> Graph:
        """The graph with links inside what belongs together and none inside what does not.

        The links of a sample weigh as much as all its others do, so that neither decides alone.
        """
        A = graph.on_host
        degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
        dense = not sp.issparse(A)
        edges = sp.coo_array(A)
        i, j = edges.coords
        held = ~self._apart(i, j)
        i, j, weights = i[held], j[held], edges.data[held]
        p, q = self._ring(rng)
        count = np.maximum(np.bincount(np.concatenate([p, q]), minlength=graph.n), 1)
        new = np.sqrt(degrees[p] * degrees[q] / (count[p] * count[q])).astype(weights.dtype)
        place = np.concatenate([i, p, q]), np.concatenate([j, q, p])
        matrix = sp.coo_array((np.concatenate([weights, new, new]), place), shape=A.shape).tocsr()
        return read_affinity(matrix.toarray() if dense else matrix, graph.device)

    def settled(self, labels: np.ndarray, rows: np.ndarray, n_clusters: int) -> np.ndarray:
        """Labels (N,) that respect what is known, from those found without it.

        Lloyd's algorithm on the ``rows`` (N, k) of the embedding, with known samples held in their
        clusters (Basu, Banerjee and Mooney 2002). A cluster starts at the mean of its known
        samples if there are a few, else at that of the cluster that was found.
        """
        K, given = n_clusters, self.labels >= 0
        labels = _aligned(labels, self.labels, K)
        labels[given] = self.labels[given]
        centers = _means(rows, labels, K)
        seeds = np.bincount(self.labels[given], minlength=K) >= SEEDS
        if seeds.any():
            seeded = given & seeds[self.labels]
            centers[seeds] = _means(rows[seeded], self.labels[seeded], K)[seeds]
        for _ in range(ROUNDS):
            moved = self._nearest(rows, centers)
            if np.array_equal(moved, labels):
                break
            labels = moved
            present = np.bincount(labels, minlength=K) > 0
            centers[present] = _means(rows, labels, K)[present]
        return self._separated(labels, rows, centers)

    def certain(self, sure: Memberships) -> Memberships:
        """Memberships in which known labels are beyond doubt."""
        probabilities = sure.probabilities.copy()
        probabilities[self.labels >= 0] = np.eye(1, probabilities.shape[1])[0]
        return Memberships(sure.clusters, probabilities, sure.n_clusters)

    def numbers(self, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """The number (K,) of each cluster that makes ``labels`` (N,) the known ones."""
        number, given = np.full(n_clusters, -1), self.labels >= 0
        number[labels[given]] = self.labels[given]
        number[number < 0] = np.setdiff1d(np.arange(n_clusters), self.labels[given])
        return number

    def _apart(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Whether the pairs of samples i, j are known to be in different clusters."""
        one, other = self.labels[i], self.labels[j]
        different = (one >= 0) & (other >= 0) & (one != other)
        if not len(self.apart):
            return different
        low, high = np.sort([self.groups[i], self.groups[j]], axis=0).astype(np.int64)
        size = int(self.groups.max()) + 1
        return different | np.isin(low * size + high, self.apart[:, 0] * size + self.apart[:, 1])

    def _ring(self, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Distinct pairs that link each sample of a group to at most ``LINKS`` others of it."""
        order = np.lexsort((rng.random_sample(len(self.groups)), self.groups))
        size = np.bincount(self.groups)
        start, size = np.cumsum(size) - size, size[self.groups[order]]
        start = start[self.groups[order]]
        place = np.arange(len(order)) - start
        pairs = [np.empty((0, 2), np.int64)]
        for step in range(1, LINKS // 2 + 1):
            far = size >= 2 * step
            ends = order[start + (place + step) % size]
            pairs.append(np.sort(np.stack([order, ends], axis=1)[far], axis=1))
        p, q = np.unique(np.concatenate(pairs), axis=0).T
        return p, q

    def _nearest(self, rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """The nearest center (N,) of each group, or the known one."""
        nearest = np.empty(len(rows), np.int64)
        step = max(1, CHUNK // len(centers))
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            nearest[part] = _distances(rows[part], centers).argmin(axis=1)
        several = np.bincount(self.groups)[self.groups] > 1
        if several.any():
            nearest[several] = self._costs(rows, centers, several).argmin(axis=1)
        given = self.labels >= 0
        nearest[given] = self.labels[given]
        return nearest

    def _costs(self, rows: np.ndarray, centers: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """The distance of the group of each of the ``samples``, on average, from every center."""
        _, group = np.unique(self.groups[samples], return_inverse=True)
        return _distances(_means(rows[samples], group, int(group.max()) + 1), centers)[group]

    def _separated(self, labels: np.ndarray, rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """Labels in which groups that must be apart are; the one that is easier to move goes."""
        K, left = len(centers), 0
        of_group = np.empty(int(self.groups.max()) + 1, np.int64)
        of_group[self.groups] = labels
        fixed = np.zeros(len(of_group), bool)
        fixed[self.groups[self.labels >= 0]] = True
        for pair in self.apart:
            if of_group[pair[0]] != of_group[pair[1]]:
                continue
            options = []
            for group in pair[~fixed[pair]]:
                cost = self._costs(rows, centers, self.groups == group)[0]
                cost = cost - cost[of_group[group]]
                enemies = self.apart[(self.apart == group).any(axis=1)]
                cost[of_group[enemies[enemies != group]]] = np.inf
                options.append((cost.min(), int(group), int(cost.argmin())))
            best = min(options, default=(np.inf, 0, 0))
            if np.isfinite(best[0]):
                of_group[best[1]] = best[2]
            else:
                left += 1
        if left:
            warnings.warn(
                f"{left} pairs of cannot_link are in one cluster: {K} clusters leave no other "
                "place for them.",
                UserWarning,
                stacklevel=2,
            )
        return of_group[self.groups]


def _labels(n: int, n_clusters: int, given: Any) -> np.ndarray:
    if given is None:
        return np.full(n, -1)
    labels = np.asarray(given)
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"known_labels must be {n} integers, one per sample, -1 where the label is not known; "
            f"got {labels.dtype} of shape {labels.shape}."
        )
    wrong = np.flatnonzero((labels < -1) | (labels >= n_clusters))
    if len(wrong):
        raise InputError(
            f"known_labels has {labels[wrong[0]]} in row {wrong[0]} (counted from 0); give 0 to "
            f"{n_clusters - 1} for {n_clusters} clusters, or -1 where the label is not known."
        )
    return labels.astype(np.int64)


def _pairs(n: int, name: str, given: Any) -> np.ndarray:
    pairs = np.asarray([] if given is None else given)
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be pairs of rows, (m, 2) integers; got {pairs.dtype} of shape "
            f"{pairs.shape}."
        )
    if pairs.min() < 0 or pairs.max() >= n:
        row = pairs[(pairs < 0) | (pairs >= n)][0]
        raise InputError(f"{name} names row {row}; the {n} samples are rows 0 to {n - 1}.")
    return pairs.astype(np.int64)


def _aligned(labels: np.ndarray, known: np.ndarray, n_clusters: int) -> np.ndarray:
    """The clusters by the numbers of the known labels that most of their samples have."""
    shared = np.zeros((n_clusters, n_clusters))
    np.add.at(shared, (labels[known >= 0], known[known >= 0]), 1)
    number = np.empty(n_clusters, np.int64)
    clusters, names = linear_sum_assignment(-shared)
    number[clusters] = names
    return number[labels]


def _means(rows: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """The mean row (n_clusters, k) of each cluster; zero for an empty one."""
    size = np.bincount(labels, minlength=n_clusters)
    one_hot = sp.csr_array(
        (np.ones(len(labels)), labels, np.arange(len(labels) + 1)), shape=(len(labels), n_clusters)
    )
    return (one_hot.T @ rows) / np.maximum(size, 1)[:, None]


def _distances(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """|r - c|^2 - |r|^2 of rows (n, k) and centers (K, k)."""
    return np.einsum("ij,ij->i", centers, centers) - 2.0 * rows @ centers.T
