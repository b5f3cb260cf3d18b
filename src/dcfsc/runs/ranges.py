"""What values the columns of a fit had, so that new samples of another kind are noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LOOKED_AT, VALUES = 20_000, 1 << 22  # rows of the fit, and values in them
TAIL, MARGIN, ROUNDING = 0.005, 0.25, 1e-3
FEW = 0.05  # of the values of a column may lie outside; of the fit's own it is 0.01 at most


def column_ranges(X: Any) -> list[list[float]] | None:
    """The lowest and highest values that columns of X (n, d) are expected to have; None for images.

    They are the quantiles ``TAIL`` and 1 - ``TAIL``, and ``MARGIN`` of the distance of the two
    beyond them.
    """
    if X.ndim != 2:
        return None
    most = min(len(X), LOOKED_AT, max(1, VALUES // X.shape[1]))
    rows = np.unique(np.linspace(0, len(X) - 1, most).astype(np.int64))
    low, high = np.quantile(np.asarray(X[rows], np.float64), (TAIL, 1.0 - TAIL), axis=0)
    margin = MARGIN * (high - low) + ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return [[float(f"{v:.5g}") for v in side.tolist()] for side in (low - margin, high + margin)]


def far_columns(ranges: Sequence[Sequence[float]], X: np.ndarray) -> np.ndarray:
    """The columns of X (n, d) in which more than a few values lie outside."""
    low, high = np.asarray(ranges)
    if X.shape[1] != len(low):
        return np.zeros(0, np.int64)
    inside = ((low <= X) & (high >= X)).mean(axis=0)
    return np.flatnonzero(inside < 1.0 - FEW)
