"""Pictures for runs."""

from __future__ import annotations

import numpy as np
import pytest

from dcfsc.io import Dataset


@pytest.fixture(scope="session")
def bars() -> Dataset:
    """Bars that lie and bars that stand, at random places."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, (80, 16, 16)).astype(np.uint8)
    for i in range(80):
        place = rng.integers(3, 12)
        X[i][(slice(place, place + 2), slice(3, 13)) if i % 2 else (slice(3, 13), place)] = 250
    return Dataset("bars", X, np.arange(80) % 2)
