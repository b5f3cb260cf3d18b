"""Arrays that a clustering may be handed: every shape, type, scale and degeneracy, by recipe.

A recipe is a few plain values, so that a property test can shrink it and a failure can be typed in.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dcfsc.errors import InputError
from dcfsc.estimators.registry import METHODS
from dcfsc.self_expression import solve

CONTENTS = (
    *("gaussian", "subspaces", "constant", "duplicates", "zero rows", "zeros", "one column"),
    *("one value apart", "huge and tiny", "integers", "subnormal"),
)
DEFECTS = ("none", "NaN", "infinity", "-infinity")
TYPES = ("float64", "float32", "float16", "uint8", "int64", "bool")
OPTIONS: dict[str, dict[str, Any]] = {
    "dcfsc": {"pretrain_epochs": 1, "steps": 1},
    "dsc": {"pretrain_epochs": 1, "steps": 1},
    "views": {"effort": "quick", "steps": 1},
}


@dataclass(frozen=True)
class Recipe:
    """n samples of a shape; entries of a kind and a type, times 10^exponent, perhaps a defect."""

    n: int = 10
    shape: tuple[int, ...] = (5,)
    content: str = "gaussian"
    dtype: str = "float64"
    exponent: int = 0
    defect: str = "none"
    seed: int = 0

    def array(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        X = _entries(rng, self.content, self.n, int(np.prod(self.shape)))
        with np.errstate(all="ignore"):
            if self.dtype in ("uint8", "int64", "bool"):
                X = np.clip(np.round(X * 10 ** min(max(self.exponent, 0), 3)), -255, 255)
                X = (np.abs(X) if self.dtype == "uint8" else X).astype(self.dtype)
            else:
                X = (X * 10.0**self.exponent).astype(self.dtype)
                if self.defect != "none":
                    value = {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf}[self.defect]
                    X.flat[rng.integers(X.size)] = value
        return X.reshape(self.n, *self.shape)


def _entries(rng: np.random.Generator, content: str, n: int, d: int) -> np.ndarray:
    X = rng.standard_normal((n, d))
    if content == "subspaces":
        X = rng.standard_normal((n, 1)) * rng.standard_normal((2, d))[rng.integers(2, size=n)]
    elif content == "constant":
        X[:] = X[0, 0]
    elif content == "duplicates":
        X = X[rng.integers(min(n, 3), size=n)]
    elif content == "zero rows":
        X[rng.random(n) < 0.4] = 0.0
    elif content == "zeros":
        X[:] = 0.0
    elif content == "one column":
        X[:, 1:] = 0.0
    elif content == "one value apart":
        X[:] = 1.0
        X[0, 0] = 2.0
    elif content == "huge and tiny":
        X *= 10.0 ** rng.integers(-8, 9, size=(n, 1))
    elif content == "integers":
        X = np.round(X)
    elif content == "subnormal":
        X *= 5e-324
    return X


def cluster(
    method: str, X: Any, n_clusters: int, **options: Any
) -> np.ndarray | InputError | ValueError:
    """Labels that have been looked at, or the one line that refused X; anything else raises."""
    estimator = METHODS[method](
        n_clusters=n_clusters,
        random_state=0,
        device="cpu",
        **{**OPTIONS.get(method, {}), **options},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            labels = estimator.fit_predict(X)
        except ValueError as error:
            assert_one_line(error)
            return error
    labels = np.asarray(labels)
    assert labels.shape == (len(X),), labels.shape
    assert labels.dtype.kind in "iu", labels.dtype
    assert 0 <= labels.min() <= labels.max() < n_clusters, labels
    if hasattr(estimator, "predict"):
        again = np.asarray(estimator.predict(X[:3]))
        assert 0 <= again.min() <= again.max() < n_clusters, again
    return labels


def solved(X: np.ndarray, lam: float, form: str) -> bool:
    """Whether the closed form took X; what it gives back must then be finite."""
    Z = torch.from_numpy(np.ascontiguousarray(X))
    try:
        answer = solve(Z, lam, form=form)  # type: ignore[arg-type]
        products, leverage = answer.apply(Z), answer.leverage
        values, neighbors = answer.topk(min(3, len(X) - 1))
    except ValueError as error:
        assert_one_line(error)
        return False
    assert torch.isfinite(products).all()
    assert torch.isfinite(leverage).all()
    assert ((leverage >= -1e-6) & (leverage <= 1 + 1e-6)).all(), leverage
    assert torch.isfinite(torch.as_tensor(values)).all()
    indices = torch.as_tensor(neighbors)
    assert ((indices >= 0) & (indices < len(X))).all()
    assert np.isfinite(answer.effective_dof)
    return True


def assert_one_line(error: BaseException) -> None:
    message = str(error)
    assert message.strip(), f"{type(error).__name__} says nothing"
    assert len(message.splitlines()) == 1, message
