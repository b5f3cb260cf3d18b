"""The report of a fitted estimator without a run: as a file, or shown in a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from dcfsc.errors import InputError
from dcfsc.io import Dataset
from dcfsc.io.dataset import encode_labels
from dcfsc.ownership import Output
from dcfsc.report import render
from dcfsc.report.page import write_page

from .details import describe_details
from .record import describe_result, describe_run
from .request import RunRequest


class Page:
    """A report in memory; a notebook shows it where it is the value of a cell."""

    def __init__(self, html: str, title: str, height: int):
        self.html, self.title, self.height = html, title, height

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.html) / 1e6:.1f} MB)"

    def _repr_html_(self) -> str:
        """The page in a frame that can reach nothing of the notebook."""
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts allow-downloads '
            f'allow-popups" style="width:100%;height:{self.height}px;border:0" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )


def write_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    y: Any = None,
    names: Mapping[int, str] | None = None,
    ids: Sequence[Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write the report of a fitted estimator as one HTML page.

    Parameters
    ----------
    model : fitted estimator, or a pipeline that ends in one
        A loaded model has no graph and cannot be drawn.
    X : array, data frame or :class:`dcfsc.io.Dataset`
        What it was fitted on. The columns of a frame name the features, its index the samples.
    path : file
    y : labels (N,), or None
        Compared with the clusters on the page.
    names : mapping of clusters to names, or None
    ids : names (N,) of the samples, or None
    overwrite : bool
        Whether to replace a file; it is kept as ``NAME.bak``.

    Examples
    --------
    >>> from dcfsc import ClosedFormSubspaceClustering, write_report
    >>> from dcfsc.io import load
    >>> data = load("digits")
    >>> model = ClosedFormSubspaceClustering(10, random_state=0).fit(data.X)
    >>> write_report(model, data.X, "digits.html", names={0: "zeros"})
    """
    if os.path.lexists(path) and not overwrite:
        raise InputError(
            f"{path} exists; give another path, or overwrite=True: it is then kept as "
            f"{Path(path).name}.bak."
        )
    output = Output(path, overwrite=overwrite)
    page = _drawn(model, X, y, names, ids, Path(path).absolute().parent)
    with output.open() as part:
        write_page(part, page.html)


def show(
    model: Any,
    X: Any,
    *,
    y: Any = None,
    names: Mapping[int, str] | None = None,
    ids: Sequence[Any] | None = None,
    height: int = 800,
) -> Page:
    """The report of a fitted estimator, for a notebook.

    In Jupyter, make it the last line of a cell, or pass it to ``display``. The parameters are those
    of :func:`write_report`; ``height`` is that of the frame, in pixels.
    """
    page = _drawn(model, X, y, names, ids)
    page.height = height
    return page


def _drawn(
    model: Any, X: Any, y: Any, names: Any, ids: Any, base: Path | None = None
) -> Page:
    estimator = model[-1] if isinstance(model, Pipeline) else model
    title = type(estimator).__name__
    if not hasattr(estimator, "affinity_matrix_") or not hasattr(estimator, "_partition"):
        raise InputError(
            f"a report needs a fitted clusterer; {title} has no affinity_matrix_ (a loaded model "
            "has none: fit it, or use 'dcfsc report' on its run)."
        )
    data = _dataset(X, y, ids)
    if len(data) != len(estimator.labels_):
        raise InputError(
            f"X has {len(data)} samples, but {title} was fitted on {len(estimator.labels_)}; give "
            "the same samples in the same order."
        )
    unknown = sorted(set(names or {}) - set(range(estimator.n_clusters_)))
    if unknown:
        raise InputError(
            f"names has cluster {unknown[0]!r}; clusters are 0 to {estimator.n_clusters_ - 1}."
        )
    asked = clone(estimator).set_params(n_clusters=estimator.n_clusters_)  # it may have been "auto"
    record = describe_run(RunRequest(data, title, {}), asked, None, None)
    record |= describe_result(data, estimator)
    details = describe_details(estimator, data)
    options = {"names": names, "ids": data.sample_names, "base": base}
    return Page(render(record, details, **options), f"{data.name}: {title}", 800)


def _dataset(X: Any, y: Any, ids: Any) -> Dataset:
    if isinstance(X, Dataset):
        return X
    columns, index = getattr(X, "columns", None), getattr(X, "index", None)
    if ids is None and columns is not None and index is not None:
        ids = index
    classes, labels = (None, None) if y is None else encode_labels(y, "y")
    return Dataset(
        "Samples",
        np.asarray(X) if columns is not None else X,
        classes,
        label_names=labels,
        feature_names=None if columns is None else [str(name) for name in columns],
        ids=None if ids is None else [str(name) for name in ids],
    )
