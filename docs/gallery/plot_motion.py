"""
Motion segmentation
===================

A camera follows three moving bodies. A tracker gives the path of every point over all frames, but
not which body it belongs to. Under an affine camera the paths of one rigid body lie in a flat of
dimension three, so each body is one affine subspace. dcfsc finds the bodies from the paths alone.
"""

# %%
# Simulate three rigid bodies. Each turns and drifts in its own way, and their points overlap in
# every frame.

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.transform import Rotation
from sklearn.cluster import KMeans

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error

FRAMES, POINTS, BODIES = 25, 60, 3
rng = np.random.default_rng(1)
time = np.linspace(0, 1, FRAMES)


def follow(points, spin, drift, start):
    """Image coordinates (n, 2 * FRAMES) of a body's points under an affine camera."""
    turns = Rotation.from_rotvec(time[:, None] * spin).as_matrix()  # (F, 3, 3)
    moved = np.einsum("fij,nj->nfi", turns, points)[..., :2]
    moved += start + time[:, None] * drift
    return moved.reshape(len(points), -1)


paths = np.vstack(
    [
        follow(
            rng.normal(scale=0.5, size=(POINTS, 3)),
            spin=rng.normal(scale=1.2, size=3),
            drift=rng.normal(scale=0.8, size=2),
            start=rng.normal(scale=0.3, size=2),
        )
        for _ in range(BODIES)
    ]
)
paths += rng.normal(scale=0.005, size=paths.shape)
bodies = np.repeat(np.arange(BODIES), POINTS)

# %%
# Every row of ``paths`` is one point: its x and y in the first frame, in the second, and so on.
# ``representation="affine"`` is made for such data. The default recognizes them by itself.

model = ClosedFormSubspaceClustering(BODIES, representation="affine", random_state=0).fit(paths)
automatic = ClosedFormSubspaceClustering(BODIES, random_state=0).fit(paths)
print("the default takes:", automatic.representation_)
k_means = KMeans(BODIES, n_init=10, random_state=0).fit_predict(paths)

# %%
# The paths, colored by cluster. A dot marks the last frame.


def draw(ax, labels, title):
    tracks = paths.reshape(-1, FRAMES, 2)
    for track, label in zip(tracks, labels, strict=True):
        ax.plot(*track.T, color=f"C{label}", lw=0.6, alpha=0.6)
        ax.plot(*track[-1], ".", color=f"C{label}", ms=5)
    ax.set_title(title)
    ax.set_aspect("equal")
    ax.axis("off")


figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
draw(axes[0], bodies, "the three bodies")
for ax, name, labels in ((axes[1], "k-means", k_means), (axes[2], "dcfsc", model.labels_)):
    draw(ax, labels, f"{name}: {clustering_error(bodies, labels):.0f}% wrong")
plt.show()
