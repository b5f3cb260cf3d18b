"""
Handwritten digits
==================

Cluster the 1,797 digits of scikit-learn into ten groups without labels. Then look at the typical
members of each cluster and at the samples that the model is least sure of.
"""

# %%
# Pass images as an array of shape (n, height, width), so that dcfsc knows that they are images.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error

digits = load_digits()
model = ClosedFormSubspaceClustering(n_clusters=10, random_state=0).fit(digits.images)

# %%
# For images dcfsc takes scattering features, unless light varies. How well clusterings of random
# subsamples agree says how far to trust the result. We use the labels only to score it.

print("representation:", model.representation_)
print("stability:", {k: round(v, 2) for k, v in model.measure_stability(digits.images).items()})
print(f"clustering error: {clustering_error(digits.target, model.labels_):.1f}%")

# %%
# Each label comes with a confidence. The left side shows the surest eight members of each cluster,
# the right side the least sure eight. Mistakes are on the right.


def strip(samples):
    """Images side by side."""
    return np.hstack([np.pad(digits.images[i], 1) for i in samples])


figure, axes = plt.subplots(1, 2, figsize=(9, 5.2), layout="constrained")
clusters = [np.flatnonzero(model.labels_ == k) for k in range(10)]
by_doubt = [members[np.argsort(-model.confidence_[members])] for members in clusters]
panels = {
    "surest members": [order[:8] for order in by_doubt],
    "least sure members": [order[-8:] for order in by_doubt],
}
for ax, (title, rows) in zip(axes, panels.items(), strict=True):
    ax.imshow(np.vstack([strip(row) for row in rows]), cmap="gray_r")
    ax.set_title(title)
    ax.set_yticks(np.arange(10) * 10 + 5, [f"cluster {k}" for k in range(10)])
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
plt.show()
