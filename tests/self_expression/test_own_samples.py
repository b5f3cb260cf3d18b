"""Products with the samples themselves are cheaper, and right when the samples have changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dcfsc.self_expression import FeatureForm, solve
from dcfsc.self_expression.feature_form import RidgeFactor


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every product that does not touch the samples."""
    found: list[int] = []
    true = RidgeFactor.whitened_gram.fget

    def counted(self: RidgeFactor) -> torch.Tensor:
        found.append(1)
        assert true is not None
        return true(self)

    monkeypatch.setattr(RidgeFactor, "whitened_gram", property(counted))
    return found


def samples(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(30, 5))


def dense(Z: np.ndarray, lam: float) -> torch.Tensor:
    P = np.linalg.inv(Z @ Z.T + lam * np.eye(len(Z)))
    B = -P / np.diag(P)[:, None]
    np.fill_diagonal(B, 0.0)
    return torch.from_numpy(B)


def test_own_samples_are_known(uses: list[int]) -> None:
    Z = torch.from_numpy(samples()).clone().requires_grad_()
    operator = solve(Z, 0.7, "features")
    expected = dense(samples(), 0.7) @ Z.detach()
    torch.testing.assert_close(operator.apply(Z).detach(), expected)
    torch.testing.assert_close(operator.matmul(Z.detach()), expected)
    assert len(uses) == 2
    torch.testing.assert_close(operator.matmul(Z.detach().clone()), expected)
    assert len(uses) == 2


@pytest.mark.parametrize("what", ["double", "one row", "copied over", "a view", "numpy"])
def test_samples_that_have_changed_are_multiplied_as_they_are(what: str, uses: list[int]) -> None:
    X = samples()
    Z = torch.from_numpy(X) if what == "numpy" else torch.from_numpy(X).clone()
    operator = FeatureForm(Z, 0.7)
    if what == "double":
        Z.mul_(2)
    elif what == "one row":
        Z[3] = 0.0
    elif what == "copied over":
        Z.copy_(torch.from_numpy(samples(1)))
    elif what == "a view":
        Z.view(-1)[7] += 1.0
    else:
        X *= 2
    torch.testing.assert_close(operator.matmul(Z), dense(samples(), 0.7) @ Z)
    assert uses == []


def test_tensors_of_inference_are_multiplied_as_they_are() -> None:
    with torch.inference_mode():
        Z = torch.from_numpy(samples()).clone()
        operator = FeatureForm(Z, 0.7)
        Z.mul_(2)
        torch.testing.assert_close(operator.matmul(Z), dense(samples(), 0.7) @ Z)
