"""From a fitted estimator to the arrays that its report is drawn from.

Their size is bounded: a few numbers per sample, and images and points of the map for at most some
thousand samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dcfsc import spectral
from dcfsc.io import Dataset
from dcfsc.report import Details, images_of, thumbnails
from dcfsc.report.details import DOUBTFUL, MISTAKE, OTHER, TYPICAL
from dcfsc.report.differences import column_means, differences
from dcfsc.report.drawing import block_means, cluster_mass, plane_view
from dcfsc.report.texts import excerpts, stored_words
from dcfsc.report.thumbnails import affordable

from .edits import matched_classes

EXEMPLARS = 8  # typical ones and doubtful ones, of each cluster
MISTAKES = 120
VIEW_POINTS = 5_000
NEIGHBORS = 5
NEIGHBOR_CHUNK = 1 << 22  # affinities looked at together
LONGEST_NAME = 200  # of a column
MEASUREMENTS = 16  # of each sample shown, by the share of their variance that clusters explain


def describe_details(estimator: Any, data: Dataset) -> Details:
    """The details of an estimator that was fitted on ``data``; labels only tell mistakes."""
    A, embedding = estimator.affinity_matrix_, estimator._partition.embedding
    A = A.tocsr() if sp.issparse(A) else A
    labels, K = np.asarray(estimator.labels_), estimator.n_clusters_
    mass = cluster_mass(A, labels, K)
    memberships = estimator._partition.memberships
    certainty = memberships.confidence
    halves = spectral.halves(embedding, labels, K, estimator.assign)
    parts = (2 * labels + halves).astype(np.int32)
    truth, class_names = _truth(data)
    confusion, best_class = matched_classes(truth, len(class_names), labels, K)
    wrong = best_class[labels] != truth if len(truth) else np.zeros(len(labels), bool)
    own = mass[np.arange(len(labels)), labels]
    paths, names = data.paths or [], data.relative_paths or []
    most = min(VIEW_POINTS, affordable(data.X, paths) if images_of(data.X) else VIEW_POINTS)
    shown, role, view_samples = choose_samples(labels, certainty, own, wrong, K, most)
    files = [paths[i] for i in shown] if paths else []
    neighbors, weights = nearest(A)
    leverage = vars(estimator).get("leverage_")
    of_texts = {}
    if data.texts is not None:
        words = stored_words(data.texts, parts, 2 * K)
        of_texts = {"texts": excerpts(data.X[shown]), **words}
    return Details(
        labels=labels.astype(np.int32),
        clusters=memberships.clusters,
        probabilities=memberships.probabilities,
        parts=parts,
        degrees=embedding.degrees.astype(np.float32),
        leverage=np.asarray([] if leverage is None else leverage, np.float32),
        truth=truth,
        connectivity=np.array(
            [embedding.isolated.sum(), embedding.n_connected, embedding.set_aside.sum()], np.int64
        ),
        eigenvalues=estimator.spectrum(),
        blocks=block_means(A, np.lexsort((-certainty, labels))),
        coupling=spectral.coupling(A, labels, halves, K),
        view_samples=view_samples,
        view=plane_view(embedding.vectors, labels, mass).astype(np.float32),
        neighbors=neighbors,
        neighbor_weights=weights,
        shown=shown,
        role=role,
        files=np.array([names[i] for i in shown] if names else [], dtype=np.str_),
        thumbnails=thumbnails(data.X, shown, files),
        **_columns(data, parts, K, shown),
        path=estimator.lambda_path() if estimator._has_lambda_path() else np.zeros((0, 3)),
        class_names=class_names,
        confusion=confusion,
        best_class=best_class,
        **of_texts,
    )


def _columns(
    data: Dataset, parts: np.ndarray, n_clusters: int, shown: np.ndarray
) -> dict[str, np.ndarray]:
    """What is kept of a table's columns, and of the shown samples in them."""
    if data.X.ndim != 2 or data.texts is not None:
        return {"profile": np.zeros((0, 0)), "feature_names": np.zeros(0, np.str_)}
    known = column_means(data.X, parts, n_clusters)
    sizes = np.bincount(parts, minlength=2 * n_clusters)
    explained = differences(known, sizes, np.arange(len(sizes)) // 2).explained
    telling = np.sort(np.argsort(-explained, kind="stable")[:MEASUREMENTS])
    given = data.feature_names or [f"feature {i}" for i in range(data.X.shape[1])]
    names = np.array([given[i][:LONGEST_NAME] for i in known.columns], np.str_)
    order = np.argsort(shown, kind="stable")  # a table on disk is read in order
    values = np.empty((len(shown), len(telling)))
    values[order] = np.asarray(data.X[shown[order]])[:, known.columns[telling]]
    return {
        "profile": np.vstack([known.means, known.mean, known.deviation]),
        "feature_names": names,
        "values": values,
        "value_names": names[telling],
    }


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


def nearest(A: Any) -> tuple[np.ndarray, np.ndarray]:
    """The samples of largest affinity with each one, (N, q), -1 where none, and the affinities."""
    n = A.shape[0]
    neighbors = np.full((n, min(NEIGHBORS, max(1, n - 1))), -1, np.int32)
    weights = np.zeros(neighbors.shape, np.float32)
    step = max(1, NEIGHBOR_CHUNK // (16 if sp.issparse(A) else n))
    for start in range(0, n, step):
        block = sp.csr_array(A[start : start + step])
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        other = (block.indices != rows + start) & (block.data > 0)
        rows, columns, values = rows[other], block.indices[other], block.data[other]
        rank = _rank_within(rows, -values)
        near = rank < neighbors.shape[1]
        place = rows[near] + start, rank[near]
        neighbors[place], weights[place] = columns[near], values[near]
    return neighbors, weights


def _truth(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """True classes (N,) and their names (C,); both empty without labels."""
    if data.y is None:
        return np.zeros(0, np.int32), np.zeros(0, np.str_)
    names = data.label_names or [str(c) for c in range(int(data.y.max()) + 1)]
    return data.y.astype(np.int32), np.array([name[:60] for name in names], np.str_)
