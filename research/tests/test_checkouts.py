"""The comparison of two checkouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcfsc.errors import InputError
from research.benchmarks import checkouts, fits
from research.record import ROOT


def test_the_ratio_is_of_the_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {str(ROOT): iter([1.0, 9.0, 2.0] * 2), "other": iter([4.0, 3.0, 50.0] * 2)}
    monkeypatch.setattr(
        checkouts, "in_checkout", lambda checkout, *_: {"seconds": next(seconds[checkout])}
    )
    rows: Any = dict(checkouts.compare_seconds("other", repeats=3))
    assert rows["digits"] == {"here": 2.0, "other": 4.0, "ratio": 0.5}


@pytest.mark.slow
def test_a_process_of_its_own_measures_a_fit() -> None:
    X = np.random.default_rng(0).normal(size=(160, 5))
    assert 0 < checkouts.in_checkout(str(ROOT), fits.seconds, X, 10)["seconds"] < 600


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"there is no src/dcfsc in {tmp_path}"):
        checkouts.in_checkout(str(tmp_path), fits.seconds, np.eye(2), 1)
