"""Published weights are named in protocols and records, and handed to the estimators as paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcfsc import AutoencoderFeatures
from research.experiments.pipeline import parameters
from research.experiments.protocols import PROTOCOLS, located


def test_records_name_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCFSC_DATA", str(tmp_path))
    file = tmp_path / "weights" / "dsc_orl.safetensors"
    file.parent.mkdir()
    file.write_bytes(b"")
    options = PROTOCOLS["orl"].start
    assert options["weights"] == "dsc_orl"
    assert located(options) == {**options, "weights": file}
    assert parameters(AutoencoderFeatures(**located(options)))["weights"] == "dsc_orl"
    untrained = PROTOCOLS["coil100"].start
    assert located(untrained) == untrained
