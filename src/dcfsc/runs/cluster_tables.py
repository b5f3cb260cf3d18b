"""``clusters.csv`` and ``differences.csv``: the present clusters of a run as tables.

The fit writes them, and so does every edit: ``labels.csv`` stays as it was fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dcfsc.report import Details

from .tables import certainty_columns, no_formula, write_table

STRONGEST = 1_000  # columns of each cluster


def write_clusters(
    path: Path,
    ids: Sequence[str] | None,
    clusters: np.ndarray,
    names: Sequence[str],
    *sure: np.ndarray,
) -> None:
    """One row a sample: id (a path, or the row), cluster, its name, confidence, next best."""
    columns = {
        "id": range(len(clusters)) if ids is None else map(no_formula, ids),
        "cluster": clusters.tolist(),
        "name": map(no_formula, names),
    }
    write_table(path, {**columns, **certainty_columns(*sure)})


def write_differences(path: Path, details: Details) -> None:
    """What sets each cluster apart, the strongest columns first; see ``report.differences``."""
    apart, names = details.differences(), [no_formula(n) for n in details.feature_names.tolist()]
    strongest = apart.strongest(STRONGEST)
    clusters = np.unique(details.labels)
    k, j = np.repeat(clusters, strongest.shape[1]), strongest[clusters].ravel()
    columns = {
        "cluster": k.tolist(),
        "column": [names[i] for i in j],
        "mean_inside": (f"{value:.8g}" for value in apart.inside[k, j]),
        "mean_outside": (f"{value:.8g}" for value in apart.outside[k, j]),
        "standardized_difference": (f"{value:.4f}" for value in apart.standardized[k, j]),
        "share_explained": (f"{value:.4f}" for value in apart.explained[j]),
    }
    write_table(path, columns)
