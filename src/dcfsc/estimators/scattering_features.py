"""Scattering coefficients as features: what images are clustered by where no network is trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc.errors import InputError

from .persistence import Persistent
from .principal_components import RunningCovariance, principal_components
from .scattering_transform import Scattering
from .validation import resolve_device, unit_rows, writeable

NOISE = 2e-6  # of an image's largest coefficient: a path below it is rounding in float32


class ScatteringFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, Persistent, BaseEstimator
):
    """Images -> scattering coefficients -> their principal components -> rows of unit length.

    The features on which scalable subspace clustering is compared (You et al. 2016, SSC-OMP and
    EnSC): for 28 x 28 digits, padded to 32 x 32, 217 paths of 4 x 4 coefficients, 3,472 numbers a
    sample, reduced to 500. As in that work's public code every path of a sample is divided by its
    largest magnitude, so that the fine scales, whose coefficients are small, count as much as the
    coarse; ``scale_paths=False`` leaves them as they are. Unlike that code, which projects on the
    leading singular vectors of the coefficients as they are, the mean is subtracted first;
    ``center=False`` keeps it, which :class:`SSCOMP` needs on digits.

    The principal components are exact: the covariance is added up in float64 over chunks of
    samples, and a second pass projects them. X is only sliced, so that it may be larger than
    memory; besides the result, memory holds one chunk and the covariance.

    Parameters
    ----------
    J : int
        Coefficients are averaged over 2^J pixels; images must be at least as large.
    L : int
        Angles of the wavelets.
    n_components : int or None
        At most so many principal components (never more than samples or coefficients); None
        keeps all of these.
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
    mean_ : ndarray (D,), components_ : ndarray (k, D), explained_variance_ : ndarray (k,)
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

    def __init__(
        self,
        J: int = 3,
        L: int = 8,
        n_components: int | None = 500,
        *,
        center: bool = True,
        scale_paths: bool = True,
        unit_rows: bool = True,
        batch_size: int = 1024,
        device: Any = "auto",
        verbose: bool | str = "auto",
    ):
        self.J = J
        self.L = L
        self.n_components = n_components
        self.center = center
        self.scale_paths = scale_paths
        self.unit_rows = unit_rows
        self.batch_size = batch_size
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> ScatteringFeatures:
        """Find the principal components for images X (n, h, w) or (n, c, h, w)."""
        for name in ("J", "L", "batch_size"):
            check_whole(name, getattr(self, name))
        if self.n_components is not None:
            check_whole("n_components", self.n_components)
        X = images(X)
        if len(X) < 2:
            raise InputError("principal components need at least 2 samples; there is 1.")
        self.sample_shape_ = tuple(int(s) for s in X.shape[1:])
        self.n_features_in_ = self.sample_shape_[0]
        self._prepare()
        self.input_scale_ = self._scale(X)
        n, d = len(X), self._n_coefficients
        k = min(n, d, n if self.n_components is None else int(self.n_components))
        parts = (self._coefficients(chunk) for chunk in self._chunks(X, "covariance"))
        if n <= d:
            found = principal_components(torch.cat(list(parts)), k, bool(self.center))
        else:
            covariance = RunningCovariance(d, resolve_device(self.device))
            for part in parts:
                covariance.add(part)
            found = covariance.principal(k, bool(self.center))
        self.mean_, self.components_ = found[0].astype(np.float32), found[1].astype(np.float32)
        self.explained_variance_ = found[2]
        self._n_features_out = k
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features (n, k) of images X, float32."""
        check_is_fitted(self)
        X = images(X)
        if tuple(X.shape[1:]) != self.sample_shape_:
            raise InputError(
                f"samples have shape {tuple(X.shape[1:])}, but the features were fitted on "
                f"{self.sample_shape_}."
            )
        device = resolve_device(self.device)
        mean = torch.from_numpy(writeable(self.mean_)).to(device)
        components = torch.from_numpy(writeable(self.components_)).to(device)
        out = np.empty((len(X), len(self.components_)), np.float32)
        start = 0
        for chunk in self._chunks(X, "projection"):
            Z = (self._coefficients(chunk) - mean) @ components.T
            out[start : start + len(chunk)] = (unit_rows(Z) if self.unit_rows else Z).cpu().numpy()
            start += len(chunk)
        return out

    def _prepare(self) -> None:
        shape, device = self.sample_shape_, resolve_device(self.device)
        self._scattering = Scattering((shape[-2], shape[-1]), int(self.J), int(self.L), device)
        channels = 1 if len(shape) == 2 else shape[0]
        self._n_coefficients = channels * int(np.prod(self._scattering.shape))

    def _chunks(self, X: Any, what: str) -> Iterator[np.ndarray]:
        rows = int(self.batch_size)
        with counting_bar(self.verbose, len(X), what) as advance:
            for start in range(0, len(X), rows):
                chunk = np.asarray(X[start : start + rows])
                if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
                    bad = np.isfinite(chunk).reshape(len(chunk), -1).all(axis=1).argmin()
                    raise InputError(
                        f"X has NaN or infinity in row {start + bad} (counted from 0); fill it in "
                        "or leave that sample out."
                    )
                yield chunk
                advance(len(chunk))

    def _scale(self, X: Any) -> float:
        if X.dtype == np.uint8:
            return 1 / 255
        largest = max(float(np.abs(chunk).max()) for chunk in self._chunks(X, "range"))
        return 1 / largest if largest > 0 else 1.0

    def _coefficients(self, chunk: np.ndarray) -> Tensor:
        """Scattering coefficients (b, D) of samples (b, h, w) or (b, c, h, w), on the device."""
        if chunk.dtype == np.uint8:
            pixels = torch.from_numpy(np.array(chunk)).to(resolve_device(self.device))
            pixels = pixels.float() * self.input_scale_
        else:
            # scaled in float64: a value may not fit float32, nor the scale float16
            scaled = np.ascontiguousarray(chunk * np.float64(self.input_scale_), dtype=np.float32)
            pixels = torch.from_numpy(scaled).to(resolve_device(self.device))
        S = self._scattering(pixels.reshape(-1, *pixels.shape[-2:]))  # (b c, paths, h', w')
        if self.scale_paths and S.shape[2] * S.shape[3] > 1:  # one number would become a constant
            largest = S.abs().amax(dim=(2, 3), keepdim=True)
            floor = (NOISE * largest.amax(dim=1, keepdim=True)).clamp_min(torch.finfo().tiny)
            S /= largest.maximum(floor)
        return S.reshape(len(chunk), -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            "mean": torch.from_numpy(self.mean_),
            "components": torch.from_numpy(self.components_),
            "explained_variance": torch.from_numpy(np.ascontiguousarray(self.explained_variance_)),
        }
        values = {"input_scale": self.input_scale_, "sample_shape": list(self.sample_shape_)}
        return tensors, values

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.mean_ = tensors["mean"].numpy()
        self.components_ = tensors["components"].numpy()
        self.explained_variance_ = tensors["explained_variance"].numpy()
        self.input_scale_ = float(values["input_scale"])
        self.sample_shape_ = tuple(values["sample_shape"])
        self.n_features_in_ = self.sample_shape_[0]
        self._n_features_out = len(self.components_)
        self._prepare()

    _n_features_out: int


def images(X: Any) -> Any:
    """X itself where it can be sliced as images (n, h, w) or (n, c, h, w) of real numbers."""
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    elif not all(hasattr(X, name) for name in ("shape", "dtype", "ndim")):
        try:
            X = np.asarray(X)
        except ValueError as error:  # rows of different lengths
            raise InputError(str(error).splitlines()[0]) from None
    if X.ndim not in (3, 4) or 0 in X.shape:
        raise InputError(
            f"scattering features are made from images (n, h, w) or (n, c, h, w); X has shape "
            f"{tuple(X.shape)}."
        )
    if X.dtype.kind not in "biuf":
        raise InputError(f"X holds values of type {X.dtype}, not real numbers.")
    return X


def check_whole(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {value!r}.")


@contextmanager
def counting_bar(verbose: bool | str, total: int, what: str) -> Iterator[Callable[[int], object]]:
    """A function that advances a bar by so many of ``total``; a no-op where nobody watches."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if not shown:
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what, file=sys.stderr, leave=False, dynamic_ncols=True) as bar:
        yield bar.update
