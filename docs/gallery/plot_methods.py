"""
Comparing methods
=================

No clustering method suits all data. This example runs five of them on five small sets and prints
the clustering error in each panel. Points of the same color are in one cluster.
"""

# %%
# Five sets. The first is made for k-means, the second for density methods. The last three are
# unions of subspaces: three lines in space, a plane and two lines, and subspaces of dimension 4 in
# 30 dimensions. They are drawn by their first two principal components.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_moons
from sklearn.decomposition import PCA

from dcfsc import SSC, ClosedFormSubspaceClustering
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error

rng = np.random.default_rng(0)


def flat(n, basis):
    """Noisy points of the subspace that the rows of ``basis`` span."""
    basis = np.linalg.qr(np.atleast_2d(np.asarray(basis, float)).T)[0].T
    points = rng.normal(size=(n, len(basis))) @ basis
    return points + 0.03 * rng.normal(size=points.shape)


def union(*bases):
    return np.vstack([flat(100, b) for b in bases]), np.repeat(np.arange(len(bases)), 100)


high = synthetic(300, n_clusters=3, subspace_dim=4, ambient_dim=30, noise=0.2, random_state=0)
sets = {
    "blobs": make_blobs(300, centers=[[2, 2], [6, 6], [6, 1]], cluster_std=0.7, random_state=0),
    "two moons": make_moons(300, noise=0.05, random_state=0),
    "lines": union([1, 0.2, 0.1], [0.3, 1, 0.2], [-0.7, 0.3, 0.8]),
    "plane and lines": union([[1, 0, 0.2], [0, 1, 0.3]], [0.3, 0.2, 1], [-0.5, 0.3, 1]),
    "30 dimensions": (high.X, high.y),
}

# %%
# Every method gets the number of clusters, except HDBSCAN, which finds it. Points that HDBSCAN
# leaves out as noise count as one more cluster.


def methods(k):
    return {
        "k-means": KMeans(k, n_init=10, random_state=0),
        "spectral, neighbors": SpectralClustering(k, affinity="nearest_neighbors", random_state=0),
        "HDBSCAN": HDBSCAN(min_cluster_size=15, copy=True),
        "SSC (dcfsc)": SSC(k, tol=2e-3, random_state=0),
        "dcfsc, default": ClosedFormSubspaceClustering(k, random_state=0),
    }


warnings.filterwarnings("ignore", message="Graph is not fully connected")
names = list(methods(2))
figure, axes = plt.subplots(len(sets), len(names), figsize=(11, 10.5), layout="constrained")
for row, (title, (X, y)) in zip(axes, sets.items(), strict=True):
    shown = X if X.shape[1] == 2 else PCA(2).fit_transform(X)
    for ax, method in zip(row, methods(y.max() + 1).values(), strict=True):
        labels = method.fit_predict(X)
        ax.scatter(*shown.T, c=[f"C{k}" if k >= 0 else "0.8" for k in labels], s=6)
        error = clustering_error(y, labels - labels.min())
        ax.text(0.98, 0.02, f"{error:.0f}%", transform=ax.transAxes, ha="right", weight="bold")
        ax.set_xticks([])
        ax.set_yticks([])
    row[0].set_ylabel(title)
for ax, name in zip(axes[0], names, strict=True):
    ax.set_title(name, fontsize=11)
plt.show()

# %%
# On blobs k-means is right and the subspace methods are wrong: two of the blobs lie in the same
# direction from the origin, so they look like one line. Moons need a method that follows a dense
# curve. On unions of subspaces it is the other way round. So use dcfsc when the samples of a group
# are mixtures of each other, and not when they are merely near each other.
