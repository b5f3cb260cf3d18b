"""EDSC against the normal equations, a general convex solver and the published iteration."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize, softshrink

from dcfsc.errors import InputError
from dcfsc.self_expression.dense import (
    _clean_step,
    _multiplier_step,
    _solve_positive,
    dense_self_expression,
)


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def union_of_subspaces(n, d, dims, noise=0.0, seed=0):
    """n unit samples from each of independent random subspaces of R^d, and their labels."""
    parts = [
        normal(n, m, seed=seed + 2 * k) @ normal(m, d, seed=seed + 2 * k + 1)
        for k, m in enumerate(dims)
    ]
    Z = normalize(torch.cat(parts))
    labels = torch.arange(len(dims)).repeat_interleave(n)
    return Z + noise * normal(*Z.shape, seed=seed + 99), labels


def with_gross_errors(Z, share=0.05, seed=0):
    generator = torch.Generator().manual_seed(seed)
    hit = torch.rand(Z.shape, generator=generator) < share
    return Z + hit * normal(*Z.shape, seed=seed + 1), hit


def ridge_value(C, Z, l1):
    return float(C.square().sum() / 2 + l1 / 2 * (Z - C @ Z).square().sum())


def robust_value(C, D, E, Z, l1, l2):
    fit = l1 / 2 * (Z - D - E).square().sum()
    return float(C.square().sum() / 2 + fit + l2 * E.abs().sum())


def wrong_edges(C, labels):
    return float(C[labels[:, None] != labels].abs().max())


# ---- without outliers ----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(18, 8), (12, 20)])
@pytest.mark.parametrize("l1", [0.5, 20.0])
def test_ridge_attains_the_optimum_of_a_general_convex_solver(n, d, l1):
    cp = pytest.importorskip("cvxpy")
    Z = normal(n, d) / 3
    result = dense_self_expression(Z, l1, outliers=False)
    C = cp.Variable((n, n))
    fit = cp.sum_squares(Z.numpy() - C @ Z.numpy())
    optimum = cp.Problem(cp.Minimize(cp.sum_squares(C) / 2 + l1 / 2 * fit)).solve()
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    assert ridge_value(result.coefficients, Z, l1) == pytest.approx(result.objective)
    torch.testing.assert_close(result.coefficients, torch.tensor(C.value), atol=1e-5, rtol=0)
    assert result.clean is None
    assert result.error is None


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(1, 30), d=st.integers(1, 30), e=st.floats(-6, 6))
def test_ridge_equals_the_spectral_formula_over_twelve_orders_of_l1(seed, n, d, e):
    Z = normal(n, d, seed=seed)
    l1 = 10**e / float(Z.square().sum(1).mean())
    V, s, _ = torch.linalg.svd(Z, full_matrices=False)
    expected = (V * (s**2 / (s**2 + 1 / l1))) @ V.T
    C = dense_self_expression(Z, l1, outliers=False).coefficients
    torch.testing.assert_close(C, expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize(("n", "d"), [(150, 30), (150, 400)])
def test_ridge_has_a_zero_gradient(n, d):
    Z = normal(n, d)
    C = dense_self_expression(Z, 0.3, outliers=False).coefficients
    gradient = C - 0.3 * (Z - C @ Z) @ Z.T
    assert float(gradient.abs().max()) < 1e-10


@pytest.mark.parametrize("d", [6, 60])
def test_ridge_without_noise_tends_to_the_block_diagonal_projector(d):
    Z, labels = union_of_subspaces(12, d, [2, 3])
    Z = torch.cat([Z, Z[:1], torch.zeros(1, d)])  # a duplicate and a zero sample
    V = torch.linalg.svd(Z)[0][:, :5]
    for l1 in (1e9, 1e30):
        C = dense_self_expression(Z, l1, outliers=False).coefficients
        torch.testing.assert_close(C, V @ V.T, atol=1e-7, rtol=0)
        assert wrong_edges(C[:24, :24], labels) < 1e-7
        assert not C[25].any()
        torch.testing.assert_close(C[24], C[0], atol=1e-7, rtol=0)


# ---- with outliers -------------------------------------------------------------------------------


def published_iteration(X, l1, l2, steps):
    """The iteration as published: samples in columns, C explicit, systems of order N."""
    n, mu = X.shape[1], 1e-6
    identity = torch.eye(n, dtype=X.dtype)
    C, D, E, Y = X.new_zeros(n, n), torch.zeros_like(X), torch.zeros_like(X), torch.zeros_like(X)
    for _ in range(steps):
        M = identity - C
        system = l1 * identity + mu * M @ M.T
        D = torch.linalg.solve(system, (l1 * (X - E) - Y @ M.T).T).T
        C = torch.linalg.solve(identity + mu * D.T @ D, D.T @ Y + mu * D.T @ D)
        E = softshrink(X - D, l2 / l1)
        Y = Y + mu * (D - D @ C)
        mu = min(1e10, 3 * mu)
    return C.T, D.T, E.T


@pytest.mark.parametrize(("n", "d"), [(10, 60), (20, 25), (60, 12)])  # n < d, n <= 2d, n > 2d
@pytest.mark.parametrize(("l1", "l2"), [(0.3, 0.05), (100.0, 10.0)])
def test_outliers_follow_the_published_iteration(n, d, l1, l2):
    Z, _ = with_gross_errors(union_of_subspaces(n, d, [2, 3], noise=0.02)[0])
    Z = Z / Z.abs().max()
    result = dense_self_expression(Z, l1, l2)
    C, D, E = published_iteration(Z.T, l1, l2, result.n_iter)
    assert result.converged
    torch.testing.assert_close(result.coefficients, C, atol=1e-6, rtol=0)
    torch.testing.assert_close(result.clean, D, atol=1e-7, rtol=0)
    torch.testing.assert_close(result.error, E, atol=1e-7, rtol=0)
    value = robust_value(C, D, E, Z, l1, l2)
    assert result.objective == pytest.approx(value, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 20), d=st.integers(1, 20), seed=st.integers(0, 99), e=st.floats(-4, 4))
def test_each_step_minimizes_the_augmented_lagrangian(n, d, seed, e):
    """The D-step's normal equations, and C = Y D' with the multiplier's update as published."""
    mu, l1 = 10**e, 0.7
    Y, old, target = (
        normal(n, d, seed=seed),
        normal(n, d, seed=seed + 1),
        normal(n, d, seed=seed + 2),
    )
    Y = Y / 10
    M = torch.eye(n) - Y @ old.T
    D = _clean_step(target, Y, old, l1, mu)
    left = l1 * D + mu * M.T @ (M @ D)
    scale = float((mu * M.T @ M).abs().max()) * float(D.abs().max()) + 1
    torch.testing.assert_close(left, target - M.T @ Y, atol=1e-10 * scale, rtol=0)
    K = D @ D.T
    C = torch.linalg.solve(torch.eye(n) + mu * K, (Y @ D.T + mu * K).T).T
    new = _multiplier_step(Y, D, mu)
    size = 1 + mu * float(K.trace())
    torch.testing.assert_close(new, Y + mu * (D - C @ D), atol=1e-12 * size, rtol=1e-9)
    torch.testing.assert_close(new @ D.T, C, atol=1e-12 * size, rtol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(30, 100), (75, 20)])
def test_outliers_end_where_each_part_is_optimal_for_the_others(n, d):
    """C for D: the projector, which is the least-norm solution of D = C D. (D, E) for C: convex."""
    Z, _ = with_gross_errors(union_of_subspaces(n, d, [2, 3], noise=0.02)[0])
    l1, l2 = 50.0, 2.0
    result = dense_self_expression(Z, l1, l2)
    C, D, E = result.coefficients, result.clean, result.error
    torch.testing.assert_close(C @ D, D, atol=1e-7, rtol=0)
    torch.testing.assert_close(C, D @ torch.linalg.pinv(D, rtol=1e-6), atol=1e-6, rtol=0)
    assert float(C.trace()) == pytest.approx(round(float(C.trace())), abs=1e-6)  # the rank
    torch.testing.assert_close(E, softshrink(Z - D, l2 / l1))
    better = E
    for _ in range(3000):
        clean = C @ (Z - better)
        better = softshrink(Z - clean, l2 / l1)
    best = robust_value(C, clean, better, Z, l1, l2)
    assert robust_value(C, D, E, Z, l1, l2) == pytest.approx(best, rel=1e-4)


def test_a_slower_penalty_can_end_lower():
    Z, _ = with_gross_errors(union_of_subspaces(40, 30, [3, 3, 3], noise=0.05)[0])
    fast = dense_self_expression(Z, 0.3, 0.03)
    slow = dense_self_expression(Z, 0.3, 0.03, rho=1.1)
    assert fast.converged
    assert slow.converged
    assert slow.n_iter > 3 * fast.n_iter
    assert slow.objective < 0.95 * fast.objective


def test_outliers_are_found_and_the_clean_code_has_no_wrong_edge():
    clean, labels = union_of_subspaces(30, 60, [2, 2, 2])
    exact = dense_self_expression(clean, 1.0, 0.1)
    assert float(exact.coefficients.trace()) == pytest.approx(6)
    assert wrong_edges(exact.coefficients, labels) < 1e-8
    assert not exact.error.any()
    Z, hit = with_gross_errors(clean, share=0.02)
    result = dense_self_expression(Z, 0.2, 0.02)
    assert float(result.coefficients.trace()) == pytest.approx(6)
    assert bool((result.error[hit & ((Z - clean).abs() > 0.3)] != 0).all())
    assert float((result.error[~hit] != 0).double().mean()) < 0.05
    right = result.coefficients[labels[:, None] == labels].abs().mean()
    wrong = result.coefficients[labels[:, None] != labels].abs().mean()
    assert float(right) > 3 * float(wrong)


# ---- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outliers", [True, False])
def test_invariance_to_scale_and_order(outliers):
    Z, _ = with_gross_errors(union_of_subspaces(20, 15, [2, 3], noise=0.02)[0])
    base = dense_self_expression(Z, 20.0, 1.0, outliers=outliers)
    s = 255.0
    scaled = dense_self_expression(s * Z, 20.0 / s**2, 1.0 / s, outliers=outliers)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    permuted = dense_self_expression(Z[order], 20.0, 1.0, outliers=outliers).coefficients
    torch.testing.assert_close(scaled.coefficients, base.coefficients, atol=1e-8, rtol=0)
    torch.testing.assert_close(permuted, base.coefficients[order][:, order], atol=1e-8, rtol=0)
    assert scaled.objective == pytest.approx(base.objective)
    if outliers:
        torch.testing.assert_close(scaled.error, s * base.error, atol=1e-6, rtol=0)
    else:
        rotation = torch.linalg.qr(normal(15, 15, seed=5)).Q
        rotated = dense_self_expression(Z @ rotation, 20.0, outliers=False).coefficients
        torch.testing.assert_close(rotated, base.coefficients)


@pytest.mark.parametrize("outliers", [True, False])
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (9, 3), (3, 9)])
def test_little_data_zero_data_and_zero_rows(outliers, shape):
    result = dense_self_expression(normal(*shape), 10.0, outliers=outliers)
    assert result.converged
    assert result.coefficients.shape == (shape[0], shape[0])
    assert bool(torch.isfinite(result.coefficients).all())
    nothing = dense_self_expression(torch.zeros(shape), outliers=outliers)
    assert nothing.objective == 0
    assert not nothing.coefficients.any()
    Z = torch.cat([normal(*shape), torch.zeros(1, shape[1])])
    C = dense_self_expression(Z, 10.0, outliers=outliers).coefficients
    assert float(C[-1].abs().max()) < 1e-12


@pytest.mark.parametrize("outliers", [True, False])
@pytest.mark.parametrize(("n", "d"), [(20, 60), (60, 12)])
def test_single_precision_agrees_with_double(outliers, n, d):
    Z, _ = with_gross_errors(union_of_subspaces(n, d, [2, 2], noise=0.02)[0])
    Z = Z.float().double()
    single, double = (
        dense_self_expression(X, 50.0, 2.0, outliers=outliers) for X in (Z.float(), Z)
    )
    assert single.coefficients.dtype == torch.float32
    torch.testing.assert_close(single.coefficients.double(), double.coefficients, atol=1e-5, rtol=0)
    assert single.objective == pytest.approx(double.objective, rel=1e-6)


def test_running_out_of_iterations_has_not_converged():
    result = dense_self_expression(normal(10, 6), 10.0, 1.0, max_iter=3)
    assert not result.converged
    assert result.n_iter == 3


@pytest.mark.parametrize(
    ("Z", "options", "word"),
    [
        (torch.zeros(2, 3, 4), {}, "matrix"),
        (torch.full((3, 2), math.inf), {}, "infinite"),
        (torch.ones(3, 2), {"l1": -1.0}, "l1"),
        (torch.ones(3, 2), {"l2": 0.0}, "l2"),
    ],
)
def test_bad_input_is_refused_in_one_line(Z, options, word):
    with pytest.raises(InputError, match=word) as caught:
        dense_self_expression(Z, **options)
    assert "\n" not in str(caught.value)


def test_a_ridge_lost_in_rounding_is_solved_all_the_same():
    A = torch.tensor([[1.0, 1.0], [1.0, 1.0 - 1e-15]], dtype=torch.float64)
    x = _solve_positive(A.clone(), 1e-18, torch.ones(2, 1, dtype=torch.float64))
    assert bool(torch.isfinite(x).all())
    torch.testing.assert_close(A @ x, torch.ones(2, 1, dtype=torch.float64))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("outliers", [True, False])
@pytest.mark.parametrize(("n", "d"), [(20, 60), (60, 12)])
def test_a_gpu_gives_the_same_coefficients(outliers, n, d):
    Z, _ = with_gross_errors(union_of_subspaces(n, d, [2, 2], noise=0.02)[0])
    there, here = (dense_self_expression(X, 50.0, 2.0, outliers=outliers) for X in (Z.cuda(), Z))
    assert there.coefficients.is_cuda
    torch.testing.assert_close(there.coefficients.cpu(), here.coefficients, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_round_off_beside_the_longest_direction_is_no_direction(shape, scale):
    """Singular values of 1000 and 1: the squares carry round-off of a million."""
    left, right = (torch.linalg.qr(normal(k, 2, seed=k)).Q for k in shape)
    Z = scale * left @ torch.diag(torch.tensor([1e3, 1.0], dtype=torch.float64)) @ right.T
    found = dense_self_expression(Z, 1e30, outliers=False)
    torch.testing.assert_close(found.coefficients, left @ left.T, rtol=0, atol=1e-6)
    assert found.objective == pytest.approx(1.0)
