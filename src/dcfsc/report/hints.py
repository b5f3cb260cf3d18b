"""Which clusters to look at twice: pairs that may be one, and clusters that may be two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcfsc.report.details import Details

# As shares of the usual coupling of a cluster's halves. Chosen with labels, on twelve problems:
# there the first named two pairs, both of one class, the second five clusters, four of two classes.
MERGE, SPLIT = 0.75, 0.2
MOST = 6  # of each kind
SMALLEST = 2  # samples of a part
EXAMPLES = 5


def usual_coupling(details: Details) -> float:
    """The median coupling of the two halves of a cluster; 1 where there is nothing to cut."""
    return float(np.median(np.diag(details.coupling)))


def merge_hints(details: Details, clusters: Sequence[int]) -> list[dict[str, Any]]:
    """Pairs of clusters nearly as closely coupled as the halves of one, the closest first."""
    usual = usual_coupling(details)
    found: list[dict[str, Any]] = []
    for a, b in zip(*np.triu_indices(len(details.coupling), 1), strict=True):
        pair, value = (int(a), int(b)), float(details.coupling[a, b])
        if value >= max(MERGE * usual, 1e-9) and _as_fitted(details, pair, clusters):
            examples = [_typical(details, details.labels == k) for k in pair]
            found.append({"pair": pair, "coupling": value, "examples": examples})
    return sorted(found, key=lambda hint: -hint["coupling"])[:MOST]


def split_hints(details: Details, clusters: Sequence[int]) -> list[dict[str, Any]]:
    """Clusters whose halves are far less coupled than is usual, the least first."""
    usual = usual_coupling(details)
    found: list[dict[str, Any]] = []
    for k, value in enumerate(np.diag(details.coupling).tolist()):
        sizes = [int((details.parts == 2 * k + half).sum()) for half in (0, 1)]
        few = value <= SPLIT * usual and min(sizes) >= SMALLEST
        if few and _as_fitted(details, (k,), clusters):
            examples = [_typical(details, details.parts == 2 * k + half) for half in (0, 1)]
            hint = {"cluster": k, "coupling": value, "sizes": sizes, "examples": examples}
            found.append(hint)
    return sorted(found, key=lambda hint: hint["coupling"])[:MOST]


def _as_fitted(details: Details, chosen: Sequence[int], clusters: Sequence[int]) -> bool:
    """Whether the clusters are there, and nobody has merged or split them."""
    return set(chosen) <= set(clusters) and all(
        np.array_equal(details.labels == k, details.parts // 2 == k) for k in chosen
    )


def _typical(details: Details, members: np.ndarray) -> list[int]:
    """Positions among the samples shown of the surest of some samples."""
    stored = np.flatnonzero(members[details.shown])
    order = np.argsort(-details.confidence[details.shown[stored]], kind="stable")
    return stored[order[:EXAMPLES]].tolist()
