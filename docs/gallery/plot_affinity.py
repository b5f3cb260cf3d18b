"""
An affinity of your own
=======================

dcfsc expresses every sample by the others, turns the coefficients into a graph, and cuts the graph
into clusters. The *affinity* is the middle step. You can replace it by any callable that takes the
coefficients and the number of clusters and returns a symmetric matrix without negative entries.
"""

# %%
# This affinity keeps an edge only if two samples choose each other. A frozen dataclass keeps
# scikit-learn's ``clone`` working.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error


@dataclass(frozen=True)
class MutualNeighbors:
    """Keep the k largest coefficients of each sample, and an edge where both agree."""

    k: int = 12

    def __call__(self, operator, n_clusters):
        values, indices = operator.topk(self.k)  # no N x N matrix is made
        n, k = indices.shape
        weights = np.abs(values.cpu().numpy()).ravel()
        rows = np.repeat(np.arange(n), k)
        W = sp.csr_array((weights, (rows, indices.cpu().numpy().ravel())), shape=(n, n))
        return sp.csr_array(W.multiply(W.T)).sqrt()


# %%
# Four noisy subspaces that share a direction. Compare three affinities on the same coefficients.

data = synthetic(
    n_samples=240, n_clusters=4, subspace_dim=4, ambient_dim=30, noise=0.4, overlap=0.25,
    random_state=0,
)  # fmt: skip
affinities = {
    "all coefficients": "magnitude",
    "the default": TopK(),
    "mutual neighbors": MutualNeighbors(),
}

# %%
# A good affinity is block diagonal when the samples are sorted by their true cluster.

order = np.argsort(data.y, kind="stable")
figure, axes = plt.subplots(1, 3, figsize=(11, 4.5), layout="constrained")
for ax, (name, affinity) in zip(axes, affinities.items(), strict=True):
    model = ClosedFormSubspaceClustering(
        4, representation="given", affinity=affinity, random_state=0
    ).fit(data.X)
    A = model.affinity_matrix_
    A = A.toarray() if sp.issparse(A) else np.asarray(A)
    shown = np.sqrt(A[np.ix_(order, order)] / A.max())
    ax.imshow(shown, cmap="magma", vmax=0.7, interpolation="nearest")
    ax.set_title(f"{name}\n{clustering_error(data.y, model.labels_):.1f}% wrong", fontsize=11)
    ax.set_xticks([])
    ax.set_yticks([])
plt.show()

# %%
# The graph of mutual neighbors is the cleanest of the three, and yet its clusters are not better:
# what is left out can matter as much as what is wrong. Compare affinities by their result.
