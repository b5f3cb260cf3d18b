"""From an embedding to labels: k-means, the Yu-Shi discretisation, pivoted QR."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from dcfsc.errors import InputError, unknown_name
from dcfsc.parameters import whole
from dcfsc.spectral.embedding import Embedding, Seed, random_from
from dcfsc.spectral.kmeans import kmeans

METHODS = ("filtered", "kmeans", "cluster_qr", "discretize")
STARTS = 10  # of k-means

# A row this short holds rounding errors only (an eigenvector's entries are about N^-1/2).
ZERO_ROW = 1e-13
# Eigenvalues nearer to 1 than this are 1, but for rounding and the eigensolver's tolerance.
ROUNDING = 1e-9


def assign(
    embedding: Embedding,
    n_clusters: int,
    *,
    method: str = "kmeans",
    random_state: Seed = None,
    n_init: int = STARTS,
    device: str | torch.device | None = None,
    grouped: Tensor | None = None,
) -> np.ndarray:
    """Labels (N,) int64 for ``n_clusters`` clusters, numbered by first appearance.

    ``method``:

    - "kmeans": k-means with ``n_init`` starts on the rows of the embedding scaled to length 1
      (Ng, Jordan and Weiss 2001), all at once on ``device`` (None: the CPU). Above 50,000 points
      the starts run on a random sample of 20,000 rows, and the best centers are refined once on
      all rows.
    - "filtered": the same of eigenvectors beyond the first ``n_clusters`` too, as many as the
      embedding has, each times 1 / (1 + (1 - w_j) / (1 - w_K)) with its eigenvalue w_j: what the
      resolvent of the Laplacian makes of them. Where a small group takes one of the first K, the
      direction that it displaces is not lost, and k-means weighs both by their points. Every start
      of k-means (above 50,000 points, the best three) is improved by splitting clusters and joining
      others as long as that pays (:mod:`dcfsc.spectral.exchange`).
    - "discretize": the partition nearest to the embedding up to a rotation (Yu and Shi 2003), in
      the scaling of scikit-learn's `SpectralClustering`, from one random first rotation: the
      protocol behind published numbers.
    - "cluster_qr": rotation from a pivoted QR factorization of V (Damle, Minden and Ying 2019); no
      randomness.

    ``grouped`` are the rows that k-means groups (`grouped_rows`), if they are known.

    Points set aside by the embedding (isolated or stray) and points with a zero row carry no
    evidence and join the largest cluster. If the rows hold fewer distinct groups than
    ``n_clusters``, fewer clusters come back, with a warning.
    """
    if method not in METHODS:
        raise unknown_name("assignment method", method, METHODS)
    whole(1).check("n_init", n_init)
    K = _check_clusters(n_clusters, embedding, method)
    random = random_from(random_state)

    by_kmeans = method in ("kmeans", "filtered")
    V = None if by_kmeans else _rows(embedding, K, method)
    evident = ~embedding.set_aside & (_lengths(embedding.vectors) > ZERO_ROW)
    n_evident = int(evident.sum())
    if n_evident <= K or K == 1:
        labels = np.arange(n_evident, dtype=np.int64) % K
    elif V is None:
        seen = grouped_rows(embedding, K, method, device) if grouped is None else grouped
        seen = (
            seen if evident.all() else seen[torch.from_numpy(evident.nonzero()[0]).to(seen.device)]
        )
        labels = kmeans(seen, K, random, n_init, exchange=method == "filtered")
    elif method == "discretize":
        labels = discretize(V[evident], random)
    else:
        labels = cluster_qr(V[evident])
    return _complete(labels, evident, K)


def default_components(assign: str, n_clusters: int, n: int = 0) -> int:
    """How many eigenvectors of n points an assignment looks at."""
    return max(n_clusters, min(2 * n_clusters, n)) if assign == "filtered" else n_clusters


def discretize(V: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """min over partitions X* and rotations R of |X* - Xr R|^2, Xr the rows of V at length 1.

    V is (N, K) with columns of equal length and no zero rows; X* (N, K) has one 1 a row. The two
    unknowns alternate: X* takes each row's largest entry of Xr R; R is the polar factor of
    Xr' X*. It begins at one random row and adds rows as orthogonal to those before as can be
    found. Reference: S. X. Yu and J. Shi, "Multiclass spectral clustering", ICCV 2003.
    """
    Xr = V / np.linalg.norm(V, axis=1, keepdims=True)
    return _alternate(Xr, _spread_rows(Xr, random.randint(len(Xr))))[0]


def cluster_qr(V: np.ndarray) -> np.ndarray:
    """argmax_k |V Q|_ik with Q the polar factor of the K rows that pivoted QR of V' picks.

    The pivots are K rows as near to orthogonal as a greedy choice gets, one from each cluster;
    Q turns them onto the axes. Reference: A. Damle, V. Minden and L. Ying, "Simple, direct and
    efficient multi-way spectral clustering", Information and Inference 8 (2019).
    """
    K = V.shape[1]
    _, pivots = scipy.linalg.qr(V.T, mode="r", pivoting=True)
    Q = _polar(V[pivots[:K]].T)[0]
    return np.abs(V @ Q).argmax(axis=1)


def _spread_rows(Xr: np.ndarray, first: int) -> np.ndarray:
    """R (K, K) whose columns are row ``first`` and rows greedily orthogonal to those chosen."""
    K = Xr.shape[1]
    R = np.empty((K, K))
    R[:, 0] = Xr[first]
    overlap = np.zeros(len(Xr))
    for j in range(1, K):
        overlap += np.abs(Xr @ R[:, j - 1])
        R[:, j] = Xr[overlap.argmin()]
    return R


def _alternate(Xr: np.ndarray, R: np.ndarray, max_iter: int = 20) -> tuple[np.ndarray, float]:
    """Alternate labels and rotation from R; labels and their agreement sum(svd(X*' Xr))."""
    n, K = Xr.shape
    previous = 0.0
    for _ in range(max_iter + 1):
        labels = (Xr @ R).argmax(axis=1)
        order = np.argsort(labels, kind="stable")
        present, begin = np.unique(labels[order], return_index=True)
        M = np.zeros((K, K))  # X*' Xr: the sum of each cluster's rows
        M[present] = np.add.reduceat(Xr[order], begin, axis=0)
        rotation, agreement = _polar(M)
        # Agreement is at most n, so this is rounding of the objective 2 (n - agreement).
        if abs(agreement - previous) <= n * np.finfo(float).eps:
            break
        previous, R = agreement, rotation.T
    return labels, agreement


def _polar(M: np.ndarray) -> tuple[np.ndarray, float]:
    """The orthogonal polar factor U W' of M = U diag(s) W' and sum(s)."""
    try:
        U, s, Wt = scipy.linalg.svd(M)
    except scipy.linalg.LinAlgError:
        # QR iteration is slower than divide and conquer, and does not share its failures.
        U, s, Wt = scipy.linalg.svd(M, lapack_driver="gesvd")
    return U @ Wt, float(s.sum())


def _lengths(V: np.ndarray) -> np.ndarray:
    """|v| of the rows of V, in one pass over a large array."""
    return np.sqrt(np.einsum("ij,ij->i", V, V))


def _rows(embedding: Embedding, K: int, method: str) -> np.ndarray:
    """The matrix whose rows are grouped."""
    if method == "discretize":
        # scikit-learn hands over D^-1/2 V and gives its columns one length. The division by
        # the degrees cancels in the rows' directions, but not in the columns' lengths.
        V = embedding.random_walk_vectors()[:, :K]
        return V / np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)
    return embedding.vectors[:, :K]


def grouped_rows(
    embedding: Embedding,
    n_clusters: int,
    method: str,
    device: str | torch.device | None = None,
) -> Tensor:
    """The rows (N, k) of the embedding at unit length, as k-means groups them on ``device``.

    "filtered" groups eigenvectors times `spectral_filter`. Zero rows stay zero.
    """
    V = torch.from_numpy(embedding.vectors).to(device, copy=True)
    if method == "filtered":
        V *= torch.from_numpy(spectral_filter(embedding.values, n_clusters)).to(V)
    length = torch.linalg.vector_norm(V, dim=1, keepdim=True)
    return V.div_(length.masked_fill_(length == 0, 1.0))


def spectral_filter(values: np.ndarray, n_clusters: int) -> np.ndarray:
    """g / (g + 1 - w_j) (k,) for eigenvalues w_j in descending order, g = 1 - w_K.

    1 for the eigenvalue 1, 1/2 for the K-th, and less beyond; a graph in K pieces or more has g = 0
    and keeps the eigenvectors that tell the pieces apart, and no others.
    """
    gaps = np.maximum(1.0 - np.asarray(values, dtype=np.float64), 0.0)
    half = max(float(gaps[n_clusters - 1]), ROUNDING)
    return half / (half + gaps)


def _complete(labels: np.ndarray, evident: np.ndarray, K: int) -> np.ndarray:
    """Labels of all points from those of the ``evident`` ones, numbered by first appearance."""
    full = np.zeros(len(evident), dtype=np.int64)
    if len(labels):
        full[~evident] = np.bincount(labels).argmax()
        full[evident] = labels
    found = len(np.unique(full))
    if found < K:
        warnings.warn(
            f"{found} clusters were found where {K} were asked for: the embedding has too "
            "few distinct rows.",
            UserWarning,
            stacklevel=3,
        )
    return by_first_appearance(full, K)[full]


def by_first_appearance(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """The new number of each label 0, ..., K - 1; empty clusters come last."""
    present, first = np.unique(labels, return_index=True)
    seen = present[np.argsort(first)]
    order = np.concatenate([seen, np.setdiff1d(np.arange(n_clusters), seen)])
    return np.argsort(order)


def _check_clusters(n_clusters: int, embedding: Embedding, method: str) -> int:
    whole(1).check("n_clusters", n_clusters)
    K = int(n_clusters)
    n, k = embedding.vectors.shape
    if n < K:
        raise InputError(f"n_clusters is {K} but there are only {n} points.")
    if method != "kmeans" and k < K:
        raise InputError(
            f"{method} needs {K} eigenvectors for {K} clusters; the embedding has {k}."
        )
    return K
