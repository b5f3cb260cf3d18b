"""Label new samples with the model of a run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dcfsc.datasets import Dataset, check_finite
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.files import atomic_path
from dcfsc.machine import resolve_device

from .folder import read_run
from .life import FEATURES, MODEL, PREDICTIONS, reserved, write_errors
from .tables import Columns, certainty_columns, write_labels


def predict_run(
    run: str | os.PathLike[str], data: Dataset, out: Path | None = None, *, device: str = "auto"
) -> np.ndarray:
    """Label ``data`` (n, ...) with a run's model; write and return the labels (n,).

    ``out`` is the file to write, by default ``predictions.csv`` in the run's folder.
    """
    saved = read_run(run)
    if not saved.record["model"]:
        raise InputError(
            f"the method {saved.record['method']!r} of the run {run} labels only the samples it "
            "was fitted on; fit the new samples, or use a method with a model, such as "
            "closed-form or dcfsc."
        )
    check_finite(data.X, data.name)
    resolve_device(device)
    target = Path(out) if out is not None else saved.folder / PREDICTIONS
    if target.is_dir():
        raise InputError(f"{target} is a folder; give the name of a .csv file.")
    model = load_model(saved.folder / MODEL, device=device)
    transformer = None
    if saved.record.get("features"):
        transformer = load_model(saved.folder / FEATURES, device=device)
    with reserved(target.parent):
        X = data.X
        if transformer is not None:
            X = transformer.transform(X)
        labels, more = _predicted(model.predict_proba(X))
        with write_errors(target), atomic_path(target) as part:
            write_labels(part, data, labels, more)
    return labels


def _predicted(p: np.ndarray) -> tuple[np.ndarray, Columns]:
    """The likeliest clusters (n,) by the probabilities p (n, K), and how sure they are."""
    labels = p.argmax(axis=1)
    others = p.copy()
    others[np.arange(len(p)), labels] = -1.0
    next_best = others.argmax(axis=1) if p.shape[1] > 1 else np.full(len(p), -1)
    return labels, certainty_columns(p.max(axis=1), next_best)
