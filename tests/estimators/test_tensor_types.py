"""Tensors of types that NumPy lacks: the numbers that they hold, or one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dcfsc.self_expression as self_expression
from dcfsc import suggest_k
from dcfsc.errors import InputError
from dcfsc.estimators import AutoencoderFeatures, ScatteringFeatures
from dcfsc.estimators.registry import METHODS
from dcfsc.io import synthetic

PAPERS: dict[str, Any] = {"pretrain_epochs": 1, "steps": 1, "verbose": False}
VIEWS: dict[str, Any] = {"effort": "quick", "steps": 1, "verbose": False}
SHORT = {"dcfsc": PAPERS, "dsc": PAPERS, "views": VIEWS}
HALVES = [torch.bfloat16, torch.float16]


def options(name: str) -> dict[str, Any]:
    return {"random_state": 0, "device": "cpu", **SHORT.get(name, {})}


@pytest.fixture(params=HALVES, ids=str)
def halved(request: pytest.FixtureRequest) -> torch.Tensor:
    return torch.from_numpy(synthetic(60, 3, 2, 8, random_state=0).X).to(request.param)


def same(halved: torch.Tensor) -> torch.Tensor:
    """The same numbers in the type that they are computed in."""
    return halved.float() if halved.dtype == torch.bfloat16 else halved.double()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_clusters_are_those_of_the_same_numbers(name: str, halved: torch.Tensor) -> None:
    found, wanted = (METHODS[name](3, **options(name)).fit(X) for X in (halved, same(halved)))
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    for use in ("predict", "predict_proba", "transform"):
        if hasattr(wanted, use) and hasattr(wanted, "save"):
            ours, theirs = (getattr(wanted, use)(X) for X in (halved, same(halved)))
            np.testing.assert_array_equal(ours, theirs)


def test_features_are_those_of_the_same_numbers(halved: torch.Tensor) -> None:
    images = halved.reshape(30, 4, 4)
    images = images.repeat_interleave(3, 1).repeat_interleave(3, 2)
    for model, X in (
        (AutoencoderFeatures(pretrain_epochs=1, random_state=0, device="cpu"), halved),
        (ScatteringFeatures(device="cpu"), images),
    ):
        ours, theirs = (model.fit_transform(each) for each in (X, same(X)))
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (suggest_k(X, random_state=0, device="cpu") for X in (halved, same(halved)))
    assert list(ours) == list(theirs)
    assert suggest_k(halved, random_state=0, device="cpu").k == 3


def test_solvers_say_which_types_they_take(halved: torch.Tensor) -> None:
    for solver in (
        lambda Z: self_expression.solve(Z, 0.5),
        lambda Z: self_expression.solve_for_dof(Z, 3.0),
        lambda Z: self_expression.dense_self_expression(Z, 1.0),
        self_expression.elastic_net_self_expression,
        self_expression.sparse_self_expression,
    ):
        with pytest.raises(InputError, match=r"must be float32 or float64") as error:
            solver(halved)
        assert "\n" not in str(error.value)
    squares = torch.linspace(1.0, 2.0, 5).to(halved.dtype)
    assert self_expression.lam_for_dof(squares, 2.0) == pytest.approx(
        self_expression.lam_for_dof(squares.double(), 2.0)
    )


def test_a_sparse_tensor_is_clustered_as_a_dense_one(halved: torch.Tensor) -> None:
    found, wanted = (
        METHODS["closed-form"](3, **options("")).fit(X) for X in (halved.to_sparse(), halved)
    )
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
