"""From a fitted estimator to the arrays that its report is drawn from.

Everything here is bounded: a few numbers a sample, and pictures, neighbours and points of the view
for some thousand samples at most, whatever N is.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp

from dcfsc import metrics, spectral
from dcfsc.datasets import Dataset
from dcfsc.estimators.diagnostics import has_lambda_path, lambda_path, spectrum
from dcfsc.report import Details, images_of, thumbnails
from dcfsc.report.details import DOUBTFUL, MISTAKE, OTHER, TYPICAL
from dcfsc.report.thumbnails import affordable
from dcfsc.report.views import block_means, cluster_mass, plane_view

EXEMPLARS = 8  # typical ones and doubtful ones, of each cluster
MISTAKES = 120
VIEW_POINTS = 5_000
FEATURES_SHOWN = 1_500
NEIGHBOURS = 5


def describe_details(estimator: Any, data: Dataset) -> Details:
    """The details of an estimator that was fitted on ``data``; labels only tell mistakes."""
    A, embedding = estimator.affinity_matrix_, estimator.embedding_
    A = A.tocsr() if sp.issparse(A) else A
    labels, K = np.asarray(estimator.labels_), int(estimator.n_clusters)
    mass = cluster_mass(A, labels, K)
    certainty = np.asarray(estimator.confidence_)
    truth, class_names, confusion, best_class = _classes(data, labels, K)
    wrong = best_class[labels] != truth if len(truth) else np.zeros(len(labels), bool)
    most = min(VIEW_POINTS, affordable(data.X)) if images_of(data.X) else FEATURES_SHOWN
    own = mass[np.arange(len(labels)), labels]
    shown, role, view_samples = choose_samples(labels, certainty, own, wrong, K, most)
    values = spectrum(estimator)
    gaps = spectral.eigengap(values) if len(values) > 2 else []
    names = [] if data.paths is None else [_short_name(data.paths[i]) for i in shown]
    return Details(
        labels=labels.astype(np.int32),
        confidence=certainty.astype(np.float32),
        degrees=embedding.degrees.astype(np.float32),
        leverage=_leverage(estimator),
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
        rival=estimator.next_best_[shown].astype(np.int32),
        neighbours=nearest(A, shown),
        names=np.array(names, dtype=np.str_),
        thumbnails=thumbnails(data.X, shown),
        path=lambda_path(estimator) if has_lambda_path(estimator) else np.zeros((0, 3)),
        class_names=class_names,
        confusion=confusion,
        best_class=best_class,
    )


def _leverage(estimator: Any) -> np.ndarray:
    leverage = vars(estimator).get("leverage_")
    return np.zeros(0, np.float32) if leverage is None else np.asarray(leverage, np.float32)


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
