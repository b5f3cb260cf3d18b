"""Kernel matrices, and sparse self-expression on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.self_expression.kernel import (
    kernel_matrix,
    kernel_sparse_self_expression,
)
from dcfsc.self_expression.sparse import sparse_self_expression


def gaussian(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((n, d))).to(dtype)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    degree=st.integers(1, 4),
    coef0=st.floats(0, 3),
    gamma=st.floats(0.01, 2),
)
def test_kernels_are_those_of_scikit_learn(
    seed: int, degree: int, coef0: float, gamma: float
) -> None:
    Z = gaussian(12, 5, seed)
    X = Z.numpy()
    polynomial = kernel_matrix(Z, "polynomial", degree=degree, coef0=coef0, gamma=gamma)
    np.testing.assert_allclose(
        polynomial, polynomial_kernel(X, degree=degree, coef0=coef0, gamma=gamma), rtol=1e-9
    )
    np.testing.assert_allclose(kernel_matrix(Z, "rbf", gamma=gamma), rbf_kernel(X, gamma=gamma))
    np.testing.assert_allclose(kernel_matrix(Z, "linear"), linear_kernel(X), atol=1e-12)
    np.testing.assert_allclose(kernel_matrix(Z, "linear", gamma=gamma), gamma * linear_kernel(X))


def test_default_rbf_width_is_free_of_scale() -> None:
    Z = gaussian(10, 4, seed=1)
    torch.testing.assert_close(kernel_matrix(Z, "rbf"), kernel_matrix(255 * Z, "rbf"))
    assert torch.equal(kernel_matrix(torch.ones(3, 2), "rbf"), torch.ones(3, 3))
    width = 1.0 / (4 * np.var(Z.numpy()))
    np.testing.assert_allclose(kernel_matrix(Z, "rbf"), rbf_kernel(Z.numpy(), gamma=width))


def test_the_default_is_a_polynomial_of_second_degree_with_a_constant_of_one() -> None:
    Z = gaussian(10, 4, seed=1)
    np.testing.assert_allclose(kernel_matrix(Z), (Z.numpy() @ Z.numpy().T + 1.0) ** 2)


def test_there_are_two_hundred_steps_unless_said() -> None:
    found = kernel_sparse_self_expression(kernel_matrix(gaussian(12, 4, seed=3)), tol=1e-300)
    assert (found.n_iter, found.converged) == (200, False)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_round_off_between_samples_does_not_set_the_weight(scale: float) -> None:
    """Two copies, and a sample that is orthogonal but for round-off."""
    K = torch.eye(3, dtype=torch.float64)
    K[0, 1] = K[1, 0] = 0.5
    K[0, 2] = K[2, 0] = 1e-17
    clean = torch.where(K < 1e-16, 0.0, K)
    one, other = (kernel_sparse_self_expression(scale * k, tol=1e-8) for k in (K, clean))
    torch.testing.assert_close(one.coefficients, other.coefficients, rtol=0, atol=1e-12)
    assert one.objective == pytest.approx(other.objective)


def test_rbf_keeps_close_samples_apart_in_single_precision() -> None:
    Z = 1000 + gaussian(8, 3, seed=2)
    single = kernel_matrix(Z.float(), "rbf", gamma=0.1)
    torch.testing.assert_close(single, kernel_matrix(Z.float().double(), "rbf", gamma=0.1).float())


@pytest.mark.parametrize("shape", [(40, 9), (20, 35)])
@pytest.mark.parametrize("affine", [False, True])
def test_linear_kernel_is_the_lasso(shape: tuple[int, int], affine: bool) -> None:
    Z = gaussian(*shape, seed=3)
    options = {"affine": affine, "tol": 1e-30, "max_iter": 60}
    lasso = sparse_self_expression(Z, 20.0, outliers=False, **options)
    kernel = kernel_sparse_self_expression(kernel_matrix(Z, "linear"), 20.0, **options)
    torch.testing.assert_close(kernel.coefficients, lasso.coefficients, atol=1e-9, rtol=0)
    assert kernel.objective == pytest.approx(lasso.objective, rel=1e-8)
    assert kernel.residual == pytest.approx(lasso.residual, rel=1e-6)


@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
def test_reaches_the_convex_optimum(kernel: str) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    Z = torch.nn.functional.normalize(gaussian(20, 4, seed=4), dim=1)
    K = kernel_matrix(Z, kernel)
    found = kernel_sparse_self_expression(K, 10.0, tol=1e-9, max_iter=20000)
    off = K.abs() - torch.diag(K.diagonal())
    weight = 10.0 / float(off.amax(1).min())
    values, vectors = np.linalg.eigh(K.numpy())
    root = vectors * np.sqrt(values.clip(min=0))  # K = root root'
    C = cvxpy.Variable((20, 20))
    objective = cvxpy.sum(cvxpy.abs(C)) + weight / 2 * cvxpy.sum_squares(root - C @ root)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.diag(C) == 0])
    problem.solve(solver=cvxpy.CLARABEL)
    assert found.converged
    assert found.objective == pytest.approx(problem.value, rel=1e-5)


def test_meets_the_optimality_conditions() -> None:
    K = kernel_matrix(gaussian(200, 30, seed=5), "rbf")
    found = kernel_sparse_self_expression(K, 10.0, tol=1e-9, max_iter=20000)
    C = found.coefficients
    weight = 10.0 / float((K - torch.diag(K.diagonal())).amax(1).min())
    gradient = (weight * (K - C @ K)).fill_diagonal_(0)
    assert found.converged
    assert gradient.abs().max() <= 1 + 1e-5
    support = C != 0
    assert support.any()
    torch.testing.assert_close(gradient[support], C[support].sign(), atol=1e-5, rtol=0)


def test_single_precision_agrees_with_double() -> None:
    K = kernel_matrix(gaussian(80, 10, seed=6), "rbf")
    single = kernel_sparse_self_expression(K.float())
    double = kernel_sparse_self_expression(K)
    assert single.coefficients.dtype == torch.float32
    torch.testing.assert_close(single.coefficients.double(), double.coefficients, atol=2e-4, rtol=0)


def test_samples_alone_have_no_code() -> None:
    for K in (torch.ones(1, 1), torch.eye(4), torch.zeros(3, 3)):
        found = kernel_sparse_self_expression(K)
        assert found.converged
        assert not found.coefficients.any()
    K = torch.block_diag(kernel_matrix(gaussian(10, 3, seed=7), "rbf"), torch.ones(1, 1))
    C = kernel_sparse_self_expression(K).coefficients
    assert not C[10].any()
    assert not C[:, 10].any()
    assert C[:10].any()


def test_input_is_left_alone() -> None:
    Z = gaussian(12, 3, seed=8)
    K = kernel_matrix(Z)
    before = Z.clone(), K.clone()
    kernel_sparse_self_expression(K)
    kernel_matrix(Z, "rbf")
    assert torch.equal(Z, before[0])
    assert torch.equal(K, before[1])


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf"])
@pytest.mark.parametrize(
    "Z", [torch.ones(3), torch.ones(0, 2), torch.full((2, 2), torch.nan), torch.ones(2, 2).long()]
)
def test_kernels_of_what_is_no_matrix_of_numbers_are_refused(kernel: str, Z: Tensor) -> None:
    with pytest.raises(InputError, match="Z "):
        kernel_matrix(Z, kernel)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf"])
def test_gpu_agrees_with_cpu(kernel: str) -> None:
    Z = gaussian(40, 6, seed=9)
    cpu = kernel_sparse_self_expression(kernel_matrix(Z, kernel))
    gpu = kernel_sparse_self_expression(kernel_matrix(Z.cuda(), kernel))
    torch.testing.assert_close(gpu.coefficients.cpu(), cpu.coefficients, atol=1e-8, rtol=0)


def test_bad_input_is_one_clear_line() -> None:
    with pytest.raises(InputError, match="symmetric"):
        kernel_sparse_self_expression(torch.tensor([[1.0, 0.2], [0.7, 1.0]]))
    with pytest.raises(InputError, match="symmetric"):
        kernel_sparse_self_expression(torch.ones(2, 3))
    with pytest.raises(InputError, match="positive semi-definite"):
        kernel_sparse_self_expression(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(InputError, match="unknown kernel 'rbff'"):
        kernel_matrix(torch.ones(2, 2), "rbff")
    with pytest.raises(InputError, match="two samples"):
        kernel_sparse_self_expression(torch.ones(1, 1), affine=True)
