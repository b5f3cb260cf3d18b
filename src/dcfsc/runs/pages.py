"""The report of a fitted estimator without a run: as a file, or shown in a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Page:
    """A report in memory; a notebook shows it where it is the value of a cell."""

    html: str = field(repr=False)
    title: str
    height: int = 800

    def _repr_html_(self) -> str:
        """The page in a frame that can reach nothing of the notebook."""
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts allow-downloads '
            f'allow-popups" style="width:100%;height:{self.height}px;border:0" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )


def write_report(
    model: Any, X: Any, path: str | os.PathLike[str], *, overwrite: bool = False, **options: Any
) -> None:
    """Write the report of a fitted estimator as one HTML page.

    Parameters
    ----------
    model, X, **options : see :func:`show`
    path : file
    overwrite : bool
        Whether to write where there is a file already; that one is kept as ``NAME.bak``.

    Examples
    --------
    >>> from dcfsc import ClosedFormSubspaceClustering, write_report
    >>> from dcfsc.io import load
    >>> data = load("digits")
    >>> model = ClosedFormSubspaceClustering(10, random_state=0).fit(data.X)
    >>> write_report(model, data.X, "digits.html", names={0: "zeros"})
    """
    if os.path.lexists(path) and not overwrite:
        kept = f"{Path(path).name}.bak"
        raise InputError(
            f"{path} exists; give another path, or overwrite=True to keep it as {kept}."
        )
    output = Output(path, overwrite=overwrite)
    page = show(model, X, base=Path(path).absolute().parent, **options)
    with output.open() as part:
        write_page(part, page.html)


def show(
    model: Any,
    X: Any,
    *,
    y: Any = None,
    names: Mapping[int, str] | None = None,
    ids: Sequence[Any] | None = None,
    base: Path | None = None,
) -> Page:
    """The report of a fitted estimator; Jupyter shows it where it is the last line of a cell.

    Parameters
    ----------
    model : fitted estimator, or a pipeline that ends in one
        A loaded model has no graph, and so no report.
    X : array, data frame or :class:`dcfsc.io.Dataset`
        What it was fitted on. Columns of a frame name the features, and its index the samples.
    y : labels (N,), or None
        Compared with the clusters.
    names : mapping of clusters to names, or None
    ids : names (N,) of the samples, or None
    base : folder from which links lead to image files; None for no links
    """
    estimator = model[-1] if isinstance(model, Pipeline) else model
    method = type(estimator).__name__
    if not hasattr(estimator, "affinity_matrix_"):
        raise InputError(
            f"a report needs a fitted clusterer; {method} has no affinity_matrix_ (a loaded model "
            "has none: fit it, or use 'dcfsc report' on its run)."
        )
    data, K = _dataset(X, y, ids), estimator.n_clusters_
    if len(data) != len(estimator.labels_):
        raise InputError(
            f"X has {len(data)} samples; {method} was fitted on {len(estimator.labels_)}."
        )
    if unknown := [k for k in names or () if k not in range(K)]:
        raise InputError(f"names has the cluster {unknown[0]!r}; there are 0 to {K - 1}.")
    asked = clone(estimator).set_params(n_clusters=K)  # it may have been "auto"
    record = describe_run(RunRequest(data, method, {}), asked, None, None)
    record |= describe_result(data, estimator)
    details = describe_details(estimator, data)
    return Page(render(record, details, names=names, ids=data.sample_names, base=base), method)


def _dataset(X: Any, y: Any, ids: Any) -> Dataset:
    if isinstance(X, Dataset):
        return X
    known: dict[str, Any] = {}
    columns = getattr(X, "columns", None)
    if columns is not None:
        known["feature_names"] = [str(name) for name in columns]
        ids = getattr(X, "index", None) if ids is None else ids
    if y is not None:
        known["y"], known["label_names"] = encode_labels(y, "y")
    ids = None if ids is None else [str(name) for name in ids]
    return Dataset("Samples", X if columns is None else np.asarray(X), ids=ids, **known)
