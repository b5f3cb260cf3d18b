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
from dcfsc.estimators.encoder_features import TextEncoderFeatures
from dcfsc.estimators.registry import load_model
from dcfsc.io import Dataset, Streamed, check_finite
from dcfsc.io.streamed import Derived
from dcfsc.machine import resolve_device
from dcfsc.ownership import Output, named_like

from .edits import Edits, read_edits
from .folder import Run, read_run
from .life import FEATURES, MODEL, PREDICTIONS, reserved
from .outputs import adopt, output_of
from .tables import Columns, certainty_columns, no_formula, write_labels


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
    saved = run if isinstance(run, Run) else read_run(run)
    _check_model(saved)
    resolve_device(device)
    if out is None:
        adopt(saved.folder)
        output = Output.numbered(saved.folder / PREDICTIONS, own=saved.folder)
    else:
        out = Path(out)
        read = [*inputs, *named_like(out, data.paths)]
        output = output_of(saved.folder, out, overwrite=overwrite, inputs=read)
    edits = read_edits(saved)
    parts = saved.details().parts if edits.has_splits else None
    transformer, model = _models(saved, device)
    first = model if transformer is None else transformer
    of_texts = isinstance(first, TextEncoderFeatures)
    if of_texts != (data.texts is not None):
        asked, there = ("texts", "none") if of_texts else ("numbers or images", "texts")
        raise InputError(f"the run {saved.folder} is of {asked}; {data.name} holds {there}.")
    if not of_texts:
        check_finite(data.X, data.name)
    X = in_order(data, vars(first).pop("feature_names_in_", None))
    with reserved(output.target.parent):
        if transformer is not None:
            X = transformer.transform(X)
        p = model.predict_proba(X)
        if edits.commands:
            p = edited_probabilities(p, edits, _second_shares(model, X, parts))
        labels, more = _predicted(p, edits)
        with output.open() as part:
            write_labels(part, data, labels, more)
    return labels, output.target


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
    _check_model(saved)
    transformer, model = _models(saved, device)
    return model if transformer is None else make_pipeline(transformer, model)


def _check_model(saved: Run) -> None:
    if not saved.record["model"]:
        raise InputError(
            f"the method {saved.record['method']!r} of the run {saved.folder} labels only the "
            "samples it was fitted on; fit the new samples, or use a method with a model, such as "
            "closed-form or dcfsc."
        )


def _models(saved: Run, device: Any) -> tuple[Any, Any]:
    model = load_model(saved.file(MODEL), device=device)
    if not saved.record.get("features"):
        return None, model
    return load_model(saved.file(FEATURES), device=device), model


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


def edited_probabilities(p: np.ndarray, edits: Edits, second: np.ndarray) -> np.ndarray:
    """Probabilities of the present clusters from those of the fit, p (n, K).

    Merged clusters have the sum; of a cluster that was split, the share ``second`` (n, K) goes to
    its second half.
    """
    present = np.zeros((len(p), int(edits.place.max()) + 1))
    for cluster, (first, other) in enumerate(edits.place):
        share = second[:, cluster] if first != other else 0.0
        present[:, first] += p[:, cluster] * (1.0 - share)
        present[:, other] += p[:, cluster] * share
    return present


def _second_shares(model: Any, X: Any, parts: np.ndarray | None) -> np.ndarray:
    """The share (n, K) of the votes for each cluster that its second half has."""
    K = model.n_clusters_
    if parts is None:
        return np.zeros((len(X), K))
    votes = model.votes(X, parts.astype(np.int64), 2 * K).reshape(-1, K, 2)
    total = votes.sum(axis=2)
    return np.where(total > 0, votes[:, :, 1] / np.where(total > 0, total, 1.0), 0.5)


def _predicted(p: np.ndarray, edits: Edits) -> tuple[np.ndarray, Columns]:
    """The likeliest clusters (n,) by the probabilities p (n, K), and how sure they are."""
    labels, rows = p.argmax(axis=1), np.arange(len(p))
    others = p.copy()
    others[:, np.setdiff1d(np.arange(p.shape[1]), edits.clusters)] = -1.0
    others[rows, labels] = -1.0
    next_best = others.argmax(axis=1)
    next_best[others[rows, next_best] < 0] = -1  # there is no other cluster
    more = certainty_columns(p[rows, labels], next_best)
    if edits.names:
        more = {"name": [no_formula(edits.title(k)) for k in labels], **more}
    return labels, more
