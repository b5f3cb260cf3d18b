"""What the page says of single clusters: their cards, and hints to merge or split them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dcfsc.report.details import DOUBTFUL, TYPICAL, Details

LOW = 0.5  # confidence of a doubtful sample: one that another cluster may hold as well
SURE = 0.99  # a cluster whose every sample is as confident has no doubtful ones
COLUMNS, NOTABLE = 5, 0.2  # shown of a cluster, each of at least this standardized difference
# As shares of the usual coupling of a cluster's halves. Chosen with labels, on twelve problems:
# there the first named two pairs, both of one class, the second five clusters, four of two classes.
MERGE, SPLIT = 0.75, 0.2
MOST_HINTS = 6  # of each kind
SMALLEST_HALF = 2
EXAMPLES = 5


def cards(present: Sequence[int], details: Details) -> Iterator[dict[str, Any]]:
    shown, confidence = details.shown, details.confidence
    apart = distinctive(details)
    for k in present:
        members = details.labels == k
        size = int(members.sum())
        stored = np.flatnonzero(details.labels[shown] == k)
        typical, doubtful = (stored[details.role[stored] == role] for role in (TYPICAL, DOUBTFUL))
        order = np.argsort(confidence[shown[doubtful]], kind="stable")
        best = int(details.best_class[k]) if details.has_truth and size else -1
        yield {
            "label": k,
            "size": size,
            "confidence": float(confidence[members].mean()) if size else 0.0,
            "typical": typical.tolist(),
            "doubtful": doubtful[order].tolist(),
            "doubt": size > 0 and float(confidence[members].min()) < SURE,
            "stored": len(stored),
            "class": str(details.class_names[best]) if best >= 0 else None,
            "share": details.confusion[best, k] / size if best >= 0 else 0.0,
            "columns": apart[k] if k < len(apart) else [],
        }


def distinctive(details: Details) -> list[list[dict[str, Any]]]:
    """The columns of a table that set each cluster apart, the strongest first; [] without any."""
    if not len(details.profile):
        return []
    apart = details.differences()
    return [
        [
            {
                "name": str(details.feature_names[j]),
                "mean": apart.inside[k, j],
                "others": apart.outside[k, j],
                "difference": apart.standardized[k, j],
                "explained": apart.explained[j],
            }
            for j in columns
            if abs(apart.standardized[k, j]) >= NOTABLE
        ]
        for k, columns in enumerate(apart.strongest(COLUMNS))
    ]


def hints(details: Details, clusters: Sequence[int]) -> dict[str, Any]:
    merges, splits = merge_hints(details, clusters), split_hints(details, clusters)
    return {"merges": merges, "splits": splits} if merges or splits else {}


def merge_hints(details: Details, clusters: Sequence[int]) -> list[dict[str, Any]]:
    """Pairs of clusters nearly as closely coupled as the halves of one, the closest first."""
    fitted = _as_fitted(details, clusters)
    coupling = np.triu(details.coupling[np.ix_(fitted, fitted)], 1)
    close = np.argwhere(coupling >= max(MERGE * _usual_coupling(details), 1e-9))
    close = close[np.argsort(-coupling[tuple(close.T)], kind="stable")][:MOST_HINTS]
    return [
        {
            "pair": (pair := tuple(fitted[at].tolist())),
            "coupling": float(coupling[tuple(at)]),
            "examples": [_surest(details, details.labels == k) for k in pair],
        }
        for at in close
    ]


def split_hints(details: Details, clusters: Sequence[int]) -> list[dict[str, Any]]:
    """Clusters whose halves are far less coupled than is usual, the least first."""
    fitted = _as_fitted(details, clusters)
    coupling = np.diag(details.coupling)
    sizes = np.bincount(details.parts, minlength=2 * len(coupling)).reshape(-1, 2)
    loose = coupling <= SPLIT * _usual_coupling(details)
    loose &= sizes.min(axis=1) >= SMALLEST_HALF
    chosen = fitted[loose[fitted]]
    chosen = chosen[np.argsort(coupling[chosen], kind="stable")][:MOST_HINTS]
    return [
        {
            "cluster": k,
            "coupling": float(coupling[k]),
            "sizes": sizes[k].tolist(),
            "examples": [_surest(details, details.parts == 2 * k + half) for half in (0, 1)],
        }
        for k in chosen.tolist()
    ]


def _usual_coupling(details: Details) -> float:
    """The median coupling of the two halves of a cluster; 1 where there is nothing to cut."""
    return float(np.median(np.diag(details.coupling)))


def _as_fitted(details: Details, clusters: Sequence[int]) -> np.ndarray:
    """Those of the clusters that nobody has merged or split."""
    fitted = details.parts // 2
    moved = details.labels != fitted
    edited = np.concatenate([details.labels[moved], fitted[moved]])
    return np.setdiff1d(np.intersect1d(clusters, fitted), edited).astype(np.int64)


def _surest(details: Details, members: np.ndarray) -> list[int]:
    """Positions among the samples shown of the members of highest confidence."""
    stored = np.flatnonzero(members[details.shown])
    order = np.argsort(-details.confidence[details.shown[stored]], kind="stable")
    return stored[order[:EXAMPLES]].tolist()
