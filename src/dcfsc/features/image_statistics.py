"""Statistics of how images vary: by light or not, and whether adjacent pixels are alike."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LIGHT_GRID = 4  # cells per side of the grid of a smooth factor
# The share of the differences between neighbors from which light is what varies; chosen with labels
# on sets of images. On the benchmark problems it is at least 0.52 for surfaces under lights, at
# least 0.46 for turning objects, and at most 0.29 for clothes and letters (0.38 at 7 x 7 pixels).
SMOOTH = 1 / 3


def smooth_share(x: Tensor, neighbors: Tensor) -> float:
    """How much of the differences between images and their neighbors a smooth factor explains.

    The share of the energy of log(x / neighbor), its mean left out, that its means over a grid of
    4 x 4 cells account for; 0 for negative values and for samples that are not images. x and
    neighbors are (n, c, h, w) of at most 1.
    """
    if x.ndim != 4 or min(float(x.min()), float(neighbors.min())) < 0:
        return 0.0
    dark = 0.02
    ratio = torch.log((x + dark) / (neighbors + dark)).mean(dim=1, keepdim=True)
    ratio = ratio - ratio.mean(dim=(2, 3), keepdim=True)
    coarse = F.adaptive_avg_pool2d(ratio, LIGHT_GRID)
    smooth = F.interpolate(coarse, size=list(ratio.shape[2:]), mode="bilinear")
    energy = float(ratio.square().sum())
    return 1.0 - float((ratio - smooth).square().sum()) / energy if energy > 0 else 0.0


def roughness(x: Tensor) -> float:
    """Half the mean squared difference of adjacent pixels over the variance of an image's pixels.

    Near 0 for smooth images x (n, c, h, w), near 1 where the order of the pixels says nothing.
    """
    across, down = x.diff(dim=3), x.diff(dim=2)
    variance = float(x.var(dim=(2, 3), correction=0).mean())
    apart = 0.5 * float(across.square().mean() + down.square().mean())
    return 0.5 * apart / variance if variance > 0 else 0.0
