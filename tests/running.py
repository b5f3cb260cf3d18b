"""Runs for tests, in one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcfsc.datasets import Dataset
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
