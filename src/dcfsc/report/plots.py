"""Plots of fitted estimators on matplotlib axes.

Each function draws on ``ax`` and returns it. Without ``ax`` it draws on a new figure of
``matplotlib.pyplot``, which becomes the current one, so that a notebook shows it and
``plt.savefig`` saves it. With ``ax`` pyplot is not imported. Settings (``rcParams``, styles, the
backend) never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dcfsc.errors import InputError

from . import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURES = ("svg", "pdf", "png")
MOST_NAMED, NAMED_IN_COLUMN = 60, 20  # clusters in a legend
MOST_VECTORS = 20_000  # samples drawn one by one in an SVG or PDF


def plot_affinity(estimator_or_matrix: Any, labels: Any = None, ax: Axes | None = None) -> Axes:
    """The affinity with samples ordered by cluster: clusters are dark blocks on the diagonal.

    Parameters
    ----------
    estimator_or_matrix : a fitted estimator, or a matrix (N, N), dense or sparse
    labels : array (N,) or None
        What the samples are ordered by; None is the estimator's ``labels_``. Known classes show
        which of them the graph keeps together.
    """
    A = _affinity(estimator_or_matrix)
    n = A.shape[0]
    if labels is None:
        labels = getattr(estimator_or_matrix, "labels_", np.zeros(n, np.int64))
    codes = _codes(labels, n)
    means = drawing.block_means(A, np.argsort(codes, kind="stable"))
    blocks = drawing.Blocks(means, np.bincount(codes))
    ax = _axes(ax)
    from matplotlib.colors import PowerNorm

    scale = PowerNorm(0.5, 0.0, blocks.top, clip=True)
    ax.imshow(blocks.means, "Grays", norm=scale, extent=(0, n, n, 0), interpolation="none")
    for edge in blocks.rules[1:-1]:
        ax.axhline(edge, color="tab:blue", linewidth=0.6)
        ax.axvline(edge, color="tab:blue", linewidth=0.6)
    ax.set(xlabel="sample, ordered by cluster", ylabel="sample", title="affinity")
    return ax


def plot_spectrum(estimator_or_values: Any, n_clusters: int | None = None, ax: Any = None) -> Axes:
    """Leading eigenvalues of the normalized affinity; K clusters show as a drop after the K-th.

    Parameters
    ----------
    estimator_or_values : a fitted estimator, what ``dcfsc.suggest_k`` returned, or eigenvalues
        in descending order
    n_clusters : int or None
        The K to mark; None is the estimator's or the suggestion's.
    """
    values, K = _spectrum(estimator_or_values, n_clusters)
    ax = _axes(ax)
    rank = np.arange(1, len(values) + 1)
    ax.plot(rank, values, "o", markersize=4, color="tab:gray")
    if K is not None:
        ax.plot(rank[:K], values[:K], "o", markersize=4, color="tab:blue")
        ax.axvline(K + 0.5, color="tab:blue", linewidth=0.8, linestyle="--")
        place = ("data", "axes fraction")
        ax.annotate(f"K = {K}", (K + 0.5, 1.0), (4, -10), place, "offset points")
    ax.set(xlabel="rank", ylabel="eigenvalue", title="spectrum of the normalized affinity")
    return ax


def plot_history(estimator_or_history: Any, column: str = "loss", ax: Any = None) -> Axes:
    """A column of the history against the step, one line a phase.

    Phases have losses of different kinds (a sum over mini-batches, a sum over all samples), so the
    vertical axis is logarithmic where all values are positive.
    """
    history = getattr(estimator_or_history, "history_", estimator_or_history)
    try:
        lines = drawing.curves(history, column)
        known = sorted({name for row in history for name in row} - {"phase", "step"})
    except (TypeError, KeyError, AttributeError):
        raise InputError(
            f"plot_history needs a fitted estimator with a history_, or one; got "
            f"{type(estimator_or_history).__name__}."
        ) from None
    if not lines:
        raise InputError(f"the history has no column {column!r}; known: {', '.join(known)}.")
    ax = _axes(ax)
    for phase, line in lines.items():
        ax.plot(*line, label=phase)
    if all((line[1] > 0).all() for line in lines.values()):
        ax.set_yscale("log")
    ax.set(xlabel="step", ylabel=column, title="training")
    ax.legend(frameon=False)
    return ax


def plot_embedding(
    estimator: Any, labels: Any = None, ax: Any = None, names: Mapping[int, str] | None = None
) -> Axes:
    """The map of the report: the spectral embedding in a plane, the clusters around a circle.

    A sample between two clusters lies between their places. Colors are ``labels``: the
    estimator's own, or known classes, which then show where the clusters differ from them.
    ``names`` are those of clusters, for the legend.
    """
    for name in ("embedding_", "affinity_matrix_", "labels_"):
        if not hasattr(estimator, name):
            raise InputError(
                f"plot_embedding needs a fitted estimator; {type(estimator).__name__} has no "
                f"{name} (a loaded model has none)."
            )
    own, K = np.asarray(estimator.labels_), estimator.n_clusters_
    mass = drawing.cluster_mass(_affinity(estimator), own, K)
    places = drawing.plane_view(estimator.embedding_, own, mass)
    if labels is None:
        return draw_map(places, own, [str((names or {}).get(k, k)) for k in range(K)], _axes(ax))
    titles = [str(name) for name in np.unique(labels)]
    return draw_map(places, _codes(labels, len(own)), titles, _axes(ax), "label")


def draw_map(
    places: np.ndarray, codes: np.ndarray, titles: Sequence[str], ax: Any, kind: str = "cluster"
) -> Axes:
    """Samples at ``places`` (N, 2) in the colors of their groups ``codes`` (N,), with a legend."""
    colors, groups = drawing.cluster_colors(len(titles)), np.unique(codes)
    many = len(places) > MOST_VECTORS  # which no program would open
    for code in groups:
        title = " " * titles[code].startswith("_") + titles[code].replace("$", r"\$")
        place = places[codes == code].T
        ax.scatter(*place, s=8, linewidths=0, color=colors[code], label=title, rasterized=many)
    if len(groups) <= MOST_NAMED:
        outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        columns = -(-len(groups) // NAMED_IN_COLUMN)
        ax.legend(frameon=False, markerscale=2, title=kind, ncols=columns, **outside)
    ax.set(xlabel="x (no unit)", ylabel="y (no unit)", title="map: the spectral embedding")
    ax.set_aspect("equal")
    return ax


def write_map(path: Path, kind: str, places: Any, codes: Any, titles: Sequence[str]) -> None:
    """Write what :func:`draw_map` draws as a file of this kind, one of ``PICTURES``."""
    with _matplotlib():
        from matplotlib.figure import Figure
    figure = Figure(figsize=(7.5, 6), layout="constrained")
    draw_map(places, codes, titles, figure.subplots())
    figure.savefig(path, format=kind, dpi=200)


def plot_lambda_path(estimator_or_path: Any, ax: Any = None) -> Axes:
    """Effective degrees of freedom tr H along lam, and the leave-one-out error on a second axis.

    Parameters
    ----------
    estimator_or_path : a fitted ClosedFormSubspaceClustering or DCFSC, or rows of lam, tr H and
        error (p, 3), as its ``lambda_path()`` gives them. The estimator's lam is marked.
    """
    subject = estimator_or_path
    rows = subject.lambda_path() if hasattr(subject, "lambda_path") else np.asarray(subject)
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise InputError(f"a lambda path has rows of three numbers; got shape {rows.shape}.")
    path = drawing.LambdaPath.of(rows, lam := getattr(subject, "lam_", None))
    ax = _axes(ax)
    lines = ax.plot(path.lam, path.dof, color="tab:blue", label="tr H")
    if path.has_error:
        error = ax.twinx()
        lines += error.plot(path.lam, path.error, color="tab:orange", label="leave-one-out error")
        error.set_ylabel("|Z - BZ|² / |Z|²")
    if lam is not None:
        lines.append(ax.axvline(lam, color="tab:gray", linestyle="--", label=f"lam = {lam:.3g}"))
    ax.set_xscale("log")
    ax.set(xlabel="lam", ylabel="effective degrees of freedom", title="lambda path")
    ax.legend(handles=lines, frameon=False)
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    with _matplotlib():
        import matplotlib.pyplot as plt
    return plt.subplots(layout="constrained")[1]


@contextmanager
def _matplotlib() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise InputError(
            "plots need matplotlib, which is not installed; run 'pip install dcfsc[plots]'."
        ) from None


def _affinity(subject: Any) -> Any:
    A = getattr(subject, "affinity_matrix_", subject)
    shape = getattr(A, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != shape[1]:
        of_shape = f" of shape {tuple(shape)}" if shape else ""
        raise InputError(
            "plot_affinity needs a fitted estimator (a loaded one has no affinity_matrix_) or a "
            f"square matrix; got {type(subject).__name__}{of_shape}."
        )
    return sp.csr_array(A) if sp.issparse(A) else np.asarray(A)


def _spectrum(subject: Any, n_clusters: int | None) -> tuple[np.ndarray, int | None]:
    """The eigenvalues of an estimator or a suggestion, or those given, and the K to mark."""
    if hasattr(subject, "spectrum"):
        values, asked = subject.spectrum(), getattr(subject, "n_clusters_", None)
    elif hasattr(subject, "eigenvalues"):
        values, asked = subject.eigenvalues, subject.k
    else:
        values, asked = np.asarray(subject, np.float64), None
    values = np.asarray(values)
    if values.ndim != 1 or not len(values):
        raise InputError(f"plot_spectrum needs eigenvalues (k,); got shape {values.shape}.")
    return values, asked if n_clusters is None else n_clusters


def _codes(labels: Any, n: int) -> np.ndarray:
    """Labels of any kind as whole numbers (n,) from 0, in their sorted order."""
    codes = np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    if len(codes) != n:
        raise InputError(f"there are {n} samples, but {len(codes)} labels.")
    return codes
