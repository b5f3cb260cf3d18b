"""Plots of fitted estimators on matplotlib axes.

Each function draws on ``ax`` and returns it. Without ``ax`` it draws on a new figure of
``matplotlib.pyplot``, which thereby becomes the current one, so that a notebook shows it and
``plt.savefig`` saves it; an existing picture is never drawn over. With ``ax`` pyplot is not even
imported. Settings (``rcParams``, styles, the backend) are never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dcfsc.errors import InputError

from .views import block_means, cluster_mass, plane_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_RULES = 24  # between clusters; more would hide the picture
MOST_NAMED = 20  # clusters in a legend
BRIGHTEST = 99.0  # percentile of the affinities that is drawn as the darkest


def plot_affinity(estimator_or_matrix: Any, labels: Any = None, ax: Axes | None = None) -> Axes:
    """The affinity with samples ordered by cluster: clusters are dark blocks on the diagonal.

    Parameters
    ----------
    estimator_or_matrix : a fitted estimator, or a matrix (N, N), dense or sparse
    labels : array (N,) or None
        What the samples are ordered by; None is the estimator's ``labels_``. Known classes show
        which of them the graph keeps together.
    """
    A = getattr(estimator_or_matrix, "affinity_matrix_", None)
    if A is None:
        A = _matrix(estimator_or_matrix)
    A = sp.csr_array(A) if sp.issparse(A) else np.asarray(A)
    if labels is None:
        labels = getattr(estimator_or_matrix, "labels_", np.zeros(A.shape[0], np.int64))
    found = _codes(labels, A.shape[0])
    blocks = block_means(A, np.argsort(found, kind="stable"))
    positive = blocks[blocks > 0]
    top = float(np.percentile(positive, BRIGHTEST)) if len(positive) else 1.0
    ax = _axes(ax)
    n = A.shape[0]
    ax.imshow(blocks, cmap="Grays", vmin=0.0, vmax=top, extent=(0, n, n, 0), interpolation="none")
    edges = np.cumsum(np.bincount(found))[:-1]
    for edge in edges if len(edges) < MOST_RULES else ():
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
    subject = estimator_or_values
    if hasattr(subject, "spectrum"):
        values = np.asarray(subject.spectrum())
        asked = getattr(subject, "n_clusters_", None)
    elif hasattr(subject, "eigenvalues"):
        values, asked = np.asarray(subject.eigenvalues), subject.k
    else:
        values, asked = np.asarray(subject, np.float64), None
    if values.ndim != 1 or not len(values):
        raise InputError(f"plot_spectrum needs eigenvalues (k,); got shape {values.shape}.")
    asked = n_clusters if n_clusters is not None else asked
    ax = _axes(ax)
    rank = np.arange(1, len(values) + 1)
    ax.plot(rank, values, "o", markersize=4, color="tab:gray")
    if asked is not None:
        ax.plot(rank[:asked], values[:asked], "o", markersize=4, color="tab:blue")
        ax.axvline(asked + 0.5, color="tab:blue", linewidth=0.8, linestyle="--")
        ax.annotate(
            f"K = {asked}", (asked + 0.5, 1.0), (4, -10), ("data", "axes fraction"), "offset points"
        )
    ax.set(xlabel="rank", ylabel="eigenvalue", title="spectrum of the normalized affinity")
    return ax


def plot_history(estimator_or_history: Any, column: str = "loss", ax: Any = None) -> Axes:
    """A column of the history against the step, one line a phase.

    Phases have losses of different kinds (a sum over mini-batches, a sum over all samples), so the
    vertical axis is logarithmic where all values are positive.
    """
    history = getattr(estimator_or_history, "history_", estimator_or_history)
    lines: dict[str, list[tuple[int, float]]] = {}
    try:
        for row in history:
            if column in row:
                lines.setdefault(row["phase"], []).append((row["step"], row[column]))
        known = sorted({name for row in history for name in row} - {"phase", "step"})
    except (TypeError, KeyError):
        raise InputError(
            f"plot_history needs a fitted estimator with a history_, or one; got "
            f"{type(estimator_or_history).__name__}."
        ) from None
    if not lines:
        raise InputError(f"the history has no column {column!r}; known: {', '.join(known)}.")
    ax = _axes(ax)
    for phase, points in lines.items():
        ax.plot(*np.array(points, np.float64).T, label=phase)
    if all(value > 0 for points in lines.values() for _, value in points):
        ax.set_yscale("log")
    ax.set(xlabel="step", ylabel=column, title="training")
    ax.legend(frameon=False)
    return ax


def plot_embedding(estimator: Any, labels: Any = None, ax: Any = None) -> Axes:
    """The spectral embedding in a plane, the clusters around a circle; as in the report.

    A sample between two clusters lies between their places. Colors are ``labels``: the
    estimator's own, or known classes, which then show where the clusters differ from them.
    """
    for name in ("embedding_", "affinity_matrix_", "labels_"):
        if not hasattr(estimator, name):
            raise InputError(
                f"plot_embedding needs a fitted estimator; {type(estimator).__name__} has no "
                f"{name} (a loaded model has none)."
            )
    A, own = estimator.affinity_matrix_, np.asarray(estimator.labels_)
    A = sp.csr_array(A) if sp.issparse(A) else np.asarray(A)
    view = plane_view(estimator.embedding_, own, cluster_mass(A, own, estimator.n_clusters_))
    found = own if labels is None else _codes(labels, len(own))
    names = found if labels is None else np.asarray(labels)
    ax = _axes(ax)
    shown = np.unique(found)
    for code in shown:
        here = found == code
        label = str(names[here][0]) if len(shown) <= MOST_NAMED else None
        ax.scatter(*view[here].T, s=8, linewidths=0, color=f"C{code % 10}", label=label)
    if len(shown) <= MOST_NAMED:
        ax.legend(frameon=False, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.set(xticks=[], yticks=[], title="spectral embedding")
    ax.set_aspect("equal")
    return ax


def plot_lambda_path(estimator_or_path: Any, ax: Any = None) -> Axes:
    """Effective degrees of freedom tr H along lam, and the leave-one-out error on a second axis.

    Parameters
    ----------
    estimator_or_path : a fitted ClosedFormSubspaceClustering or DCFSC, or rows of lam, tr H and
        error (p, 3), as its ``lambda_path()`` gives them. The estimator's lam is marked.
    """
    subject = estimator_or_path
    path = subject.lambda_path() if hasattr(subject, "lambda_path") else np.asarray(subject)
    if path.ndim != 2 or path.shape[1] != 3:
        raise InputError(f"a lambda path has rows of three numbers; got shape {path.shape}.")
    ax = _axes(ax)
    (dof,) = ax.plot(path[:, 0], path[:, 1], color="tab:blue", label="tr H")
    lines = [dof]
    if np.isfinite(path[:, 2]).any():
        error = ax.twinx()
        lines += error.plot(path[:, 0], path[:, 2], color="tab:orange", label="leave-one-out error")
        error.set_ylabel("|Z - BZ|² / |Z|²")
    lam = getattr(subject, "lam_", None)
    if lam is not None:
        lines.append(ax.axvline(lam, color="tab:gray", linestyle="--", label=f"lam = {lam:.3g}"))
    ax.set_xscale("log")
    ax.set(xlabel="lam", ylabel="effective degrees of freedom", title="lambda path")
    ax.legend(handles=lines, frameon=False)
    return ax


def _axes(ax: Axes | None) -> Axes:
    """The axes given, or those of a new pyplot figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise InputError(
            "plots need matplotlib, which is not installed; run 'pip install dcfsc[plots]'."
        ) from None
    return plt.subplots(layout="constrained")[1]


def _matrix(given: Any) -> Any:
    shape = getattr(given, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(
            f"plot_affinity needs a fitted estimator (a loaded one has no affinity_matrix_) or a "
            f"square matrix; got {type(given).__name__}"
            + (f" of shape {tuple(shape)}." if shape else ".")
        )
    return given


def _codes(labels: Any, n: int) -> np.ndarray:
    """Labels of any kind as whole numbers (n,) from 0, in their sorted order."""
    found = np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    if len(found) != n:
        raise InputError(f"there are {n} samples, but {len(found)} labels.")
    return found
