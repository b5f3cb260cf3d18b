"""``clusters.csv`` and ``differences.csv``: the present clusters of a run as tables.

The fit writes them, and so does every edit: ``labels.csv`` stays as it was fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.report import Details

from .tables import certainty_columns, no_formula, write_table

DIFFERENCES_HEADER = (
    *("cluster", "column", "mean_inside", "mean_outside"),
    *("standardized_difference", "share_explained"),
)
STRONGEST = 1_000  # columns of each cluster


def write_clusters(
    path: Path,
    ids: Sequence[str] | None,
    clusters: np.ndarray,
    names: Sequence[str],
    confidence: np.ndarray,
    next_best: np.ndarray,
) -> None:
    """One row a sample: id (a path, or the row), cluster, its name, confidence, next best."""
    write_table(
        path,
        {
            "id": range(len(clusters)) if ids is None else map(no_formula, ids),
            "cluster": clusters.tolist(),
            "name": map(no_formula, names),
            **certainty_columns(confidence, next_best),
        },
    )


def write_differences(path: Path, details: Details) -> None:
    """What sets each cluster apart, the strongest columns first; see ``report.differences``."""
    columns = zip(*_differences(details), strict=True)
    write_table(path, dict(zip(DIFFERENCES_HEADER, columns, strict=True)))


def _differences(details: Details) -> Iterator[tuple[Any, ...]]:
    apart, names = details.differences(), [no_formula(n) for n in details.feature_names.tolist()]
    strongest = apart.strongest(STRONGEST)
    for k in np.unique(details.labels).tolist():
        for j in strongest[k].tolist():
            means = (f"{values[k, j]:.8g}" for values in (apart.inside, apart.outside))
            yield k, names[j], *means, f"{apart.standardized[k, j]:.4f}", f"{apart.explained[j]:.4f}"
