"""Runs for tests, in one line each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from dcfsc.io import Dataset
from dcfsc.runs.executor import execute
from dcfsc.runs.folder import Run
from dcfsc.runs.request import RunRequest


def fit_run(
    data: Dataset,
    method: str,
    options: Mapping[str, Any],
    out: Path | None = None,
    *,
    started: Callable[[dict[str, Any]], None] | None = None,
    report: bool = False,
    **more: Any,
) -> Run:
    """Fit and write a run, without a report unless asked for."""
    request = RunRequest(data, method, options, out=out, report=report, **more)
    run = execute(request, started)
    assert run is not None
    return run


def write_checkpoint(path: Path) -> None:
    """What a training leaves behind that was interrupted, as far as its header tells."""
    header = {"format": 1, "identity": "a", "phase": "train", "step": 3}
    save_file({"x": np.zeros(1)}, path, metadata={"dcfsc": json.dumps(header)})
