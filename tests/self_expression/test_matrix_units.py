"""Products in parts, as a GPU's matrix units do them, with those of a CPU in their place."""

import pytest
import torch

from dcfsc.self_expression import feature_form, products, solve
from dcfsc.self_expression.feature_form import FeatureForm
from dcfsc.self_expression.products import SplitMatrix, needs_one_part

HALF = 2.0**-11  # the rounding of a float16 number


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(autouse=True)
def count(monkeypatch):
    """How many products of half-precision factors there were."""
    made = []

    def product(a, b, added):
        assert a.dtype == b.dtype == torch.float16
        made.append(a.shape)
        return a.float() @ b.float() + (0.0 if added is None else added)

    monkeypatch.setattr(products, "_product", product)
    return lambda: len(made)


@pytest.fixture
def split(monkeypatch):
    monkeypatch.setattr(feature_form, "splits", lambda A, columns: A.dtype == torch.float32)


def relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("scale", [1e-15, 1.0, 3e12])
def test_two_parts_are_nearly_as_accurate_as_float32(scale, count):
    A, B = (scale * normal(40, 30)).float(), normal(30, 20, seed=1).float()
    error = relative(SplitMatrix(A) @ SplitMatrix(B), A.double() @ B.double())
    assert error < 4 * HALF**2
    assert count() == 3


def test_transposed_parts():
    A, B = normal(40, 30).float(), normal(40, 20, seed=1).float()
    error = relative(SplitMatrix(A).mT @ SplitMatrix(B), A.double().T @ B.double())
    assert error < 4 * HALF**2


@pytest.mark.parametrize("one", ["left", "right", "both"])
def test_one_part_is_the_matrix_rounded_to_half_precision(one, count):
    A, B = normal(40, 30).float(), normal(30, 20, seed=1).float()
    left = SplitMatrix(A, 1 if one != "right" else 2)
    right = SplitMatrix(B).leading(1 if one != "left" else 2)
    error = relative(left @ right, A.double() @ B.double())
    assert 0.1 * HALF < error < HALF
    assert count() == (1 if one == "both" else 2)


def test_numbers_of_a_half_precision_network_need_one_part(count):
    """bfloat16 has fewer digits than float16, so nothing is lost."""
    A, B = normal(40, 30).bfloat16().float(), normal(30, 20, seed=1).float()
    assert needs_one_part(A)
    exact = A.double() @ B.double()
    assert relative(SplitMatrix(A, 1) @ SplitMatrix(B), exact) < 4 * HALF**2
    assert count() == 2
    A[3, 4] += 1e-3
    assert not needs_one_part(A)


@pytest.mark.parametrize(("half", "products"), [(True, 2), (False, 3)])
def test_whitening_takes_the_parts_that_the_samples_need(half, products, split, count):
    Z = normal(60, 8).float()
    Z = Z.bfloat16().float() if half else Z
    operator = FeatureForm(Z, 1.0)
    assert count() == products
    exact = solve(Z.double(), 1.0, form="samples")
    torch.testing.assert_close(operator.leverage, exact.leverage, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("ratio", "whitens"), [(0.5, True), (6000, True), (9000, False)])
def test_the_closed_form_has_the_same_numbers(ratio, whitens, split, count):
    """They whiten where float32 loses less than 1e-5: |z| / sqrt(lam) below 84 at unit length."""
    Z, V = torch.nn.functional.normalize(normal(60, 8)), normal(60, 5, seed=1)
    exact = solve(Z, 1 / ratio, form="samples")
    operator = FeatureForm(Z.float(), 1 / ratio)
    assert count() == (3 if whitens else 0)
    close = {"rtol": 0, "atol": 1e-4, "check_dtype": False}
    torch.testing.assert_close(operator.leverage, exact.leverage, **close)
    torch.testing.assert_close(operator.dense(), exact.dense(), **close)
    torch.testing.assert_close(operator.matmul(operator._Z), exact.matmul(Z), **close)
    torch.testing.assert_close(operator.matmul(V.float()), exact.matmul(V), **close)
    torch.testing.assert_close(operator.rmatmul(V.float()), exact.rmatmul(V), **close)
    assert count() == (3 if whitens else 0) + 15


@pytest.mark.parametrize("rounded", [False, True])
def test_gradients_of_the_layer(rounded, split, count):
    """dL/dV = B' dL/d(BV), rounded to half precision where that is asked for."""
    Z, G = torch.nn.functional.normalize(normal(60, 8)), normal(60, 8, seed=1)
    exact = solve(Z, 0.02, form="samples").dense().T @ G
    V = Z.float().requires_grad_()
    operator = FeatureForm(Z.float(), 0.02)
    product = operator.apply(V, rounded=rounded)
    torch.testing.assert_close(product.double(), operator.dense().double() @ Z, rtol=0, atol=1e-5)
    before = count()
    product.backward(G.float())
    assert V.grad is not None
    error = relative(V.grad, exact)
    assert 1e-5 < error < HALF if rounded else error < 1e-5
    assert count() - before == (2 if rounded else 6)


def test_what_back_propagation_keeps(split):
    """The parts of Y alone: neither Y itself nor the samples nor the factor."""
    operator = FeatureForm(normal(60, 8).float(), 1.0)
    operator.matmul(operator._Z)
    for rounded, parts in ((True, 1), (False, 2)):
        kept = operator.for_backward(rounded)
        tensors = [value for value in vars(kept).values() if isinstance(value, torch.Tensor)]
        assert max(tensor.untyped_storage().nbytes() for tensor in tensors) == 60 * 8
        assert len(kept._split.parts) == parts
    assert len(operator._split.parts) == 2
    assert operator.Y.shape == (60, 8)
