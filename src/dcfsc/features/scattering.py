"""Images -> scattering coefficients -> their principal components -> rows of unit length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc.neighbors import unit_rows

from .principal_components import RunningCovariance, principal_components
from .scattering_transform import Scattering

NOISE = 2e-6  # of an image's largest coefficient: a path below it is rounding in float32
CHUNK = 1024  # images whose coefficients are held at a time
N_COMPONENTS = 500


class ScatteringComponents:
    """The leading principal components of the scattering coefficients of images.

    Parameters
    ----------
    sample_shape : (h, w) or (c, h, w)
    J, L : int
        Scales and angles of :class:`~.scattering_transform.Scattering`.
    input_scale : float
        What pixels are multiplied by to lie in 0..1.
    scale_paths : bool
        Divide every path of a sample by its largest magnitude, where a path is more than a number.
    device : torch.device
    """

    mean: Tensor  # (D,), of the D coefficients; set by fit, and by restore
    components: Tensor  # (k, D)
    variances: np.ndarray  # (k,): what each component explains

    def __init__(
        self,
        sample_shape: Sequence[int],
        J: int,
        L: int = 8,
        *,
        input_scale: float = 1.0,
        scale_paths: bool = True,
        device: torch.device,
    ):
        self.sample_shape = tuple(sample_shape)
        self.input_scale, self.scale_paths, self.device = input_scale, scale_paths, device
        self._scattering = Scattering((self.sample_shape[-2], self.sample_shape[-1]), J, L, device)
        channels = 1 if len(self.sample_shape) == 2 else self.sample_shape[0]
        self.n_coefficients = channels * int(np.prod(self._scattering.shape))

    def coefficients(self, images: Tensor) -> Tensor:
        """Scattering coefficients (n, D) of images (n, h, w) or (n, c, h, w), on the device."""
        if images.dtype == torch.uint8:
            pixels = images.to(self.device).float() * self.input_scale
        else:
            # scaled in float64: a value may not fit float32, nor the scale float16
            pixels = (images.to(torch.float64) * self.input_scale).float().to(self.device)
        S = self._scattering(pixels.reshape(-1, *pixels.shape[-2:]))  # (n c, paths, h', w')
        if self.scale_paths and S.shape[2] * S.shape[3] > 1:  # one number would become a constant
            largest = S.abs().amax(dim=(2, 3), keepdim=True)
            floor = (NOISE * largest.amax(dim=1, keepdim=True)).clamp_min(torch.finfo().tiny)
            S /= largest.maximum(floor)
        return S.reshape(len(images), -1)

    def fit(
        self, chunks: Iterable[Tensor], n: int, n_components: int | None, center: bool = True
    ) -> None:
        """Find the components of n samples whose coefficients (m, D) come in chunks.

        They are exact: the covariance is added up in float64. For n <= D all coefficients are held,
        else one chunk's and the covariance.
        """
        d = self.n_coefficients
        k = min(n, d, n if n_components is None else n_components)
        if n <= d:
            mean, components, self.variances = principal_components(
                torch.cat(list(chunks)), k, center
            )
        else:
            covariance = RunningCovariance(d, self.device)
            for part in chunks:
                covariance.add(part)
            mean, components, self.variances = covariance.principal(k, center)
        self.mean, self.components = (
            torch.from_numpy(values.astype(np.float32)).to(self.device)
            for values in (mean, components)
        )

    def transform(self, images: Tensor, unit_length: bool = True) -> Tensor:
        """Features (n, k) of images, float32 on the device; a chunk of them at a time."""
        chunks = (self.coefficients(chunk) for chunk in images.split(CHUNK))
        return torch.cat([self.project(chunk, unit_length) for chunk in chunks])

    def project(self, coefficients: Tensor, unit_length: bool = True) -> Tensor:
        """Features (n, k) of scattering coefficients (n, D)."""
        centered = coefficients - self.mean if self.mean.any() else coefficients
        F = centered @ self.components.T
        return unit_rows(F) if unit_length else F

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors, and JSON values, that bring the components back."""
        tensors = {
            "mean": self.mean,
            "components": self.components,
            "explained_variance": torch.from_numpy(np.ascontiguousarray(self.variances)),
        }
        return tensors, {"input_scale": self.input_scale, "sample_shape": list(self.sample_shape)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of :meth:`state`, on an object of the same shape and scale."""
        self.mean = tensors["mean"].to(self.device)
        self.components = tensors["components"].to(self.device)
        self.variances = tensors["explained_variance"].numpy()


def largest_magnitude_scale(chunks: Iterable[Tensor]) -> float:
    """One over the largest magnitude of images that come in chunks; 1 where all are zero."""
    largest = max(float(chunk.abs().max()) for chunk in chunks)
    return 1.0 / largest if largest > 0 else 1.0
