"""Random views of samples: augmentations that may leave an image in its cluster.

A view is one pass over a batch, on its device: one resampling for all geometry, one multiplication
for light, and a few operations on every pixel. What is random is drawn first, for the whole batch
(:meth:`Views.draw`), so that processes which share a batch see the same views as one would.

    name       strength 1 is
    geometry   scale exp(U(-.35, .15)), aspect exp(U(-.15, .15)), rotation up to 17 degrees, shear
               up to .15, shift up to 9% of the side
    crop       a window at a random place with 20 to 100% of the area, aspect exp(U(-.29, .29)),
               at three quarters of the image's resolution
    mirror     left and right exchanged in half of the views
    light      a smooth random factor: exp of a 4 x 4 grid of normal numbers with a standard
               deviation of U(0, 1), interpolated
    contrast   gamma exp(U(-.3, .3)), contrast 1 +- .4 around the mean
    color      a factor exp(U(-.3, .3)) for each channel, saturation U(0, 1.4), a gray image in one
               of five views
    hole       a rectangle of up to a quarter of each side set to the mean, in half of the views
    noise      normal noise with a standard deviation of .03 of the largest value

Feature vectors have two of them: noise, with a standard deviation of a fifth of the features' own,
and hole, a fifth of the features set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dcfsc.errors import InputError, unknown_name
from dcfsc.features.image_statistics import LIGHT_GRID

AUGMENTATIONS = ("geometry", "crop", "mirror", "light", "contrast", "color", "hole", "noise")
VECTOR_AUGMENTATIONS = ("hole", "noise")
CROPPED = 0.75  # the side of a cropped view, as a share of the image's
NUMBERS = 20  # uniform ones that a view of an image takes
NOISE, VECTOR_NOISE, VECTOR_HOLE = 0.03, 0.2, 0.2


@dataclass
class Drawn:
    """What is random about the views of a batch; ``rows`` picks a part of it."""

    uniform: Tensor  # (n, 20) in [-1, 1], and for vectors as wide as they are
    light: Tensor  # (n, 1, g, g) normal
    noise: Tensor | None  # (n, ...) normal, the shape of a sample
    crop: Tensor | None  # (n, 4) in [0, 1]

    def rows(self, index: Tensor | slice) -> Drawn:
        noise = None if self.noise is None else self.noise[index]
        crop = None if self.crop is None else self.crop[index]
        return Drawn(self.uniform[index], self.light[index], noise, crop)


class Views:
    """Random views of samples of one shape: ``views(x, generator)``.

    Views have the shape of samples, except crops of images: these have three quarters of their
    sides. What a window shows is then about as large as in the whole image, and costs half as much.

    Parameters
    ----------
    sample_shape : (features,) or (c, h, w).
    strengths : the strength of each augmentation, 0 for none; see the table above.
    """

    def __init__(self, sample_shape: tuple[int, ...], strengths: Mapping[str, float]):
        self.sample_shape = sample_shape
        known = augmentations_for(sample_shape)
        for name, value in strengths.items():
            if name not in known:
                raise unknown_name("augmentation", name, known)
            if not 0.0 <= float(value) <= 4.0:
                raise InputError(f"the strength of {name} must be from 0 to 4; got {value!r}.")
        self.strengths = {name: float(strengths.get(name, 0.0)) for name in known}
        self._strength = dict.fromkeys(AUGMENTATIONS, 0.0) | self.strengths
        self.shape = tuple(sample_shape)  # of a view
        if self._strength["crop"]:
            self.shape = (sample_shape[0], *(math.ceil(CROPPED * s) for s in sample_shape[1:]))

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self.apply(x, self.draw(len(x), generator))

    def draw(self, n: int, generator: torch.Generator) -> Drawn:
        """The random part of n views."""
        device = generator.device
        width = self.sample_shape[0] if len(self.sample_shape) == 1 else NUMBERS
        uniform = torch.rand(n, width, generator=generator, device=device) * 2 - 1
        grid = (n, 1, LIGHT_GRID, LIGHT_GRID)
        light = torch.randn(grid, generator=generator, device=device)
        noise = None
        if self._strength["noise"]:
            noise = torch.randn(n, *self.shape, generator=generator, device=device)
        crop = None
        if self._strength["crop"]:
            crop = torch.rand(n, 4, generator=generator, device=device)
        return Drawn(uniform, light, noise, crop)

    def apply(self, x: Tensor, drawn: Drawn) -> Tensor:
        """The views of samples x (n, ...) that were drawn."""
        if len(self.sample_shape) == 1:
            return self._vectors(x, drawn)
        u, s = drawn.uniform[:, :, None, None, None], self._strength
        if s["geometry"] or s["mirror"] or s["crop"]:
            x = self._resampled(x, drawn)
        if s["contrast"]:
            x = x.sign() * (x.abs() + 1e-6) ** torch.exp(0.3 * s["contrast"] * u[:, 7])
            mean = x.mean(dim=(1, 2, 3), keepdim=True)
            x = mean + (x - mean) * (1 + min(0.4 * s["contrast"], 0.9) * u[:, 8])
        if s["light"]:
            x = x * self._light(drawn)
        if s["color"]:
            x = self._colored(x, u)
        if drawn.noise is not None:
            x = x + NOISE * s["noise"] * drawn.noise
        if s["hole"]:
            x = self._with_hole(x, drawn.uniform)
        return x

    def _resampled(self, x: Tensor, drawn: Drawn) -> Tensor:
        s, u = self._strength["geometry"], drawn.uniform
        height, width = self.sample_shape[1:]
        scale = torch.exp(s * (-0.1 + 0.25 * u[:, 0]))
        aspect = torch.exp(0.15 * s * u[:, 1])
        angle, shear = 0.3 * s * u[:, 2], 0.15 * s * u[:, 3]
        cos, sin = angle.cos(), angle.sin()
        # In coordinates from -1 to 1 a rotation of an oblong image is not one.
        ratio = height / width
        a, b = scale * aspect * cos, scale * (shear - sin) * ratio
        c, d = scale * sin / ratio, scale / aspect * cos
        if self._strength["mirror"]:
            flip = torch.where(u[:, 6] < self._strength["mirror"] - 1, -1.0, 1.0)
            a, c = a * flip, c * flip
        shift = 0.18 * s * u[:, 4:6]
        theta = torch.stack((a, b, shift[:, 0], c, d, shift[:, 1]), dim=1).view(-1, 2, 3)
        if drawn.crop is not None:
            theta = self._window(theta, drawn.crop)
        grid = F.affine_grid(theta.to(x.dtype), [len(x), *self.shape], align_corners=False)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False)

    def _window(self, theta: Tensor, u: Tensor) -> Tensor:
        """The maps theta (n, 2, 3) into a random window of the image."""
        area = 1 - 0.8 * min(self._strength["crop"], 1.0) * u[:, :1]
        aspect = torch.exp(0.29 * (2 * u[:, 1:2] - 1))
        sides = torch.cat((area * aspect, area / aspect), dim=1).sqrt().clamp_max(1.0)
        center = (1 - sides) * (2 * u[:, 2:] - 1)
        theta = theta * sides[:, :, None]
        return torch.cat((theta[:, :, :2], theta[:, :, 2:] + center[:, :, None]), dim=2)

    def _light(self, drawn: Drawn) -> Tensor:
        deviation = self._strength["light"] * 0.5 * (1 + drawn.uniform[:, 9, None, None, None])
        size = list(self.shape[1:])
        field = F.interpolate(drawn.light, size=size, mode="bicubic", align_corners=True)
        return torch.exp(deviation * field)

    def _colored(self, x: Tensor, u: Tensor) -> Tensor:
        s = self._strength["color"]
        gain = torch.exp(0.3 * s * u[:, 10:13, 0])
        gray = x.mean(dim=1, keepdim=True)
        saturation = 1 + s * (-0.3 + 0.7 * u[:, 13])
        saturation = torch.where(u[:, 14] < 0.4 * s - 1, 0.0, saturation)
        return (gray + (x - gray) * saturation) * gain

    def _with_hole(self, x: Tensor, u: Tensor) -> Tensor:
        s = self._strength["hole"]
        height, width = x.shape[2:]
        rows = torch.linspace(-1, 1, height, device=x.device)[None, :]
        columns = torch.linspace(-1, 1, width, device=x.device)[None, :]
        half = 0.25 * s * (0.75 + 0.25 * u[:, 15:17])
        half = half * (u[:, 17:18] < 0)
        inside = ((rows - u[:, 18:19]).abs() < half[:, :1])[:, None, :, None] & (
            (columns - u[:, 19:20]).abs() < half[:, 1:]
        )[:, None, None, :]
        return torch.where(inside, x.mean(dim=(1, 2, 3), keepdim=True), x)

    def _vectors(self, x: Tensor, drawn: Drawn) -> Tensor:
        s = self._strength
        if drawn.noise is not None:
            spread = x.std(dim=1, keepdim=True, correction=min(1, x.shape[1] - 1))
            x = x + VECTOR_NOISE * s["noise"] * spread * drawn.noise
        if s["hole"]:
            x = torch.where(drawn.uniform < 2 * VECTOR_HOLE * s["hole"] - 1, 0.0, x)
        return x


def augmentations_for(sample_shape: tuple[int, ...]) -> tuple[str, ...]:
    """The names of the augmentations of samples of this shape."""
    if len(sample_shape) == 1:
        return VECTOR_AUGMENTATIONS
    return tuple(name for name in AUGMENTATIONS if name != "color" or sample_shape[0] == 3)


def usual_strengths(sample_shape: tuple[int, ...]) -> dict[str, float]:
    """The usual augmentations of photographs, for images of which nothing is known."""
    usual = ("crop", "mirror", "contrast", "color")
    return {name: float(name in usual) for name in augmentations_for(sample_shape)}


def cautious_strengths(sample_shape: tuple[int, ...]) -> dict[str, float]:
    """Augmentations for samples that are too few to measure which ones they tolerate."""
    cautious = {"geometry": 0.25, "contrast": 1.0, "hole": 1.0, "noise": 1.0}
    return {name: cautious.get(name, 0.0) for name in augmentations_for(sample_shape)}
