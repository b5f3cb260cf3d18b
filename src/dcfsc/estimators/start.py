"""How every fit begins: samples and parameters are checked before the work."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from dcfsc import processes
from dcfsc.machine import resolve_device

from . import sharded
from .suggest import number_for
from .validation import check_array


def begin(estimator: Any, X: Any) -> tuple[Any, int, np.random.RandomState, torch.device]:
    """The checked samples X, their number of clusters, the random state and the device."""
    least = 1 if processes.active() else 2  # a share may be one sample
    X = check_array(estimator, X, reset=True, least_samples=least)
    n_clusters = estimator.n_clusters_ = number_for(estimator, X)
    random_state = estimator.random_state
    if processes.active():
        sharded.check_choices(estimator, n_clusters)
        random_state = sharded.common_seed(random_state)
    return X, n_clusters, check_random_state(random_state), resolve_device(estimator.device)
