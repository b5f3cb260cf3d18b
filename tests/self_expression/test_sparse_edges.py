"""Sparse codes and kernels where round-off, blocks or a lonely sample decide."""

import pytest
import torch
from samples import normal

from dcfsc.errors import InputError
from dcfsc.self_expression import (
    kernel_matrix,
    kernel_sparse_self_expression,
    sparse,
    sparse_self_expression,
)
from dcfsc.self_expression.sparse import peak_correlations
from dcfsc.self_expression.sparse_admm import HatFactor, sparse_product

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("scan", [5, 30, 1000])
def test_the_largest_correlations_are_found_in_blocks_too(scan, monkeypatch):
    monkeypatch.setattr(sparse, "_SCAN", scan)
    Z = normal(11, 4)
    expected = (Z @ Z.T).fill_diagonal_(0.0).abs().amax(1)
    torch.testing.assert_close(peak_correlations(Z), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize(("units", "kept"), [(3, False), (4, False), (6, True)])
def test_a_correlation_counts_above_the_root_of_the_dimension_in_units(units, kept):
    """Sixteen dimensions: four units of round-off at unit length."""
    Z = torch.zeros(2, 16, dtype=torch.float64)
    Z[0, 0] = Z[1, 1] = 1.0
    Z[1, 0] = units * EPS
    assert peak_correlations(Z).tolist() == ([units * EPS] * 2 if kept else [0.0, 0.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_without_any_other_to_use_are_all_outlier(dtype):
    Z = 2 * torch.eye(4, dtype=dtype)[:3]
    found = sparse_self_expression(Z, 6.0)
    C = found.coefficients.numpy()
    assert C.shape == (3, 3)
    assert C.dtype == Z.numpy().dtype
    assert not C.any()
    assert torch.equal(found.error, Z)
    assert found.error is not Z
    assert found.objective == pytest.approx(6.0 / 2 * 6)  # gamma |Z|_1
    lasso = sparse_self_expression(Z, 6.0, outliers=False)
    assert lasso.error is None
    for end in (found, lasso):
        assert (end.n_iter, end.residual, end.converged) == (0, 0.0, True)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(
    ("one", "other", "symmetric"),
    [(0.5, 0.500055, True), (0.5, 0.50007, False), (0, 0.9e-5, True), (0, 1.5e-5, False)],
)
def test_a_kernel_is_symmetric_up_to_its_tolerance(scale, one, other, symmetric):
    """1e-4 of an entry and 1e-5 of the largest."""
    K = torch.eye(3, dtype=torch.float64)
    K[0, 1], K[1, 0] = one, other
    if symmetric:
        assert kernel_sparse_self_expression(scale * K, max_iter=2).coefficients.shape == (3, 3)
    else:
        with pytest.raises(InputError, match="square and symmetric"):
            kernel_sparse_self_expression(scale * K, max_iter=2)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_default_width_of_a_kernel_follows_the_spread(scale):
    Z = normal(8, 3)
    expected = torch.exp(-torch.cdist(Z, Z).square() / (3 * Z.var(correction=0)))
    torch.testing.assert_close(kernel_matrix(scale * Z, "rbf"), expected)


def test_round_off_of_a_kernel_is_that_of_the_longest_sample():
    """Lengths 1000, 1 and 1: products of less than 1000 units of round-off are none."""
    K = torch.diag(torch.tensor([1e6, 1.0, 1.0, 1.0], dtype=torch.float64))
    K[0, 1] = K[1, 0] = 500.0
    clean = kernel_sparse_self_expression(K.clone(), tol=1e-8)
    K[2, 3] = K[3, 2] = 1e-13
    found = kernel_sparse_self_expression(K.clone(), tol=1e-8)
    torch.testing.assert_close(found.coefficients, clean.coefficients, rtol=0, atol=1e-12)
    K[2, 3] = K[3, 2] = 1e-12
    weight = 20.0 / 1e-12
    assert kernel_sparse_self_expression(K, max_iter=3).objective == pytest.approx(
        kernel_sparse_self_expression(K, max_iter=3, weight=weight).objective
    )


def test_two_samples_code_each_other_under_a_kernels_affine_constraint():
    K = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    found = kernel_sparse_self_expression(K, affine=True, tol=1e-9, max_iter=5000)
    expected = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(found.coefficients, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("lam", [1e-9, 1e-3, 1e9])
@pytest.mark.parametrize("affine", [False, True])
def test_a_hat_matrix_keeps_every_direction_that_counts(lam, affine):
    K = torch.diag(torch.tensor([1.0, 0.1 * lam, 10 * lam], dtype=torch.float64))
    factor = HatFactor.from_kernel(K, lam, affine, torch.float64)
    full = K + lam if affine else K
    expected = full @ torch.linalg.inv(full + lam * torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(factor.F @ factor.F.T, expected, rtol=0, atol=1e-9)


def test_a_product_with_a_single_coefficient_is_no_zero():
    C = torch.zeros(3, 40, dtype=torch.float64)
    C[1, 7] = -2.0
    F = normal(40, 4)
    torch.testing.assert_close(sparse_product(C, F), C @ F, rtol=0, atol=0)
