"""A digit, and random views of it by each augmentation: docs/images/views.svg.

python docs/figures/views.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from style import MUTED, save

from dcfsc.views.augmentations import Views

AUGMENTATIONS = ("geometry", "mirror", "light", "contrast", "hole", "noise")
VIEWS = 8


def main() -> None:
    digit = torch.from_numpy(load_digits().images[2:3]).float()[:, None] / 16
    digit = torch.nn.functional.interpolate(digit, size=(32, 32), mode="bicubic").clamp(0, 1)
    figure, grid = plt.subplots(len(AUGMENTATIONS), VIEWS + 1, figsize=(7.2, 5.0))
    for row, name in zip(grid, AUGMENTATIONS, strict=True):
        random = torch.Generator().manual_seed(1)
        views = Views((1, 32, 32), {name: 1.0})(digit.expand(VIEWS, 1, 32, 32), random)
        for axes, image in zip(row, (digit[0, 0], *views[:, 0]), strict=True):
            axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            for side in axes.spines.values():
                side.set_visible(False)
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    grid[0][0].set_title("sample", color=MUTED, fontsize=9)
    grid[0][1].set_title("views", color=MUTED, fontsize=9)
    save(figure, "views")


if __name__ == "__main__":
    main()
