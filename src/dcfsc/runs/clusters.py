"""The number of clusters of a run that was not given one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from dcfsc.errors import InputError
from dcfsc.estimators.suggest import drawn, suggest_k
from dcfsc.io import Dataset
from dcfsc.pipeline import MOST_SAMPLES as MAX_SAMPLES
from dcfsc.selection import Suggestion


def suggest_for_run(
    data: Dataset,
    options: Mapping[str, Any],
    transformer: Any = None,
    *,
    method: str = "closed-form",
    max_k: int | None = None,
) -> Suggestion:
    """Suggest numbers of clusters for the samples, or for their features, without the labels.

    At most ``MAX_SAMPLES`` random samples are used, drawn before features are computed.
    ``options`` are those of :func:`dcfsc.suggest_k`; None means not given.
    """
    given = {key: value for key, value in options.items() if value is not None}
    X = drawn(data.X, MAX_SAMPLES, np.random.RandomState(given.get("random_state")))
    if transformer is not None:
        if method == "dcfsc":
            raise InputError("--features and --method dcfsc are two networks; give one of them.")
        X = clone(transformer).fit_transform(X)
    return suggest_k(X, max_k, method=method, **given)
