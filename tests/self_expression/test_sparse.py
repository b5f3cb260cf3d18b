"""Sparse subspace clustering: the two convex programs, their iteration and their corner cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.self_expression.sparse import (
    least_positive,
    peak_correlations,
    sparse_self_expression,
)
from dcfsc.self_expression.sparse_admm import HatFactor, _relative, sparse_product


def gaussian(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((n, d))).to(dtype)


def subspaces(per: int, dim: int, ambient: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """``per`` unit samples on each of ``k`` random subspaces, and their labels."""
    parts = [
        gaussian(per, dim, 2 * c + 100 * seed) @ gaussian(dim, ambient, 2 * c + 1 + 100 * seed)
        for c in range(k)
    ]
    Z = torch.nn.functional.normalize(torch.cat(parts), dim=1)
    return Z, torch.arange(k).repeat_interleave(per)


def soft(X: Tensor, t: float) -> Tensor:
    return X.sign() * (X.abs() - t).clamp(min=0)


def weights(Z: Tensor, alpha: float, outliers: bool) -> tuple[float, float]:
    """The authors' (weight, gamma) written out entry by entry."""
    gamma = alpha / float(Z.abs().sum(1).max())
    atoms = torch.cat([Z, torch.eye(Z.shape[1], dtype=Z.dtype) / gamma]) if outliers else Z
    T = (atoms @ Z.T).abs()
    T[torch.arange(len(Z)), torch.arange(len(Z))] = 0
    return alpha / float(T.amax(0).min()), gamma


# The exact programs


@pytest.mark.parametrize("affine", [False, True])
def test_lasso_reaches_the_convex_optimum(affine: bool) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    Z = gaussian(24, 8, seed=3)
    found = sparse_self_expression(
        Z, 5.0, outliers=False, affine=affine, tol=1e-9, max_iter=20000, penalty=5.0
    )
    weight, _ = weights(Z, 5.0, outliers=False)
    C = cvxpy.Variable((24, 24))
    constraints = [cvxpy.diag(C) == 0] + ([cvxpy.sum(C, axis=1) == 1] if affine else [])
    loss = cvxpy.sum_squares(Z.numpy() - C @ Z.numpy())
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(cvxpy.abs(C)) + weight / 2 * loss), constraints
    )
    problem.solve(solver=cvxpy.CLARABEL)
    assert found.converged
    assert found.objective == pytest.approx(problem.value, rel=1e-6)
    # C Z is unique, C need not be.
    np.testing.assert_allclose(found.coefficients @ Z, C.value @ Z.numpy(), atol=1e-4)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(22, 8), (9, 14)])
def test_outlier_program_reaches_the_convex_optimum(shape: tuple[int, int], affine: bool) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    n, d = shape
    Z = gaussian(n, d, seed=4)
    found = sparse_self_expression(Z, 20.0, affine=affine, tol=1e-6, max_iter=20000)
    _, gamma = weights(Z, 20.0, outliers=True)
    C = cvxpy.Variable((n, n))
    constraints = [cvxpy.diag(C) == 0] + ([cvxpy.sum(C, axis=1) == 1] if affine else [])
    outliers = cvxpy.sum(cvxpy.abs(Z.numpy() - C @ Z.numpy()))
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.abs(C)) + gamma * outliers), constraints)
    problem.solve(solver=cvxpy.CLARABEL)
    assert found.converged
    assert found.objective == pytest.approx(problem.value, rel=1e-5)
    assert found.error is not None
    torch.testing.assert_close(found.coefficients @ Z + found.error, Z, atol=1e-5, rtol=0)


# The iteration is the authors', step by step


def literal_admm(
    Z: Tensor, alpha: float, affine: bool, outliers: bool, steps: int, clear: bool
) -> tuple[Tensor, float]:
    """ADMM with every variable and multiplier explicit and a dense inverse: C and the residual."""
    n, d = Z.shape
    weight, gamma = weights(Z, alpha, outliers)
    zero = Z.new_zeros(n, n + d if outliers else n)
    Q = torch.cat([Z, torch.eye(d, dtype=Z.dtype) / gamma]) if outliers else Z
    ones = Z.new_zeros(len(Q), 1)
    ones[:n] = 1 if affine else 0
    system = weight * Q @ Q.T + alpha * torch.eye(len(Q), dtype=Z.dtype) + alpha * ones @ ones.T
    inverse = torch.linalg.inv(system)
    C, U, Y, y = zero, zero, torch.zeros_like(Z), Z.new_zeros(n, 1)
    diagonal = (torch.arange(n), torch.arange(n))
    residual = float("inf")
    for _ in range(steps):
        right = (weight * Z + Y) @ Q.T + alpha * C - U + (alpha - y) @ ones.T
        A = right @ inverse
        if clear:
            A[diagonal] = 0
        C = soft(A + U / alpha, 1 / alpha)
        C[diagonal] = 0
        U = U + alpha * (A - C)
        y = y + alpha * (A @ ones - 1)
        residual = float((A - C).abs().max())
        if outliers:
            Y = Y + weight * (Z - A @ Q)
            rest = Z - A[:, n:] / gamma
            residual = max(
                residual, float(((rest - A[:, :n] @ Z).norm(dim=1) / rest.norm(dim=1)).max())
            )
        if affine:
            residual = max(residual, float((A @ ones - 1).abs().max()))
    return C[:, :n], residual


@pytest.mark.parametrize("steps", [1, 2, 3, 40])
@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(("outliers", "clear"), [(True, True), (False, False)])
def test_iterates_are_those_of_the_literal_algorithm(
    steps: int, shape: tuple[int, int], affine: bool, outliers: bool, clear: bool
) -> None:
    Z = gaussian(*shape, seed=6)
    C, residual = literal_admm(Z, 20.0, affine, outliers, steps, clear)
    found = sparse_self_expression(
        Z,
        20.0,
        affine=affine,
        outliers=outliers,
        tol=1e-30,
        max_iter=steps,
    )
    torch.testing.assert_close(found.coefficients, C, atol=1e-10, rtol=0)
    assert found.residual == pytest.approx(residual, rel=1e-6, abs=1e-12)
    assert found.n_iter == steps
    assert not found.converged


def test_clearing_the_auxiliary_diagonal_leaves_the_outlier_iterates_alone() -> None:
    Z = gaussian(25, 10, seed=7)
    cleared, _ = literal_admm(Z, 20.0, False, True, 30, True)
    kept, _ = literal_admm(Z, 20.0, False, True, 30, False)
    torch.testing.assert_close(cleared, kept, atol=1e-11, rtol=0)


# Optimality and recovery at a larger size


@pytest.mark.parametrize("d", [60, 250])
def test_lasso_meets_the_optimality_conditions(d: int) -> None:
    Z = gaussian(200, d, seed=18)
    found = sparse_self_expression(Z, 10.0, outliers=False, tol=1e-9, max_iter=5000)
    weight, _ = weights(Z, 10.0, outliers=False)
    C = found.coefficients
    gradient = weight * (Z - C @ Z) @ Z.T  # must lie in the subdifferential of |C|_1
    gradient.fill_diagonal_(0)
    assert found.converged
    assert torch.all(C.diagonal() == 0)
    assert gradient.abs().max() <= 1 + 1e-5
    support = C != 0
    torch.testing.assert_close(gradient[support], C[support].sign(), atol=1e-5, rtol=0)


def test_outlier_program_agrees_with_linear_programming() -> None:
    Z, _ = subspaces(15, 3, 16, 4)
    n, d = Z.shape
    found = sparse_self_expression(Z, 20.0, tol=1e-6, max_iter=8000)
    gamma = 20.0 / float(Z.abs().sum(1).max())
    assert found.converged
    for i in range(0, n, 12):
        atoms = torch.cat([Z, torch.eye(d, dtype=Z.dtype)])
        cost = np.concatenate([np.ones(n), np.full(d, gamma)])
        bounds = [(0, 0) if j == i else (0, None) for j in range(n + d)] * 2
        system = torch.cat([atoms, -atoms]).T.numpy()
        optimum = scipy.optimize.linprog(
            np.tile(cost, 2), A_eq=system, b_eq=Z[i].numpy(), bounds=bounds
        )
        c = found.coefficients[i]
        value = float(c.abs().sum() + gamma * (Z[i] - c @ Z).abs().sum())
        assert value == pytest.approx(optimum.fun, rel=1e-3)


@pytest.mark.parametrize("outliers", [False, True])
def test_independent_subspaces_are_told_apart(outliers: bool) -> None:
    Z, labels = subspaces(30, 3, 20, 4, seed=1)
    found = sparse_self_expression(Z, 50.0, outliers=outliers, tol=1e-4, max_iter=5000)
    C = found.coefficients.abs()
    other = labels[:, None] != labels[None]
    assert found.converged
    assert float(C[other].sum() / C.sum()) < 1e-8
    assert torch.all(C.sum(1) > 0)


def test_gross_errors_end_in_the_outlier_term() -> None:
    Z, _ = subspaces(40, 3, 40, 2, seed=2)
    spoiled = Z.clone()
    spoiled[7, 11] += 1.0
    found = sparse_self_expression(spoiled, 20.0, tol=1e-4, max_iter=5000)
    assert found.error is not None
    assert int(found.error[7].abs().argmax()) == 11
    assert float(found.error[7, 11]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("outliers", [False, True])
def test_affine_rows_sum_to_one(outliers: bool) -> None:
    Z, tol = gaussian(40, 10, seed=8) + 2.0, 1e-5
    found = sparse_self_expression(Z, 20.0, affine=True, outliers=outliers, tol=tol, max_iter=8000)
    assert found.converged
    # A 1 = 1 to within tol, and C differs from A by at most tol in each of 39 entries.
    assert float((found.coefficients.sum(1) - 1).abs().max()) <= 40 * tol


# Corner cases


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("d", [6, 40])
def test_zero_rows_are_neither_coded_nor_used(outliers: bool, d: int) -> None:
    Z = gaussian(20, d, seed=9)
    Z[[3, 11]] = 0
    found = sparse_self_expression(Z, 20.0, outliers=outliers)
    C = found.coefficients
    assert torch.isfinite(C).all()
    assert torch.all(C[[3, 11]] == 0)
    assert torch.all(C[:, [3, 11]] == 0)
    rest = torch.tensor([i for i in range(20) if i not in (3, 11)])
    alone = sparse_self_expression(Z[rest], 20.0, outliers=outliers)
    torch.testing.assert_close(C[rest][:, rest], alone.coefficients, atol=1e-9, rtol=0)


@pytest.mark.parametrize("outliers", [False, True])
def test_a_duplicate_is_its_twins_code(outliers: bool) -> None:
    Z = torch.nn.functional.normalize(gaussian(20, 12, seed=10), dim=1)
    Z = torch.cat([Z, Z[:1]])
    found = sparse_self_expression(
        Z, 200.0, outliers=outliers, tol=1e-6, max_iter=20000, penalty=2.0
    )
    assert found.converged
    assert int(found.coefficients[0].abs().argmax()) == 20
    assert float(found.coefficients[0, 20]) == pytest.approx(1.0, abs=0.02)
    assert float(found.coefficients[0, :20].abs().max()) < 1e-6


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("Z", [torch.ones(1, 4), torch.zeros(3, 4), torch.eye(4)[:3]])
def test_nothing_to_code_with_gives_zero(Z: Tensor, outliers: bool) -> None:
    found = sparse_self_expression(Z, outliers=outliers)
    assert torch.equal(found.coefficients, torch.zeros(len(Z), len(Z)))
    assert found.converged


def test_weight_ignores_samples_orthogonal_to_all_others() -> None:
    Z = torch.block_diag(gaussian(10, 4, seed=11), torch.ones(1, 1, dtype=torch.float64))
    assert torch.equal(peak_correlations(Z)[:10], peak_correlations(Z[:10]))
    assert peak_correlations(Z)[10] == 0
    assert least_positive(peak_correlations(Z)) == float(peak_correlations(Z)[:10].min())
    assert least_positive(peak_correlations(torch.zeros(3, 2))) == 1.0


@pytest.mark.parametrize("outliers", [False, True])
def test_single_precision_agrees_with_double(outliers: bool) -> None:
    Z = gaussian(120, 40, seed=12) + 1.0
    single = sparse_self_expression(Z.float(), outliers=outliers)
    double = sparse_self_expression(Z, outliers=outliers)
    assert single.coefficients.dtype == torch.float32
    torch.testing.assert_close(single.coefficients.double(), double.coefficients, atol=2e-4, rtol=0)
    assert single.objective == pytest.approx(double.objective, rel=1e-3)


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_solution_scales_with_the_data_not_at_all(outliers: bool, affine: bool) -> None:
    Z = gaussian(30, 10, seed=13)
    one = sparse_self_expression(Z, outliers=outliers, affine=affine)
    thousand = sparse_self_expression(1000 * Z, outliers=outliers, affine=affine)
    torch.testing.assert_close(one.coefficients, thousand.coefficients, atol=1e-9, rtol=0)


@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
def test_sparse_product_is_the_product(density: float) -> None:
    rng = np.random.default_rng(15)
    C = torch.from_numpy(rng.standard_normal((17, 40)) * (rng.random((17, 40)) < density))
    C[4] = 0
    F = gaussian(40, 5, seed=16)
    torch.testing.assert_close(sparse_product(C, F), C @ F)
    assert sparse_product(C, F[:, :0]).shape == (17, 0)


def test_a_defect_is_relative_to_the_rest_of_a_sample_but_no_less_than_a_hundredth_of_it() -> None:
    rows = torch.tensor([[30.0, 40.0], [3.0, 4.0]], dtype=torch.float64)
    defect = torch.tensor([[0.6, 0.8], [0.0, 0.0]], dtype=torch.float64)
    for rest, expected in ((rows, 1 / 50), (0.02 * rows, 1.0), (0.0 * rows, 2.0)):
        assert _relative(defect, rest, rows) == pytest.approx(expected)
    assert _relative(0 * defect, 0 * rows, 0 * rows) == 0.0


@pytest.mark.parametrize(("outliers", "most"), [(True, 150), (False, 200)])
def test_there_are_as_many_steps_as_documented(outliers: bool, most: int) -> None:
    found = sparse_self_expression(gaussian(12, 4, seed=31), outliers=outliers, tol=1e-300)
    assert (found.n_iter, found.converged) == (most, False)


def test_a_kernel_may_be_indefinite_by_round_off_of_its_largest_eigenvalue() -> None:
    for least, accepted in ((-5e-16, True), (-1e-15, False)):  # three times the unit is 6.7e-16
        K = torch.diag(torch.tensor([1.0, 1e-12, least], dtype=torch.float64))
        if accepted:
            factor = HatFactor.from_kernel(K, 1e-3, False, torch.float64)
            torch.testing.assert_close(factor.F @ factor.F.T, K / (K + 1e-3), atol=1e-12, rtol=0)
        else:
            with pytest.raises(InputError, match="positive semi-definite"):
                HatFactor.from_kernel(K, 1e-3, False, torch.float64)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(30, 8), (12, 20)])
def test_the_objective_is_that_of_the_coefficients(shape: tuple[int, int], affine: bool) -> None:
    """Of an iteration that was stopped early too, where Z = C Z + E does not hold yet."""
    Z = gaussian(*shape, seed=30)
    for max_iter in (3, 400):
        found = sparse_self_expression(Z, affine=affine, gamma=0.7, max_iter=max_iter)
        C = found.coefficients
        value = C.abs().sum() + 0.7 * (Z - C @ Z).abs().sum()
        assert found.objective == pytest.approx(float(value))
        found = sparse_self_expression(
            Z, 5.0, affine=affine, outliers=False, weight=2.5, max_iter=max_iter
        )
        C = found.coefficients
        value = C.abs().sum() + 2.5 / 2 * (Z - C @ Z).square().sum()
        assert found.objective == pytest.approx(float(value))


def test_input_is_left_alone() -> None:
    Z = gaussian(15, 5, seed=17)
    before = Z.clone()
    sparse_self_expression(Z)
    sparse_self_expression(Z, outliers=False, affine=True)
    assert torch.equal(Z, before)
    assert not sparse_self_expression(Z.requires_grad_()).coefficients.requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_gpu_agrees_with_cpu(shape: tuple[int, int], affine: bool, outliers: bool) -> None:
    Z = gaussian(*shape, seed=19)
    cpu = sparse_self_expression(Z, affine=affine, outliers=outliers)
    gpu = sparse_self_expression(Z.cuda(), affine=affine, outliers=outliers)
    assert gpu.coefficients.is_cuda
    assert gpu.n_iter == cpu.n_iter
    torch.testing.assert_close(gpu.coefficients.cpu(), cpu.coefficients, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"Z": torch.zeros(3)}, "non-empty matrix"),
        ({"Z": torch.zeros(3, 2, dtype=torch.float16)}, "float32 or float64"),
        ({"Z": torch.full((3, 2), float("nan"))}, "NaN"),
        ({"Z": torch.ones(1, 2), "affine": True}, "two samples"),
    ],
)
def test_bad_input_is_one_clear_line(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        sparse_self_expression(**{"Z": gaussian(5, 3)} | change)
    assert "\n" not in str(caught.value)


def test_correlations_of_round_off_are_none_even_beside_a_zero_row() -> None:
    Q = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(3)))[0]
    Z = torch.cat([1e3 * Q, torch.zeros(1, 12)])
    assert float((Z @ Z.T).fill_diagonal_(0.0).abs().max()) > 0  # round-off
    assert not peak_correlations(Z).any()
    Z[1] += 0.1 * Z[0]
    peaks = peak_correlations(Z)
    assert peaks.nonzero()[:, 0].tolist() == [0, 1]
    torch.testing.assert_close(peaks[:2], torch.tensor([1e5, 1e5]), rtol=1e-4, atol=0)


@pytest.mark.parametrize("outliers", [True, False])
def test_two_samples_code_each_other_under_the_affine_constraint(outliers: bool) -> None:
    Z = torch.tensor([[1.0, 2.0, 0.5], [1.1, 1.9, 0.4]], dtype=torch.float64)
    found = sparse_self_expression(Z, affine=True, outliers=outliers, tol=1e-8, max_iter=5000)
    expected = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(found.coefficients, expected, rtol=0, atol=1e-5)
