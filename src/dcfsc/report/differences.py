"""What sets clusters apart, column by column: differences of means, and the variance explained.

With the mean m of a column over all n samples, its standard deviation s, and the mean m_k of the
n_k samples of cluster k, the standardized difference of the cluster is

    d_k = (m_k - (mean of the other samples)) / s

and the share of the column's variance that the clusters explain is eta squared,

    sum_k n_k (m_k - m)^2 / (n s^2).

There are no p-values: the clusters were made from the same columns, so a test of no difference
would reject it whether or not there are clusters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ALL_COLUMNS = 1_000  # up to which all are kept; of wider tables the strongest of each cluster
STRONGEST = 100
MOST_MEANS = 2_000_000  # kept of a wide table in many clusters
BLOCK_BYTES = 1 << 26


class ColumnMeans(NamedTuple):
    """Means (G, f) of some ``columns`` (f,) in G groups; overall ``mean`` and ``deviation``."""

    columns: np.ndarray
    means: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


class Differences(NamedTuple):
    """Means ``inside`` and ``outside`` of K clusters, ``standardized`` differences, all (K, f).

    ``explained`` (f,) is eta squared.
    """

    inside: np.ndarray
    outside: np.ndarray
    standardized: np.ndarray
    explained: np.ndarray

    def strongest(self, most: int) -> np.ndarray:
        """The columns (K, most) of largest absolute difference, the largest first."""
        return np.argsort(-np.abs(self.standardized), axis=1, kind="stable")[:, :most]


def column_means(X: Any, parts: np.ndarray, n_clusters: int) -> ColumnMeans:
    """Means of the columns of X (n, f) in the halves of clusters, ``parts`` (n,), 2 c + h.

    X is read in blocks, of columns too, so that memory is bounded. Of a wide table those columns
    are kept that differ most in some cluster.
    """
    width = X.shape[1]
    sizes = np.bincount(parts, minlength=2 * n_clusters)
    fitted = np.arange(len(sizes)) // 2
    each = min(STRONGEST, max(1, MOST_MEANS // n_clusters**2))
    step = max(1, BLOCK_BYTES // (8 * len(sizes)))
    kept: list[ColumnMeans] = []
    for start in range(0, width, step):
        block = slice(start, min(start + step, width))
        kept.append(_block_means(X, parts, len(sizes), block, max(1, BLOCK_BYTES // (8 * width))))
        if width > ALL_COLUMNS:
            known = _joined(kept)
            strongest = differences(known, sizes, fitted).strongest(each)
            kept = [ColumnMeans(*(field[..., np.unique(strongest)] for field in known))]
    return _joined(kept)


def _block_means(X: Any, parts: np.ndarray, n_parts: int, block: slice, rows: int) -> ColumnMeans:
    n = len(parts)
    offset = np.asarray(X[:rows])[:, block].astype(np.float64).mean(axis=0)
    sums, squares = np.zeros((n_parts, len(offset))), np.zeros(len(offset))
    for start in range(0, n, rows):
        values = np.asarray(X[start : start + rows])[:, block].astype(np.float64) - offset
        count = len(values)
        one_hot = (np.ones(count), (parts[start : start + count], np.arange(count)))
        sums += sp.csr_array(one_hot, shape=(n_parts, count)) @ values
        with np.errstate(over="ignore"):
            squares += np.square(values).sum(axis=0)
    mean = sums.sum(axis=0) / n
    sizes = np.maximum(np.bincount(parts, minlength=n_parts), 1)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.nan_to_num(np.sqrt(np.maximum(squares / n - mean**2, 0.0)))
    # of a constant column only the rounding of its mean is left
    deviation[deviation <= 1e-12 * np.abs(offset)] = 0.0
    columns = np.arange(block.start, block.stop)
    return ColumnMeans(columns, sums / sizes + offset, mean + offset, deviation)


def _joined(blocks: list[ColumnMeans]) -> ColumnMeans:
    return ColumnMeans(*(np.concatenate(fields, axis=-1) for fields in zip(*blocks, strict=True)))


def differences(known: ColumnMeans, sizes: np.ndarray, clusters: np.ndarray) -> Differences:
    """How clusters differ that groups of ``sizes`` (G,) make up, group g in ``clusters[g]``."""
    n_clusters = int(clusters.max()) + 1
    member = sp.csr_array(
        (sizes, (clusters, np.arange(len(sizes)))), shape=(n_clusters, len(sizes))
    )
    count = np.bincount(clusters, weights=sizes, minlength=n_clusters)[:, None]
    n = sizes.sum()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inside = member @ (known.means - known.mean) / np.maximum(count, 1)
        outside = -inside * count / np.maximum(n - count, 1)
        apart = np.where(known.deviation > 0, (inside - outside) / known.deviation, 0.0)
        apart = np.where((count > 0) & (count < n), np.nan_to_num(apart), 0.0)
        between = (count * np.square(inside)).sum(axis=0) / n
        explained = np.where(known.deviation > 0, between / known.deviation**2, 0.0)
    explained = np.clip(np.nan_to_num(explained), 0.0, 1.0)
    return Differences(inside + known.mean, outside + known.mean, apart, explained)
