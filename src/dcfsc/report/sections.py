"""What the sections of the page say of a partition beside known classes or beside another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dcfsc.report.details import Details

TABLE_LIMIT = 16  # classes or clusters up to which the confusion matrix is a table of numbers
LARGEST_CONFUSIONS = 8


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def seconds(value: float) -> str:
    if value < 100:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def truth(details: Details, present: Sequence[int], titles: Sequence[str]) -> dict[str, Any]:
    """The confusion matrix, columns matched to rows, and the mistakes; empty without labels."""
    if not details.has_truth:
        return {}
    M, best = details.confusion, details.best_class
    matched = {int(c): k for k, c in enumerate(best) if c >= 0}
    columns = [matched[c] for c in range(len(M)) if c in matched]
    columns += [k for k in present if best[k] < 0]
    off = M.copy()
    off[list(matched), list(matched.values())] = 0
    largest = np.argsort(-off, axis=None, kind="stable")[:LARGEST_CONFUSIONS]
    pairs = np.column_stack(np.unravel_index(largest, M.shape)).tolist()
    wrong = best[details.labels] != details.truth
    stored = np.flatnonzero(wrong[details.shown])
    order = np.argsort(-details.confidence[details.shown[stored]], kind="stable")
    return {
        "matrix": confusion(
            M[:, columns],
            details.class_names.tolist(),
            [titles[k] for k in columns],
            f"Confusion matrix of {len(M)} classes and {len(columns)} clusters; the diagonal is "
            "the best matching.",
        ),
        "confusions": [(c, k, M[c, k], M[c, k] / M[c].sum()) for c, k in pairs if off[c, k]],
        "wrong": int(wrong.sum()),
        "mistakes": stored[order].tolist(),
    }


def confusion(
    counts: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str
) -> Mapping[str, Any]:
    """Counts (rows, columns) and their shares of each row, for a table or else a picture."""
    return {
        "counts": counts,
        "shares": counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        "rows": list(rows),
        "columns": list(columns),
        "title": title,
        "table": max(counts.shape) <= TABLE_LIMIT,
    }
