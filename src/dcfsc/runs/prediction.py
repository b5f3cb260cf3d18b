"""Label new samples with the model of a run."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.io import Dataset, Streamed
from dcfsc.io.images import Reading
from dcfsc.io.streamed import Derived
from dcfsc.io.table_reading import TableReading
from dcfsc.ownership import Output, named_like

from .folder import Run, read_run
from .life import PREDICTIONS, reserved
from .outputs import adopt, output_of
from .predictor import Predictor, check_model, load_models
from .tables import certainty_columns, no_formula, write_labels


def predict_run(
    run: Run | str | os.PathLike[str],
    data: Dataset,
    out: Path | None = None,
    *,
    device: str = "auto",
    overwrite: bool = False,
    inputs: Sequence[Path] = (),
) -> tuple[np.ndarray, Path]:
    """Label ``data`` (n, ...) with a run's model; the labels (n,), and the file that has them.

    Clusters are as edited: merged, split and named (:mod:`dcfsc.runs.edits`).
    ``out`` is the file to write, by default the first of ``predictions.csv``,
    ``predictions-2.csv``, ... that is free in the run's folder. ``inputs`` are the files that the
    data come from, which are never written to.
    """
    predictor = Predictor(run, device=device)
    saved, edits = predictor.run, predictor.edits
    if out is None:
        adopt(saved.folder)
        output = Output.numbered(saved.folder / PREDICTIONS, own=saved.folder)
    else:
        out = Path(out)
        read = [*inputs, *named_like(out, data.paths)]
        output = output_of(saved.folder, out, overwrite=overwrite, inputs=read)
    if predictor.of_texts != (data.texts is not None):
        asked, there = ("texts", "none") if predictor.of_texts else ("numbers or images", "texts")
        raise InputError(f"the run {saved.folder} is of {asked}; {data.name} holds {there}.")
    if {*map(type, (predictor.reading, data.reading))} == {Reading, TableReading}:
        asked = "images" if isinstance(predictor.reading, Reading) else "a table"
        raise InputError(f"the run {saved.folder} is of {asked}; {data.name} is not.")
    X = in_order(data, predictor.feature_names)
    with reserved(output.target.parent):
        found = predictor.label(X, data.name)
        more = certainty_columns(found.confidence, found.next_best)
        if edits.names:
            more = {"name": map(no_formula, found.name), **more}
        with output.open() as part:
            write_labels(part, data, found.cluster, more)
    return found.cluster, output.target


def load(path: str | os.PathLike[str], device: Any = None) -> Any:
    """Load a fitted estimator: the file that ``save`` wrote, or the folder of a run.

    If the run computed features first, the result is a scikit-learn pipeline of the transformer and
    the clustering. Names, merges and splits of clusters (``dcfsc edit``) are not part of the model.

    Parameters
    ----------
    path : file or folder
    device : "auto", "cpu", "cuda", ... or None
        None is the device in the saved parameters.

    Examples
    --------
    >>> from dcfsc import ClosedFormSubspaceClustering, load
    >>> from dcfsc.io import synthetic
    >>> X = synthetic(n_samples=90, n_clusters=3, random_state=0).X
    >>> model = ClosedFormSubspaceClustering(3, random_state=0).fit(X)
    >>> model.save("model.safetensors")
    >>> load("model.safetensors").predict(X[:5]).shape
    (5,)
    """
    if not Path(path).is_dir():
        return load_model(path, device=device)
    saved = read_run(path)
    check_model(saved)
    transformer, model = load_models(saved, device)
    return model if transformer is None else make_pipeline(transformer, model)


def in_order(data: Dataset, names: Sequence[str] | None) -> Any:
    """The samples, with the columns of a table in the order of the ``names`` that a model knows."""
    given, X = data.feature_names, data.X
    if names is None or given == list(names):
        return X
    if given is None:
        if X.shape[1:] == (len(names),):
            warnings.warn(
                f"the columns of {data.name} have no names; they are taken in the run's order.",
                UserWarning,
                stacklevel=3,
            )
        return X
    pairs = {"missing": Counter(names) - Counter(given), "extra": Counter(given) - Counter(names)}
    wrong = [f"{', '.join(map(repr, [*c][:5]))} {word}" for word, c in pairs.items() if c]
    if wrong or len(set(given)) < len(given):
        reason = " and ".join(wrong) or "some names are there twice, in another order"
        raise InputError(f"the columns of {data.name} are not those of the run: {reason}.")
    order = [given.index(name) for name in names]
    if isinstance(X, Streamed):
        return Derived(X, lambda rows: rows[:, order], X.shape[1:], X.dtype)
    return X[:, order]
