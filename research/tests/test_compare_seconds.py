"""The comparison of two checkouts' seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from research.benchmarks import compare_seconds


def test_the_ratio_is_of_the_medians() -> None:
    row = compare_seconds.row("digits", [1.0, 9.0, 2.0], [4.0, 3.0, 50.0])
    assert row.split() == ["digits", "2.00", "4.00", "0.50"]


@pytest.mark.slow
def test_a_process_of_its_own_measures_a_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "digits.npy", np.random.default_rng(0).normal(size=(160, 5)))
    assert 0 < compare_seconds.measured(Path(__file__).parents[2], tmp_path / "digits.npy") < 600


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["compare_seconds", str(tmp_path)])
    with pytest.raises(SystemExit):
        compare_seconds.main()
    assert f"there is no src/dcfsc in {tmp_path}" in capsys.readouterr().err
