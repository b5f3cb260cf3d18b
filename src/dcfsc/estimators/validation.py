"""What every estimator checks before it starts, and how X becomes a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import validate_data
from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.io import Streamed, check_finite, unmasked
from dcfsc.io.images import channels_first, check_size
from dcfsc.io.streamed import require_room
from dcfsc.parameters import FLAG, NONE, POSITIVE, Kind, one_of, table, whole
from dcfsc.representations import NAME

LAM = POSITIVE | one_of("auto")
SUBSPACE_DIM = (POSITIVE | NONE).needs("lam", "auto")
GRAPH = table(  # of the samples as they are
    lam=LAM,
    normalize=FLAG,
    representation=NAME,
    working_size=NONE | one_of("auto") | Kind(lambda v: bool(check_size(v)), "a size"),
)


def fixed_lam(lam: float | str) -> float | None:
    """A number, or None for "auto"."""
    return None if isinstance(lam, str) else float(lam)


def check_array(estimator: Any, X: Any, *, reset: bool, least_samples: int = 1) -> Any:
    """X as a finite float or uint8 array (n, features), (n, h, w) or (n, c, h, w).

    A process that shares the samples with others may have a single one, whatever ``least_samples``.

    Samples on disk (:class:`dcfsc.io.Streamed`) stay there. Images with their channels last,
    (n, h, w, 3), become (n, 3, h, w).
    """
    least_samples = 1 if processes.active() else least_samples
    if isinstance(X, Streamed | np.ndarray | Tensor):
        X = channels_first(X, "X")
    if isinstance(X, Streamed):
        _check_streamed(estimator, X, reset, least_samples)
    else:
        X = unmasked(X)
        if isinstance(X, Tensor):
            X = as_numpy(X)
        if sp.issparse(X):
            X = _dense(estimator, X)
        if hasattr(X, "collect") and not hasattr(X, "__array__"):
            raise InputError(f"X is a {type(X).__name__}, not yet computed; give X.collect().")
        integer_images = isinstance(X, np.ndarray) and X.dtype == np.uint8
        try:
            if isinstance(X, np.ndarray) and X.ndim < 2:
                raise InputError(
                    f"X must have samples in rows; got {np.ndim(X)} dimensions. Reshape your data: "
                    "X.reshape(-1, 1) is one feature, X.reshape(1, -1) one sample."
                )
            X = validate_data(
                estimator,
                X,
                reset=reset,
                allow_nd=True,
                dtype=np.uint8 if integer_images else _kinds(X),
                order="C",
                ensure_min_samples=least_samples,
            )
        except ValueError as error:
            # what is wrong stands in the first line; the rest recommends other estimators
            first, *rest = str(error).strip().splitlines()
            names = rest if "feature names" in first else []
            raise InputError(" ".join([first, *names])) from None
    if X.ndim > 4:
        raise InputError(
            f"X must be (n, features), (n, h, w) or (n, c, h, w); got {X.ndim} dimensions."
        )
    check_shape(estimator, X, reset)
    return X


def check_shape(estimator: Any, X: Any, reset: bool) -> None:
    """Set the shape of a sample, or compare it with that of the samples of the fit."""
    shape = tuple(int(s) for s in X.shape[1:])
    if reset:
        estimator.sample_shape_ = shape
    elif shape != tuple(estimator.sample_shape_):
        raise InputError(
            f"samples have shape {shape}, but {type(estimator).__name__} was fitted on "
            f"{tuple(estimator.sample_shape_)}."
        )


def as_numpy(X: Tensor) -> np.ndarray:
    """A tensor's numbers as an array, in single precision where NumPy lacks their type."""
    X = X.detach().cpu().to_dense()
    lacks = X.is_floating_point() and X.dtype.itemsize < 4 and X.dtype != torch.float16
    return (X.float() if lacks else X).numpy()


def _kinds(X: Any) -> Any:
    """The types that X may keep; scikit-learn would make float64 of a float32 polars frame."""
    single = hasattr(X, "to_numpy") and hasattr(X, "schema") and X[:0].to_numpy().dtype == "float32"
    return np.float32 if single else (np.float64, np.float32)


def _dense(estimator: Any, X: Any) -> np.ndarray:
    """A sparse matrix as an array, for what clusters rows; a transformer takes images."""
    if not estimator.__sklearn_tags__().input_tags.sparse:
        raise InputError("X is a sparse matrix; give a dense array, as X.toarray() is.")
    if X.dtype.kind not in "buif":
        raise InputError(f"X is a sparse matrix of type {X.dtype}; give real numbers.")
    kind = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
    require_room("X", int(np.prod(X.shape)) * kind.itemsize)
    return X.astype(kind).toarray()


def _check_streamed(estimator: Any, X: Streamed, reset: bool, least_samples: int) -> None:
    """What scikit-learn checks of an array, a block of rows at a time."""
    if X.ndim < 2:
        raise InputError(f"X must hold numbers with samples in rows; got {X!r}.")
    if len(X) < least_samples:
        raise InputError(f"X has {len(X)} samples; at least {least_samples} are needed.")
    check_finite(X)
    if reset:
        estimator.n_features_in_ = X.shape[1]


def check_n_clusters(n_clusters: Any, n_samples: int, least: int = 1) -> int:
    """K as an integer, if ``least`` <= K <= N."""
    whole(least).check("n_clusters", n_clusters)
    count = int(n_clusters)
    if count > n_samples:
        raise InputError(
            f"n_clusters={count} is more than n_samples={n_samples}; "
            "give more samples or ask for fewer clusters."
        )
    return count


def local_generator(random_state: np.random.RandomState, device: str = "cpu") -> torch.Generator:
    """A torch generator of its own, seeded from scikit-learn's random state."""
    return torch.Generator(device).manual_seed(int(random_state.randint(2**31 - 1)))
