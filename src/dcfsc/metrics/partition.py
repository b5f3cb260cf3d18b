"""Scores of a partition against the true one, blind to the names of the labels.

With the confusion matrix M (classes x clusters, M_ab = points of class a in cluster b) the best
one-to-one matching of clusters to classes maximizes sum_a M_{a, match(a)}: a linear assignment
problem, solved by the Hungarian method. Accuracy is that maximum over N.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

from dcfsc.errors import InputError


def confusion(y_true: ArrayLike | None, y_pred: ArrayLike) -> np.ndarray:
    """M (classes x clusters) int64: M_ab points of class a lie in cluster b, both in sorted order
    of their labels. The two partitions may have different numbers of parts."""
    (classes, true), (clusters, pred) = _coded(y_true, y_pred)
    flat = np.bincount(true * len(clusters) + pred, minlength=len(classes) * len(clusters))
    return flat.reshape(len(classes), len(clusters))


def accuracy(y_true: ArrayLike | None, y_pred: ArrayLike) -> float:
    """Share in [0, 1] of points that the best one-to-one matching of clusters to classes gets
    right. With more clusters than classes, the points of unmatched clusters all count as wrong."""
    right, total = _matched(y_true, y_pred)
    return float(right / total)


def clustering_error(y_true: ArrayLike | None, y_pred: ArrayLike) -> float:
    """100 (1 - accuracy): points that no matching of clusters to classes gets right, in percent."""
    right, total = _matched(y_true, y_pred)
    # Counting the wrong points keeps a perfect partition at exactly 0.
    return float(100.0 * (total - right) / total)


def _matched(y_true: ArrayLike | None, y_pred: ArrayLike) -> tuple[int, int]:
    """How many points the best matching gets right, and how many there are."""
    M = confusion(y_true, y_pred)
    return M[linear_sum_assignment(M, maximize=True)].sum(), M.sum()


def nmi(y_true: ArrayLike | None, y_pred: ArrayLike) -> float:
    """Normalized mutual information 2 I(true; pred) / (H(true) + H(pred)), in [0, 1]."""
    (_, true), (_, pred) = _coded(y_true, y_pred)
    return float(normalized_mutual_info_score(true, pred, average_method="arithmetic"))


def ari(y_true: ArrayLike | None, y_pred: ArrayLike) -> float:
    """Rand index adjusted for chance: 1 for equal partitions, 0 expected at random."""
    (_, true), (_, pred) = _coded(y_true, y_pred)
    return float(adjusted_rand_score(true, pred))


def shared_information(y_true: ArrayLike | None, y_pred: ArrayLike) -> float:
    """I(true; pred) - E I in nats, E I that of random partitions of the same sizes.

    Neither is divided by an entropy: of two partitions that agree alike, the coarser shares less.
    """
    (_, true), (_, pred) = _coded(y_true, y_pred)
    M = contingency_matrix(true, pred, sparse=True)
    chance = expected_mutual_information(M, len(true))
    return float(mutual_info_score(None, None, contingency=M) - chance)


def best_map(y_true: ArrayLike | None, y_pred: ArrayLike) -> np.ndarray:
    """``y_pred`` (N,) with every cluster renamed to the class that the best matching gives it.

    A cluster without a partner (more clusters than classes) gets a name that no class has: the
    integers after the largest class where classes are numbers, else the strings
    "unmatched 1", "unmatched 2", ...
    """
    (classes, _), (clusters, pred) = _coded(y_true, y_pred)
    rows, columns = linear_sum_assignment(confusion(y_true, y_pred), maximize=True)
    partner = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    spare = _spare_names(classes)
    names: list[Any] = [
        classes[partner[b]] if b in partner else next(spare) for b in range(len(clusters))
    ]
    return np.asarray(names)[pred]


def score(y_true: ArrayLike | None, y_pred: ArrayLike) -> dict[str, float]:
    """Every score of a partition: ``error`` (percent), ``accuracy``, ``nmi``, ``ari``, and
    ``n_clusters``, the number of clusters in ``y_pred``."""
    return {
        "error": clustering_error(y_true, y_pred),
        "accuracy": accuracy(y_true, y_pred),
        "nmi": nmi(y_true, y_pred),
        "ari": ari(y_true, y_pred),
        "n_clusters": len(label_codes(y_pred, "y_pred")[0]),
    }


def _spare_names(classes: np.ndarray) -> Iterator[Any]:
    """Names that no class has, without end."""
    if classes.dtype.kind in "iuf":
        return count(int(classes.max()) + 1)
    taken = set(map(str, classes.tolist()))
    return (name for i in count(1) if (name := f"unmatched {i}") not in taken)


def label_codes(y: ArrayLike | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels and, for each point, the index of its label among them."""
    if y is None:
        raise InputError(f"{name} is None: these samples have no labels.")
    try:
        labels = np.asarray(y)
    except ValueError:
        labels = np.empty((0, 0))
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.ravel()
    if labels.ndim != 1:
        raise InputError(f"{name} has shape {labels.shape}; labels must be one-dimensional.")
    if len(labels) == 0:
        raise InputError(f"{name} is empty; give one label for each point.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError(f"{name} has NaN or infinite labels; drop those points first.")
    if labels.dtype.kind == "O":
        labels = np.asarray([str(label) for label in labels])
    return np.unique(labels, return_inverse=True)


def _coded(
    y_true: ArrayLike | None, y_pred: ArrayLike
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    true, pred = label_codes(y_true, "y_true"), label_codes(y_pred, "y_pred")
    if len(true[1]) != len(pred[1]):
        raise InputError(
            f"y_true has {len(true[1])} labels and y_pred {len(pred[1])}; they must match."
        )
    return true, pred
