"""From a fitted estimator to the arrays that its report is drawn from.

Everything here is bounded: a few numbers a sample, and pictures, neighbours and points of the view
for some thousand samples at most, whatever N is.
"""

from __future__ import annotations

import warnings
from pathlib import PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from dcfsc import metrics, spectral
from dcfsc.datasets import Dataset
from dcfsc.estimators.validation import resolve_device
from dcfsc.report import Details, images_of, thumbnails
from dcfsc.report.details import DOUBTFUL, MISTAKE, OTHER, TYPICAL
from dcfsc.report.thumbnails import affordable
from dcfsc.self_expression import squared_singular_values
from dcfsc.self_expression.effective_dof import LambdaPath, effective_dof

EXEMPLARS = 8  # typical ones and doubtful ones, of each cluster
MISTAKES = 120
VIEW_POINTS = 5_000
FEATURES_SHOWN = 1_500
BLOCKS = 400
NEIGHBOURS = 5
EXTRA_EIGENVALUES = 10
PATH_POINTS = 49
# N d min(N, d) up to which the leave-one-out error is computed along the path: seconds.
PATH_COST = 2e10


def describe_details(estimator: Any, data: Dataset) -> Details:
    """The details of an estimator that was fitted on ``data``; labels only tell mistakes."""
    A, embedding = estimator.affinity_matrix_, estimator.embedding_
    A = A.tocsr() if sp.issparse(A) else A
    labels, K = np.asarray(estimator.labels_), int(estimator.n_clusters)
    mass = cluster_mass(A, labels, K)
    certainty, rival = confidence(mass, labels)
    truth, class_names, confusion, best_class = _classes(data, labels, K)
    wrong = best_class[labels] != truth if len(truth) else np.zeros(len(labels), bool)
    most = min(VIEW_POINTS, affordable(data.X)) if images_of(data.X) else FEATURES_SHOWN
    own = mass[np.arange(len(labels)), labels]
    shown, role, view_samples = choose_samples(labels, certainty, own, wrong, K, most)
    values = _eigenvalues(A, K, estimator)
    gaps = spectral.eigengap(values) if len(values) > 2 else []
    names = [] if data.paths is None else [_short_name(data.paths[i]) for i in shown]
    return Details(
        labels=labels.astype(np.int32),
        confidence=certainty.astype(np.float32),
        degrees=embedding.degrees.astype(np.float32),
        leverage=np.asarray(getattr(estimator, "leverage_", ()), np.float32),
        truth=truth,
        connectivity=np.array(
            [embedding.isolated.sum(), embedding.n_connected, embedding.set_aside.sum()], np.int64
        ),
        eigenvalues=values,
        eigengaps=np.array(gaps, np.float64).reshape(-1, 2),
        blocks=block_means(A, np.lexsort((-certainty, labels))),
        view_samples=view_samples,
        view=plane_view(embedding, labels, mass)[view_samples].astype(np.float32),
        shown=shown,
        role=role,
        rival=rival[shown].astype(np.int32),
        neighbours=nearest(A, shown),
        names=np.array(names, dtype=np.str_),
        thumbnails=thumbnails(data.X, shown),
        path=_lambda_path(estimator),
        class_names=class_names,
        confusion=confusion,
        best_class=best_class,
    )


def cluster_mass(A: Any, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """m_ic = sum of A_ij over the samples j != i of cluster c; A (N, N), m (N, K)."""
    n = len(labels)
    one_hot = sp.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, n_clusters))
    product = A @ one_hot
    mass = product.toarray() if sp.issparse(product) else np.array(product, np.float64)
    mass[np.arange(n), labels] -= A.diagonal()
    return np.maximum(mass, 0.0)  # the subtraction rounds


def confidence(mass: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How clearly a sample's affinities point to its own cluster, and which cluster is next.

    With the shares p_ic = m_ic / sum_c m_ic of the sample's affinity, the confidence is the margin

        max(0, p_{i, own} - max_{c != own} p_ic)    in 0..1:

    1 where all neighbours lie in the sample's cluster, 0 where another cluster holds as much, and
    where the sample has no neighbours. The rival is that next cluster, or -1 if it has no mass.
    """
    rows = np.arange(len(labels))
    total = mass.sum(axis=1)
    shares = mass / np.where(total > 0, total, 1.0)[:, None]
    own = shares[rows, labels]
    shares[rows, labels] = -1.0
    rival = shares.argmax(axis=1)
    largest = np.maximum(shares[rows, rival], 0.0)
    return np.clip(own - largest, 0.0, 1.0), np.where(largest > 0, rival, -1)


def choose_samples(
    labels: np.ndarray,
    certainty: np.ndarray,
    own: np.ndarray,
    wrong: np.ndarray,
    n_clusters: int,
    most: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which samples to show, in what role (T,), and which to place in the view (P,).

    Typical are those of largest confidence times mass ``own`` within the cluster, doubtful those
    of least confidence; then mistakes, the most confident first; then others, drawn so that every
    cluster has its share, up to ``most``. The view holds all of them and more such others.
    """
    n = len(labels)
    each = max(1, min(EXEMPLARS, VIEW_POINTS // (2 * n_clusters)))
    size = np.bincount(labels, minlength=n_clusters)[labels]
    typical_rank = _rank_within(labels, -certainty * own)
    doubtful_rank = _rank_within(labels, certainty, own)
    role = np.full(n, OTHER, np.uint8)
    role[doubtful_rank < np.minimum(each, size // 2)] = DOUBTFUL
    role[typical_rank < np.minimum(each, (size + 1) // 2)] = TYPICAL
    mistakes = np.flatnonzero(wrong & (role == OTHER))
    role[mistakes[np.argsort(-certainty[mistakes], kind="stable")[:MISTAKES]]] = MISTAKE
    exemplars = np.flatnonzero(role != OTHER)
    # The first of these by (rank + 1/2) / size have every cluster in its proportion.
    draw = np.random.default_rng(0).random(n)
    share = (_rank_within(labels, draw) + 0.5) / size
    others = np.flatnonzero(role == OTHER)
    others = others[np.argsort(share[others], kind="stable")]
    shown = np.concatenate([exemplars, others[: max(0, most - len(exemplars))]])
    view = np.concatenate([exemplars, others[: max(0, VIEW_POINTS - len(exemplars))]])
    shown = shown[np.lexsort((typical_rank[shown], labels[shown]))]
    return shown.astype(np.int32), role[shown], np.sort(view).astype(np.int32)


def _rank_within(labels: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """The rank (N,) of every sample within its cluster by the keys, the first most important."""
    order = np.lexsort((*reversed(keys), labels))
    starts = np.searchsorted(labels[order], labels[order], side="left")
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - starts
    return rank


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


def nearest(A: Any, samples: np.ndarray) -> np.ndarray:
    """The samples of largest affinity with each of ``samples`` (T,), (T, q); -1 where none."""
    found = np.full((len(samples), min(NEIGHBOURS, max(1, A.shape[0] - 1))), -1, np.int32)
    for row, sample in enumerate(samples):
        if sp.issparse(A):
            columns = A.indices[A.indptr[sample] : A.indptr[sample + 1]]
            weights = A.data[A.indptr[sample] : A.indptr[sample + 1]]
        else:
            columns = np.flatnonzero(A[sample])
            weights = A[sample, columns]
        other = columns != sample
        columns, weights = columns[other], weights[other]
        best = columns[np.argsort(-weights, kind="stable")[: found.shape[1]]]
        found[row, : len(best)] = best
    return found


def plane_view(embedding: spectral.Embedding, labels: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """A view (N, 2) of the spectral embedding with the clusters around a circle.

    K clusters sit near the corners of a simplex in K dimensions, which no two principal
    components show. So the unit rows R (N, K) are given memberships B = R W by ridge regression
    of the clusters' indicators Y,

        min_W  sum_i |r_i W - y_i|^2 / size(label(i)) + eps |W|^2,

    and sample i lies at  sum_c b_ic a_c / sum_c b_ic  with places a_c on the unit circle, in an
    order that makes neighbours of clusters with much affinity. A sample between two clusters lies
    between their places, one without a row in the middle. Two clusters leave the second axis
    free: it shows the leading eigenvector, which grows with the degree.
    """
    n, K = mass.shape
    norm = np.linalg.norm(embedding.vectors, axis=1, keepdims=True)
    R = embedding.vectors / np.where(norm > 0, norm, 1.0)
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
        first = embedding.vectors[:, 0]
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


def _eigenvalues(A: Any, n_clusters: int, estimator: Any) -> np.ndarray:
    """Some eigenvalues of the normalised affinity beyond K, to see where they drop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a picture needs no tight residual
        wider = spectral.embed(
            A,
            min(n_clusters + EXTRA_EIGENVALUES, A.shape[0]),
            random_state=0,
            tol=1e-4,
            device=resolve_device(getattr(estimator, "device", "cpu")),
        )
    return np.sort(wider.values)[::-1].astype(np.float64)


def _lambda_path(estimator: Any) -> np.ndarray:
    """Rows of lam, tr H and |Z - B Z|^2 / |Z|^2 around the lam that was used; (0, 3) without."""
    lam = getattr(estimator, "lam_", None)
    Z = getattr(estimator, "latents_", getattr(estimator, "_training_features", None))
    if lam is None or Z is None or not hasattr(estimator, "leverage_"):
        return np.zeros((0, 3))
    Z = torch.as_tensor(Z, device=resolve_device(estimator.device))
    grid = lam * 10.0 ** np.linspace(-4.0, 4.0, PATH_POINTS)
    n, d = Z.shape
    if n * d * min(n, d) > PATH_COST:
        squares = squared_singular_values(Z)
        return np.array([(x, effective_dof(squares, x), np.nan) for x in grid])
    path = LambdaPath(Z)
    energy = max(float(path.squares.sum()), 1e-300)
    return np.array(
        [(x, path.effective_dof(x), path.leave_one_out_error(x) / energy) for x in grid]
    )


def _classes(
    data: Dataset, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Truth (N,), names (C,), confusion (C, K), best class of each cluster (K,); empty without."""
    if data.y is None:
        nothing = np.zeros(0, np.int32)
        return nothing, np.zeros(0, np.str_), np.zeros((0, 0), np.int64), nothing
    count = int(data.y.max()) + 1
    names = data.label_names or [str(c) for c in range(count)]
    flat = np.bincount(data.y * n_clusters + labels, minlength=count * n_clusters)
    best = np.full(n_clusters, -1, np.int32)
    best[labels] = metrics.best_map(data.y, labels)
    best[best >= count] = -1
    # a partner of which the cluster holds no sample is what the matching had left over
    confusion = flat.reshape(count, n_clusters)
    best[(best >= 0) & (confusion[best, np.arange(n_clusters)] == 0)] = -1
    names_array = np.array([name[:60] for name in names], np.str_)
    return data.y.astype(np.int32), names_array, confusion, best


def _short_name(path: str) -> str:
    return "/".join(PurePath(path).parts[-2:])[-80:]
