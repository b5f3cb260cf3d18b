"""Scattering coefficients of images as features, without any training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc.errors import InputError, reason
from dcfsc.features import ScatteringComponents
from dcfsc.features.scattering import CHUNK, N_COMPONENTS, largest_magnitude_scale
from dcfsc.io import check_finite, unmasked
from dcfsc.machine import resolve_device
from dcfsc.parameters import FLAG, NONE, VERBOSE, table, whole
from dcfsc.training.progress import counting_bar

from .base import DEVICE, Estimator, FeatureTransformer
from .persistence import Persistent
from .validation import as_numpy, check_shape

MOST_FILTERS = 1 << 25  # numbers in the filters of a model in a file


@dataclass(eq=False, repr=False)
class ScatteringFeatures(FeatureTransformer, Persistent, Estimator):
    """Scattering coefficients of images, reduced by principal components to rows of unit length.

    The features on which scalable subspace clustering is compared (You et al. 2016, SSC-OMP and
    EnSC): for 28 x 28 digits, padded to 32 x 32, 217 paths of 4 x 4 coefficients, 3,472 numbers a
    sample, reduced to 500. As in that work's public code every path of a sample is divided by its
    largest magnitude, so that fine scales, whose coefficients are small, count as much as coarse
    ones; ``scale_paths=False`` turns this off. Unlike that code, which projects on the
    leading singular vectors of the coefficients as they are, the mean is subtracted first;
    ``center=False`` keeps it, which :class:`SSCOMP` needs on digits.

    The principal components are exact: the covariance is added up in float64 over chunks of
    samples, and a second pass projects them. X is only sliced, so it may be larger than memory;
    besides the result, memory holds one chunk and the covariance.

    Parameters
    ----------
    J : int
        Coefficients are averaged over 2^J pixels; images must be at least as large.
    L : int
        Angles of the wavelets.
    n_components : int or None
        Largest number of principal components (never more than samples or coefficients); None
        keeps all.
    center : bool
        Subtract the mean of the coefficients before the principal components.
    scale_paths : bool
        Divide every path of a sample by its largest magnitude, where a path is more than a number.
    unit_rows : bool
        Scale every sample's features to unit length.
    batch_size : int
        Samples in a chunk.
    device : "auto", "cpu", "cuda", ...
    verbose : bool or "auto"
        Show a progress bar; "auto" is only on a terminal.

    Attributes
    ----------
    mean_, components_, explained_variance_ : ndarrays (D,), (k, D) and (k,)
        Of the principal component analysis of the D coefficients; without ``center`` the mean is
        zero and the variances are mean squares.
    input_scale_ : float
        What pixels are multiplied by to lie in 0..1: 1/255 for bytes, else over the largest
        magnitude of the training samples.
    sample_shape_ : tuple

    Examples
    --------
    ::

        make_pipeline(ScatteringFeatures(), ClosedFormSubspaceClustering(n_clusters=10))
    """

    J: int = 3
    L: int = 8
    n_components: int | None = N_COMPONENTS
    _: KW_ONLY
    center: bool = True
    scale_paths: bool = True
    unit_rows: bool = True
    batch_size: int = CHUNK
    device: Any = "auto"
    verbose: bool | str = "auto"

    _images_only = True

    _table = table(
        J=whole(1, 12),
        L=whole(1, 64),
        n_components=whole(1) | NONE,
        center=FLAG,
        scale_paths=FLAG,
        unit_rows=FLAG,
        batch_size=whole(1),
        device=DEVICE,
        verbose=VERBOSE,
    )

    def fit(self, X: Any, y: Any = None) -> ScatteringFeatures:
        """Find the principal components for images X (n, h, w) or (n, c, h, w)."""
        X = images(X)
        if len(X) < 2:
            raise InputError("principal components need at least 2 samples; there is 1.")
        check_shape(self, X, reset=True)
        self.n_features_in_ = self.sample_shape_[0]
        if X.dtype == np.uint8:
            self.input_scale_ = 1 / 255
        else:
            self.input_scale_ = largest_magnitude_scale(self._chunks(X, "range"))
        self._model = self._build()
        chunks = map(self._model.coefficients, self._chunks(X, "covariance"))
        self._model.fit(chunks, len(X), self.n_components, self.center)
        self._expose()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features (n, k) of images X, float32."""
        check_is_fitted(self)
        X = images(X)
        check_shape(self, X, reset=False)
        out = np.empty((len(X), len(self.components_)), np.float32)
        start = 0
        for chunk in self._chunks(X, "projection"):
            features = self._model.transform(chunk, self.unit_rows)
            out[start : start + len(chunk)] = features.cpu().numpy()
            start += len(chunk)
        return out

    def _build(self) -> ScatteringComponents:
        return ScatteringComponents(
            self.sample_shape_,
            self.J,
            self.L,
            input_scale=self.input_scale_,
            scale_paths=self.scale_paths,
            device=resolve_device(self.device),
        )

    def _expose(self) -> None:
        """Set the fitted attributes."""
        self.mean_ = self._model.mean.cpu().numpy()
        self.components_ = self._model.components.cpu().numpy()
        self.explained_variance_ = self._model.variances
        self._n_features_out = len(self.components_)

    def _chunks(self, X: Any, purpose: str) -> Iterator[Tensor]:
        rows = self.batch_size
        with counting_bar(self.verbose, len(X), purpose) as bar:
            for start in range(0, len(X), rows):
                chunk = np.array(X[start : start + rows])
                check_finite(chunk, first=start)
                yield torch.from_numpy(chunk)
                bar.update(len(chunk))

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self._model.state()

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.input_scale_ = float(values["input_scale"])
        self.sample_shape_ = tuple(values["sample_shape"])
        self.n_features_in_ = self.sample_shape_[0]
        padded = [side + 3 * 2 ** min(self.J, 40) for side in self.sample_shape_[-2:]]
        if math.prod(padded) * self.J * self.L > max(MOST_FILTERS, 8 * len(tensors["mean"])):
            raise InputError("its filters are larger than its components; fit and save it again.")
        self._model = self._build()
        self._model.restore(tensors)
        self._expose()
        n, D = len(self.components_), self._model.n_coefficients
        if self.mean_.shape != (D,) or self.components_.shape != (n, D):
            raise InputError("its components do not match its samples; fit and save it again.")


def images(X: Any, features: str = "scattering features") -> Any:
    """X, checked to hold images (n, h, w) or (n, c, h, w) of real numbers, which are read later."""
    X = unmasked(X)
    if isinstance(X, Tensor):
        X = as_numpy(X)
    elif not all(hasattr(X, name) for name in ("shape", "dtype", "ndim")):
        try:
            X = np.asarray(X)
        except ValueError as error:  # rows of different lengths
            raise InputError(reason(error)) from None
    if X.ndim not in (3, 4) or 0 in X.shape:
        raise InputError(
            f"{features} are made from images (n, h, w) or (n, c, h, w); "
            f"X has shape {tuple(X.shape)}."
        )
    if X.dtype.kind not in "biuf":
        raise InputError(f"X holds values of type {X.dtype}, not real numbers.")
    return X
