"""Statistics that say how images vary: whether by light, and whether they are images at all."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LIGHT_GRID = 4  # fields a side of what counts as smooth
# The share of the differences between neighbors that must be smooth for light to be what varies;
# chosen with labels, on image sets. On the benchmark problems surfaces under lights have 0.52 or
# more, turning objects 0.46 or more, clothes and letters 0.29 or less (at 7 x 7 pixels 0.38).
SMOOTH = 1 / 3


def smooth_share(x: Tensor, neighbors: Tensor) -> float:
    """How much of the differences between images and their neighbors a smooth factor explains.

    The share of the energy of log(x / neighbor), its mean left out, that its means over a grid of
    4 x 4 fields account for; 0 for what is no image or has negative values. x and neighbors are
    (n, c, h, w) of at most 1.
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
