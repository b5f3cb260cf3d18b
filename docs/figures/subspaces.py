"""Unions of subspaces, and where subspace clustering fails: two figures.

python docs/figures/subspaces.py    # docs/images/subspaces.svg and docs/images/not_subspaces.svg
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix
from style import BLUE, GREEN, INK, MUTED, ORANGE, save

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error

COLORS = np.array([BLUE, ORANGE, GREEN])
Problem = tuple[np.ndarray, np.ndarray]


def union(bases: Sequence[object], n: int, seed: int = 0) -> Problem:
    """Points (n each) of the subspaces that the rows of each basis span, with a little noise."""
    random = np.random.default_rng(seed)
    parts = []
    for basis in bases:
        B = np.linalg.qr(np.atleast_2d(np.asarray(basis, float)).T)[0].T  # (m, D)
        points = random.uniform(-1, 1, size=(n, len(B))) @ B
        parts.append(points + 0.02 * random.normal(size=points.shape))
    return np.vstack(parts), np.repeat(np.arange(len(bases)), n)


def panels(problems: dict[str, Problem], name: str) -> None:
    """One row a problem: the groups, k-means, dcfsc."""
    rows = len(problems)
    figure = plt.figure(figsize=(9.0, 2.7 * rows + 0.2), layout="constrained")
    for row, (title, (X, y)) in enumerate(problems.items()):
        K = int(y.max()) + 1
        answers = {
            "the groups": y,
            "k-means": KMeans(K, n_init=10, random_state=0).fit_predict(X),
            "dcfsc": ClosedFormSubspaceClustering(K, random_state=0).fit_predict(X),
        }
        for column, (method, labels) in enumerate(answers.items()):
            space = X.shape[1] == 3
            axes = figure.add_subplot(
                rows, 3, 3 * row + column + 1, projection="3d" if space else None
            )
            axes.scatter(*X.T, c=COLORS[recolored(y, labels)], s=7, linewidths=0, rasterized=True)
            if space:
                axes.view_init(18, -62)
                axes.set_box_aspect(None, zoom=1.15)
            axes.set(xticks=[], yticks=[], aspect="equal")
            if space:
                axes.set_zticks([])
            else:
                axes.axhline(0, color=MUTED, lw=0.6, zorder=0)
                axes.axvline(0, color=MUTED, lw=0.6, zorder=0)
                axes.spines[:].set_visible(False)
            wrong = f", {clustering_error(y, labels):.0f}% wrong" if column else f": {title}"
            axes.set_title(method + wrong, fontsize=10, color=INK)
    save(figure, name)


def recolored(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The labels renumbered to agree with y as far as they can, so that colors agree too."""
    truth, found = linear_sum_assignment(-confusion_matrix(y, labels))
    names = np.empty(len(truth), int)
    names[found] = truth
    return names[labels]


def main() -> None:
    lines = union([[1, 0.2, 0.1], [0.3, 1, 0.2], [-0.7, 0.3, 0.8]], 130)
    plane = union([[[1, 0, 0.1], [0, 1, 0.2]], [0.3, 0.2, 1.0], [-0.7, 0.3, 0.8]], 130)
    panels({"lines": lines, "a plane and two lines": plane}, "subspaces")
    X, y = union([[[1, 0.25, 0]], [[0.3, 1, 0.2]], [[-1, 0.8, 0.3]]], 100)
    moved = X + np.array([1.2, -1.0, 1.0]), y
    flat = union([[1.0, 0.25], [0.35, 1.0], [-1.0, 0.8]], 100)
    panels({"lines, origin moved": moved, "only two features": flat}, "not_subspaces")


if __name__ == "__main__":
    main()
