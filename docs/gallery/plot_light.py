"""
Objects under changing light
============================

A matt object under a lamp that moves around it gives many different images. All of them lie close
to one subspace of low dimension: each image is nearly a weighted sum of a few others. Faces under
changing light behave in the same way; this example uses six carved tiles instead.

k-means compares the pixels, so it sorts these images by where the lamp is. dcfsc sorts them by
what they show.
"""

# %%
# Carve six tiles and photograph each one under 40 random lamps.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error

SIDE, LAMPS = 32, 40
rng = np.random.default_rng(0)
x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
radius, angle = np.hypot(x, y), np.arctan2(y, x)


def raised(inside):
    """A height map that is high where ``inside`` is positive, with soft edges."""
    return 0.35 / (1 + np.exp(-14 * inside))


heights = [
    raised(0.62 - radius),  # a disc
    raised(0.18 - np.abs(radius - 0.55)),  # a ring
    raised(0.24 - np.minimum(np.abs(x), np.abs(y)) - 0.6 * (radius > 0.8)),  # a cross
    raised(0.5 + 0.22 * np.cos(5 * angle + np.pi / 2) - radius),  # a star
    raised(0.3 * np.sin(9 * x)),  # grooves
    raised(0.5 - np.maximum(np.abs(x), np.abs(y))),  # a square
]


def photograph(height):
    """The tile under one lamp: brightness is the cosine between the surface and the light."""
    dy, dx = np.gradient(height, 2 / (SIDE - 1))
    normals = np.stack([-dx, -dy, np.ones_like(dx)]) / np.sqrt(1 + dx**2 + dy**2)
    turn, rise = rng.uniform(0, 2 * np.pi), rng.uniform(0.35, 1.2)
    lamp = np.array([np.cos(turn) * np.cos(rise), np.sin(turn) * np.cos(rise), np.sin(rise)])
    shading = np.tensordot(lamp, normals, axes=1).clip(min=0)
    return shading + 0.02 * rng.standard_normal(shading.shape)


kinds = rng.permutation(np.repeat(np.arange(len(heights)), LAMPS))
images = np.stack([photograph(heights[kind]) for kind in kinds]).astype(np.float32)

# %%
# Cluster the images twice. Both methods get the number of clusters and nothing else.

pixels = images.reshape(len(images), -1)
k_means = KMeans(len(heights), n_init=10, random_state=0).fit_predict(pixels)
model = ClosedFormSubspaceClustering(len(heights), random_state=0).fit(images)
print("representation:", model.representation_)

# %%
# dcfsc chose scattering features, as it often does for small images. Here the pixels would have
# done as well, because the images of each tile are so close to a subspace:

on_pixels = ClosedFormSubspaceClustering(len(heights), representation="given", random_state=0)
print(f"error on pixels: {clustering_error(kinds, on_pixels.fit_predict(images)):.1f}%")

# %%
# Show the first images of each cluster, one cluster a row.

COLUMNS = 10


def mosaic(axes, rows, title):
    """Rows of images with a thin gap between them."""
    canvas = np.ones((len(rows) * (SIDE + 3), COLUMNS * (SIDE + 2)))
    for i, row in enumerate(rows):
        for j, sample in enumerate(row[:COLUMNS]):
            top, left = i * (SIDE + 3), j * (SIDE + 2)
            canvas[top : top + SIDE, left : left + SIDE] = images[sample]
    axes.imshow(canvas, cmap="gray", vmin=0, vmax=1)
    axes.set_title(title, fontsize=11)
    axes.axis("off")


def members(labels):
    """The samples of each cluster, the clusters in the order of their commonest tile."""
    groups = [np.flatnonzero(labels == k) for k in np.unique(labels)]
    return sorted(groups, key=lambda group: np.bincount(kinds[group]).argmax())


figure, axes = plt.subplots(1, 3, figsize=(12, 2.95), layout="constrained")
mosaic(axes[0], np.arange(6 * COLUMNS).reshape(6, COLUMNS), "the images, in no order")
for place, name, labels in ((1, "k-means", k_means), (2, "dcfsc", model.labels_)):
    error = clustering_error(kinds, labels)
    mosaic(axes[place], members(labels), f"{name}: a cluster in each row, {error:.0f}% wrong")
plt.show()
