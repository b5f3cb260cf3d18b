"""Images by their scattering coefficients, in the metric of neighbors, with mirror images.

Scattering coefficients say which waves of which direction are where, coarsely: what a shift by a
pixel changes little. Their leading directions are found from a sample, as is the metric of
neighbors in them (:mod:`.neighbor_metric`). Each sample then has its nearest others by the plain
cosine twice, among the others as they are and among the others and their mirror images, and the
two graphs are added: a mirror image may join what belongs together, but does not displace the
neighbors there are.

Aligned images under changing light are better compared by their pixels, and so is what only has the
shape of images. Stability tells these from others, but not surely. So there is a second sign: where
neighbors differ by smooth factors, as by light, the most stable candidate is taken; where they do
not, scattering is. Where adjacent pixels are hardly alike, or values are negative, this is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dcfsc.errors import InputError
from dcfsc.features import ScatteringComponents
from dcfsc.features.image_statistics import SMOOTH, roughness, smooth_share
from dcfsc.features.scattering import CHUNK, N_COMPONENTS, largest_magnitude_scale
from dcfsc.pipeline import Recipe
from dcfsc.self_expression import MirroredCosineForm, solve_for_dof

from .base import (
    DOUBLE,
    EIGENVECTORS,
    Part,
    Representation,
    is_image,
    learning_bytes,
    need_unit_length_without_ridge,
    restored,
)
from .neighbor_metric import in_metric, metric_flops, neighbor_metric

SMALLEST_SIDE = 6  # a pixel is too large a part of a smaller image
ENLARGED_SIDE = 16  # coefficients are averaged over 4 pixels: fewer would leave hardly any places
MOST_PIXELS = 4096  # larger images cost minutes and gigabytes
LOOKED_AT = 1000  # samples that say how images vary
ROUGH = 0.7  # benchmark problems have 0.03 to 0.43, the same with shuffled pixels 0.95 to 1.08
J = 2
PATHS = 81  # of eight angles at two scales: 1 + 8 J + 64 J (J - 1) / 2
PIXEL = 27e3  # operations for all of a pixel's paths
_PREFIX = "scattering_"


class ScatteringMetric(Representation):
    """Scattering coefficients (N, 2, k) of images and of their mirror images, in their metric."""

    name = "scattering"
    has_ridge = False
    learns = True
    components: ScatteringComponents
    T: Tensor
    _prepared: Tensor | None = None  # the coefficients of the sample

    @classmethod
    def obstacle(cls, recipe: Recipe) -> str | None:
        shape = recipe.sample_shape
        if (
            not is_image(shape)
            or min(shape[-2:]) < SMALLEST_SIDE
            or int(torch.Size(shape).numel()) > MOST_PIXELS
        ):
            return (
                f"representation='scattering' is for images of at least {SMALLEST_SIDE} pixels a "
                f"side and at most {MOST_PIXELS:,} values; ScatteringFeatures makes features of "
                "other images"
            )
        if not recipe.sparse_exact:
            return "representation='scattering' takes the affinity 'topk' with its exact search"
        if recipe.signs != "auto":
            return (
                "representation='scattering' compares mirror images by magnitude alone, so signs="
                f"{recipe.signs!r} has no effect; leave it out"
            )
        return need_unit_length_without_ridge(cls.name, recipe)

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        return cls.obstacle(recipe) is None

    def head_start(self, Z: Tensor) -> float | None:
        """Zero if neighbors among the images Z (n, d) differ by light, infinite if they do not."""
        chosen = np.sort(np.random.RandomState(0).permutation(len(Z))[:LOOKED_AT])
        rows = Z[torch.from_numpy(chosen).to(Z.device)]
        if float(rows.min()) < 0:
            return None
        x = (rows / rows.max().clamp_min(torch.finfo(rows.dtype).tiny)).float()
        x = x.reshape(len(x), -1, *self.recipe.sample_shape[-2:])
        if roughness(x) >= ROUGH:
            return None
        nearest = solve_for_dof(rows, self.recipe.dof).topk(1)[1][:, 0]
        return 0.0 if smooth_share(x, x[nearest]) >= SMOOTH else math.inf

    def prepare(self, Z: Tensor) -> None:
        """Find the leading directions of the coefficients; parts of the sample share them."""
        x = self._images(Z)
        self.components = ScatteringComponents(
            tuple(x.shape[1:]), J, input_scale=largest_magnitude_scale([x]), device=Z.device
        )
        seen = torch.cat([self.components.coefficients(part) for part in x.split(CHUNK)])
        self.components.fit([seen], len(x), N_COMPONENTS, center=False)
        mirrored = self.components.transform(x.flip(-1))
        self._prepared = torch.stack([self.components.project(seen), mirrored], dim=1)

    def solve_part(self, part: Part) -> MirroredCosineForm:
        assert self._prepared is not None, "prepare comes first"
        F = self._prepared[part.index]
        T = neighbor_metric(F[:, 0].contiguous(), self.recipe.n_clusters)
        return self.solve(both_in_metric(F, T))

    def fit_transform(self, Z: Tensor) -> Tensor:
        if self._prepared is None:
            self.prepare(Z)
        assert self._prepared is not None
        F, self._prepared = self._prepared, None
        self.T = neighbor_metric(F[:, 0].contiguous(), self.recipe.n_clusters)
        return both_in_metric(F, self.T)

    def coefficients(self, Z: Tensor) -> Tensor:
        """Scattering coefficients (N, 2, k) of unit length: of images Z (N, d), and mirrored."""
        x = self._images(Z)
        return torch.stack([self.components.transform(y) for y in (x, x.flip(-1))], dim=1)

    def transform(self, Z: Tensor) -> Tensor:
        return both_in_metric(self.coefficients(Z), self.T)

    def transform_unseen(self, Z: Tensor) -> Tensor:
        return in_metric(self.components.transform(self._images(Z)), self.T)

    def solve(self, R: Tensor) -> MirroredCosineForm:
        return MirroredCosineForm(R[:, 0].contiguous(), R[:, 1].contiguous())

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (2, len(self.T))

    @property
    def row_width(self) -> int:
        return min(N_COMPONENTS, self._n_coefficients)

    @property
    def scans(self) -> int:
        return 3

    @property
    def _n_coefficients(self) -> int:
        *channels, h, w = enlarged_shape(self.recipe.sample_shape)
        return int(np.prod(channels)) * PATHS * (-(-h // 2**J)) * (-(-w // 2**J))

    def flops(self, n: int, N: int) -> float:
        *channels, h, w = enlarged_shape(self.recipe.sample_shape)
        D, k = self._n_coefficients, min(n, self.row_width)
        pixels = int(np.prod(channels)) * (h + 2 * 2**J) * (w + 2 * 2**J)
        images = 2.0 * (n + N if n < N else n) * (PIXEL * pixels + 2.0 * D * k)
        small = min(n, D)
        components = 2.0 * DOUBLE * n * D * small + EIGENVECTORS * float(small) ** 3
        return images + components + metric_flops(n, k, 1) + 4.0 * N * k**2

    def bytes(self, n: int) -> float:
        return learning_bytes(n, self._n_coefficients)

    def _images(self, Z: Tensor) -> Tensor:
        return enlarged(Z.reshape(len(Z), *self.recipe.sample_shape))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = self.components.state()
        return {"metric": self.T, **{_PREFIX + name: t for name, t in tensors.items()}}, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        shape = enlarged_shape(self.recipe.sample_shape)
        if tuple(values.get("sample_shape", ())) != shape:
            raise InputError(
                "its scattering features do not match its images; fit and save it again."
            )
        self.components = ScatteringComponents(
            shape, J, input_scale=float(values["input_scale"]), device=device
        )
        D = self.components.n_coefficients
        self.T = restored(tensors, "metric", (None, None), device)
        k = len(self.T)
        shapes = {"mean": (D,), "components": (k, D), "explained_variance": (k,)}
        self.components.restore(
            {name: restored(tensors, _PREFIX + name, s, "cpu") for name, s in shapes.items()}
        )
        restored(tensors, "metric", (k, k), device)


def enlarged_shape(sample_shape: Sequence[int]) -> tuple[int, ...]:
    """(h, w) or (c, h, w), h and w so many times larger that neither is below ``ENLARGED_SIDE``."""
    *channels, h, w = sample_shape
    times = -(-ENLARGED_SIDE // min(h, w))
    return (*channels, times * h, times * w)


def enlarged(x: Tensor) -> Tensor:
    """Images (n, h, w) or (n, c, h, w) at ``enlarged_shape``, interpolated linearly."""
    shape = enlarged_shape(x.shape[1:])
    if shape == tuple(x.shape[1:]):
        return x
    planes = x.reshape(-1, 1, *x.shape[-2:])
    larger = interpolate(planes, size=shape[-2:], mode="bilinear", align_corners=False)
    return larger.reshape(len(x), *shape)


def both_in_metric(F: Tensor, T: Tensor) -> Tensor:
    """The rows of F (N, 2, k) T at unit length."""
    return torch.stack([in_metric(view.contiguous(), T) for view in F.unbind(1)], dim=1)
