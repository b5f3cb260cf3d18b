"""LRR and LRSC against a general convex solver, their optimality conditions and invariances."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.self_expression.low_rank import (
    _code_price,
    _polynomial_shrinkage,
    low_rank_representation,
    low_rank_subspace,
    shrink_singular_values,
)


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def union_of_subspaces(n, d, dims, noise=0.0, seed=0):
    """n unit samples from each of independent random subspaces of R^d, and their labels."""
    parts = [
        normal(n, m, seed=seed + 2 * k) @ normal(m, d, seed=seed + 2 * k + 1)
        for k, m in enumerate(dims)
    ]
    Z = torch.nn.functional.normalize(torch.cat(parts))
    labels = torch.arange(len(dims)).repeat_interleave(n)
    return Z + noise * normal(*Z.shape, seed=seed + 99), labels


def lrr_value(C, Z, lam, norm):
    E = Z - C @ Z
    size = E.norm(dim=1).sum() if norm == "l21" else E.abs().sum()
    return float(torch.linalg.svdvals(C).sum() + lam * size)


def lrsc_value(C, A, Z, tau, alpha):
    fit = tau / 2 * (A - C @ A).square().sum()
    return float(torch.linalg.svdvals(C).sum() + fit + alpha / 2 * (Z - A).square().sum())


def rank(solution):
    return int(torch.linalg.matrix_rank(solution.coefficients))


def wrong_edges(C, labels):
    return float(C[labels[:, None] != labels].abs().max())


# ---- LRR -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l21", "l1"])
@pytest.mark.parametrize(("n", "d", "lam"), [(6, 8, 0.1), (6, 8, 0.6), (4, 20, 0.3)])
def test_lrr_attains_the_optimum_of_a_general_convex_solver(norm, n, d, lam):
    cp = pytest.importorskip("cvxpy")
    Z, _ = union_of_subspaces(n, d, [2, 2, 2], noise=0.1)
    result = low_rank_representation(Z, lam, norm=norm)
    C = cp.Variable((3 * n, 3 * n))
    E = Z.numpy() - C @ Z.numpy()
    errors = cp.sum(cp.norm(E, 2, axis=1)) if norm == "l21" else cp.sum(cp.abs(E))
    optimum = cp.Problem(cp.Minimize(cp.normNuc(C) + lam * errors)).solve()
    assert result.converged
    assert result.objective == pytest.approx(optimum, rel=3e-4)
    assert lrr_value(result.coefficients, Z, lam, norm) == pytest.approx(result.objective)
    torch.testing.assert_close(result.coefficients @ Z + result.error, Z)


@pytest.mark.parametrize(("n", "d"), [(50, 30), (20, 90)])
def test_lrr_satisfies_the_optimality_conditions(n, d):
    """All e_i differ from zero, so Y_i = lam e_i / |e_i| is the only dual point; Y Z' must be a
    subgradient of the nuclear norm: of spectral norm one at most, with <Y Z', C> = |C|_*."""
    Z, _ = union_of_subspaces(n, d, [3, 3, 3], noise=0.1)
    result = low_rank_representation(Z, 0.15, gap=1e-10, max_iter=20_000)
    assert result.converged
    assert rank(result) > 0
    assert float(result.error.norm(dim=1).min()) > 1e-2
    dual = 0.15 * torch.nn.functional.normalize(result.error) @ Z.T
    nuclear = float(torch.linalg.svdvals(result.coefficients).sum())
    assert float(torch.linalg.matrix_norm(dual, 2)) < 1 + 1e-4
    assert float((dual * result.coefficients).sum()) == pytest.approx(nuclear, rel=1e-4)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    lam=st.floats(0.02, 5.0),
    norm=st.sampled_from(["l21", "l1"]),
    scale=st.sampled_from([0.01, 1.0, 255.0]),
)
def test_the_gap_of_lrr_bounds_its_distance_from_the_optimum(seed, lam, norm, scale):
    Z, _ = union_of_subspaces(8, 10, [2, 3], noise=0.1, seed=seed)
    Z, lam = Z * scale, lam / scale
    loose = low_rank_representation(Z, lam, norm=norm, gap=0.2)
    tight = low_rank_representation(Z, lam, norm=norm, gap=1e-6, max_iter=20_000)
    assert tight.converged
    assert (loose.objective - tight.objective) / loose.objective <= loose.residual + 1e-6
    # ... and no other point does better than the bound says: zero, the identity, the projector
    for other in (torch.zeros(16, 16), torch.eye(16), low_rank_representation(Z, math.inf)):
        C = getattr(other, "coefficients", other).double()
        assert lrr_value(C, Z, lam, norm) >= tight.objective * (1 - 1e-6)


def test_lrr_without_errors_is_the_projector_and_has_no_wrong_edge():
    Z, labels = union_of_subspaces(15, 20, [2, 3, 4])
    V = torch.linalg.svd(Z)[0][:, :9]
    exact = low_rank_representation(Z, math.inf)
    assert rank(exact) == 9
    assert exact.objective == pytest.approx(9)
    assert (exact.n_iter, exact.residual, exact.converged) == (0, 0.0, True)
    torch.testing.assert_close(exact.coefficients, V @ V.T)
    assert wrong_edges(exact.coefficients, labels) < 1e-10
    priced = low_rank_representation(Z, 20.0, gap=1e-8, max_iter=20_000)
    assert rank(priced) == 9
    torch.testing.assert_close(priced.coefficients, V @ V.T, atol=1e-5, rtol=0)
    assert wrong_edges(priced.coefficients, labels) < 1e-5


def test_lrr_charges_corrupted_samples_and_leaves_the_others():
    Z, labels = union_of_subspaces(20, 30, [2, 2, 2])
    basis = torch.linalg.svd(Z)[2][:6]
    bad = torch.tensor([3, 25, 44])
    Z[bad] = 2 * torch.nn.functional.normalize(normal(3, 30, seed=7))
    outside = (Z - Z @ basis.T @ basis)[bad].norm(dim=1)  # no error can be blamed on the inside
    result = low_rank_representation(Z, 0.35, gap=1e-7, max_iter=20_000)
    size = result.error.norm(dim=1)
    good = torch.ones(60, dtype=torch.bool).index_fill(0, bad, False)
    assert bool((size[bad] > 0.9 * outside).all())
    assert float(size[good].max()) < 1e-3
    assert wrong_edges(result.coefficients[good][:, good], labels[good]) < 1e-3


def test_lrr_is_invariant_to_rotation_scale_and_order():
    Z, _ = union_of_subspaces(10, 12, [2, 2, 2], noise=0.1)
    base = low_rank_representation(Z, 0.2).coefficients
    rotation = torch.linalg.qr(normal(12, 12, seed=5)).Q
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    rotated = low_rank_representation(Z @ rotation, 0.2).coefficients
    torch.testing.assert_close(rotated, base, atol=1e-10, rtol=0)
    permuted = low_rank_representation(Z[order], 0.2).coefficients
    torch.testing.assert_close(permuted, base[order][:, order], atol=1e-10, rtol=0)
    for norm in ("l21", "l1"):
        plain = low_rank_representation(Z, 0.2, norm=norm)
        scaled = low_rank_representation(1e4 * Z, 0.2e-4, norm=norm)
        assert scaled.n_iter == plain.n_iter
        torch.testing.assert_close(scaled.coefficients, plain.coefficients, atol=1e-10, rtol=0)


@pytest.mark.parametrize("norm", ["l21", "l1"])
def test_lrr_with_zero_rows_and_duplicates(norm):
    Z, _ = union_of_subspaces(8, 10, [2, 2], noise=0.1)
    Z = torch.cat([Z, Z[:1], torch.zeros(1, 10)])
    result = low_rank_representation(Z, 0.4, norm=norm)
    C = result.coefficients
    assert result.converged
    assert float(C[17].abs().max()) < 1e-6
    assert float(C[:, 17].abs().max()) < 1e-12
    torch.testing.assert_close(C[16], C[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(C[:, 16], C[:, 0], atol=1e-10, rtol=0)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (7, 3)])
def test_lrr_of_very_small_and_of_zero_data(shape):
    result = low_rank_representation(normal(*shape), 1.0)
    assert result.converged
    assert result.coefficients.shape == (shape[0], shape[0])
    assert bool(torch.isfinite(result.coefficients).all())
    nothing = low_rank_representation(torch.zeros(shape), 1.0)
    assert nothing.objective == 0
    assert not nothing.coefficients.any()


@pytest.mark.parametrize("norm", ["l21", "l1"])
def test_lrr_in_single_precision_agrees_with_double(norm):
    Z, _ = union_of_subspaces(20, 40, [3, 3], noise=0.05)
    kept = Z.clone()
    single, double = (low_rank_representation(X, 0.2, norm=norm) for X in (Z.float(), Z))
    assert single.coefficients.dtype == single.error.dtype == torch.float32
    torch.testing.assert_close(single.coefficients.double(), double.coefficients, atol=1e-5, rtol=0)
    assert single.objective == pytest.approx(double.objective, rel=1e-5)
    assert torch.equal(Z, kept)


def test_lrr_that_runs_out_of_iterations_has_not_converged():
    Z, _ = union_of_subspaces(10, 12, [2, 2], noise=0.1)
    result = low_rank_representation(Z, 0.2, max_iter=3)
    assert not result.converged
    assert result.n_iter == 3


@pytest.mark.parametrize(
    ("Z", "options", "word"),
    [
        (torch.zeros(3), {}, "matrix"),
        (torch.zeros(3, 2, dtype=torch.int64), {}, "float"),
        (torch.full((3, 2), math.nan), {}, "NaN"),
        (torch.ones(3, 2), {"lam": 0.0}, "lam"),
        (torch.ones(3, 2), {"norm": "l2"}, "l21"),
    ],
)
def test_lrr_refuses_bad_input_in_one_line(Z, options, word):
    with pytest.raises(InputError, match=word) as caught:
        low_rank_representation(Z, **options)
    assert "\n" not in str(caught.value)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), log_threshold=st.floats(-9, 1))
def test_shrinking_singular_values_by_squares_or_directly_is_the_proximal_map(seed, log_threshold):
    M, threshold = normal(12, 5, seed=seed), 10**log_threshold
    U, s, Wt = torch.linalg.svd(M, full_matrices=False)
    kept = (s - threshold).clamp_min(0)
    J, singular = shrink_singular_values(M, threshold)
    torch.testing.assert_close(J, (U * kept) @ Wt, atol=1e-9, rtol=0)
    assert float(singular.sum()) == pytest.approx(float(kept.sum()), abs=1e-9)


# ---- LRSC ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d", "tau"), [(6, 8, 3.0), (4, 20, 8.0)])
def test_lrsc_with_fixed_data_attains_the_optimum_of_a_general_convex_solver(n, d, tau):
    cp = pytest.importorskip("cvxpy")
    Z, _ = union_of_subspaces(n, d, [2, 2, 2], noise=0.1)
    result = low_rank_subspace(Z, tau, math.inf)
    C = cp.Variable((3 * n, 3 * n))
    fit = cp.sum_squares(Z.numpy() - C @ Z.numpy())
    optimum = cp.Problem(cp.Minimize(cp.normNuc(C) + tau / 2 * fit)).solve()
    assert 0 < rank(result) < min(3 * n, d)
    assert result.objective == pytest.approx(optimum, rel=1e-4)
    assert lrsc_value(result.coefficients, Z, Z, tau, 0) == pytest.approx(result.objective)
    torch.testing.assert_close(result.coefficients, torch.tensor(C.value), atol=5e-3, rtol=0)


def test_lrsc_with_fixed_data_is_the_shrunk_projector():
    Z = normal(40, 15)
    V, sigma, _ = torch.linalg.svd(Z, full_matrices=False)
    tau = float(sigma[6]) ** -2 * 1.0001  # seven values pass 1 / sqrt(tau)
    result = low_rank_subspace(Z, tau, math.inf)
    assert rank(result) == 7
    expected = V[:, :7] @ torch.diag(1 - 1 / (tau * sigma[:7] ** 2)) @ V[:, :7].T
    torch.testing.assert_close(result.coefficients, expected)
    assert torch.equal(result.clean, Z)
    assert not result.error.any()


@settings(max_examples=100, deadline=None)
@given(x=st.floats(0, 60), log_a=st.floats(-4, 4))
def test_polynomial_shrinkage_is_the_global_minimum_over_a_fine_grid(x, log_a):
    a = 10**log_a
    u, _, defect = _polynomial_shrinkage(torch.tensor([x], dtype=torch.float64), a)
    grid = x * torch.linspace(0, 1, 20_001, dtype=torch.float64)
    values = a / 2 * (x - grid).square() + _code_price(grid)
    value = a / 2 * (x - u).square() + _code_price(u)
    assert defect < 1e-12
    assert float(value) <= float(values.min()) * (1 + 1e-12) + 1e-300
    assert 0 <= float(u) <= x


@pytest.mark.parametrize("a", [0.05, 0.5, 1.5, 2.9])
def test_polynomial_shrinkage_jumps_where_both_cost_the_same(a):
    """The better of the two stationary points, at every x around the jump."""
    x = torch.linspace(0.5, 6.0 / a**0.5, 500, dtype=torch.float64)
    u, _, _ = _polynomial_shrinkage(x, a)
    grid = x[:, None] * torch.linspace(0, 1, 4001, dtype=torch.float64)
    values = a / 2 * (x[:, None] - grid).square() + _code_price(grid)
    value = a / 2 * (x - u).square() + _code_price(u)
    assert (value <= values.amin(dim=1) * (1 + 1e-12)).all()
    assert (u > 1).any()
    assert (u < 1).any()


@settings(max_examples=30, deadline=None)
@given(log_a=st.floats(-3, 3))
def test_polynomial_shrinkage_keeps_the_order_of_singular_values(log_a):
    x = torch.linspace(0, 40, 2001, dtype=torch.float64)
    u, _, _ = _polynomial_shrinkage(x, 10**log_a)
    assert bool((u.diff() >= 0).all())


@pytest.mark.parametrize(("n", "d"), [(20, 12), (8, 40)])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 5.0])
def test_lrsc_is_not_improved_by_any_perturbation_nor_other_start(n, d, ratio):
    """Alternating exact minimization over C and over A, from random starts, ends no lower."""
    Z, _ = union_of_subspaces(n, d, [2, 2], noise=0.15)
    tau = 100 / float(torch.linalg.matrix_norm(Z, 2)) ** 2
    result = low_rank_subspace(Z, tau, ratio * tau)
    C, A, alpha = result.coefficients, result.clean, ratio * tau
    assert result.converged
    assert rank(result) > 0
    assert lrsc_value(C, A, Z, tau, alpha) == pytest.approx(result.objective)
    floor = result.objective * (1 - 1e-10)
    for seed in range(40):
        step = 10.0 ** -(seed % 5)
        dC = normal(2 * n, 2 * n, seed=seed)
        dA = normal(2 * n, d, seed=seed + 500)
        assert lrsc_value(C + step * (dC + dC.T), A + step * dA, Z, tau, alpha) >= floor
        assert lrsc_value(C, A + step * dA, Z, tau, alpha) >= floor
    for seed in range(5):
        A = 2 * normal(2 * n, d, seed=seed)
        for _ in range(100):
            C = low_rank_subspace(A, tau, math.inf).coefficients
            M = torch.eye(2 * n) - C
            A = torch.linalg.solve(tau * M.T @ M + alpha * torch.eye(2 * n), alpha * Z)
        assert lrsc_value(C, A, Z, tau, alpha) >= floor


def test_lrsc_tends_to_the_fixed_data_problem_as_alpha_grows():
    Z = normal(30, 10)
    fixed = low_rank_subspace(Z, 0.1, math.inf)
    near = low_rank_subspace(Z, 0.1, 1e9)
    torch.testing.assert_close(near.coefficients, fixed.coefficients, atol=1e-6, rtol=0)
    torch.testing.assert_close(near.clean, Z, atol=1e-6, rtol=0)
    assert near.objective == pytest.approx(fixed.objective, rel=1e-6)


@pytest.mark.parametrize("alpha", [None, math.inf])
def test_lrsc_has_no_wrong_edge_without_noise(alpha):
    orthogonal = torch.block_diag(normal(12, 3), normal(15, 4, seed=1), normal(9, 2, seed=2))
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([12, 15, 9]))
    assert wrong_edges(low_rank_subspace(orthogonal, alpha=alpha).coefficients, labels) < 1e-12
    Z, labels = union_of_subspaces(15, 20, [2, 3, 4])  # independent: the projector, as tau grows
    strict = low_rank_subspace(Z, 1e8, alpha if alpha is None else math.inf)
    assert rank(strict) == 9
    assert wrong_edges(strict.coefficients, labels) < 1e-5


def test_lrsc_is_invariant_to_rotation_scale_and_order():
    Z, _ = union_of_subspaces(12, 10, [2, 2], noise=0.1)
    base = low_rank_subspace(Z).coefficients
    rotation = torch.linalg.qr(normal(10, 10, seed=5)).Q
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(low_rank_subspace(Z @ rotation).coefficients, base)
    torch.testing.assert_close(low_rank_subspace(1e5 * Z).coefficients, base)
    torch.testing.assert_close(low_rank_subspace(Z[order]).coefficients, base[order][:, order])


def test_lrsc_with_zero_rows_duplicates_and_little_data():
    Z, _ = union_of_subspaces(8, 10, [2, 2], noise=0.1)
    C = low_rank_subspace(torch.cat([Z, Z[:1], torch.zeros(1, 10)])).coefficients
    assert float(C[17].abs().max()) < 1e-12
    torch.testing.assert_close(C[16], C[0])
    assert low_rank_subspace(normal(1, 4)).coefficients.shape == (1, 1)
    nothing = low_rank_subspace(torch.zeros(4, 3))
    assert not nothing.coefficients.any()
    assert nothing.objective == 0


def test_lrsc_of_a_small_tau_keeps_nothing():
    result = low_rank_subspace(normal(10, 4), tau=1e-4)
    assert rank(result) == 0
    assert not result.coefficients.any()
    with pytest.raises(InputError, match="tau"):
        low_rank_subspace(normal(10, 4), tau=-1.0)


@pytest.mark.parametrize("alpha", [None, math.inf])
def test_lrsc_in_single_precision_agrees_with_double(alpha):
    Z, _ = union_of_subspaces(20, 40, [3, 3], noise=0.05)
    single, double = (low_rank_subspace(X, alpha=alpha) for X in (Z.float(), Z))
    assert single.coefficients.dtype == single.clean.dtype == torch.float32
    torch.testing.assert_close(single.coefficients.double(), double.coefficients, atol=1e-5, rtol=0)


# ---- both ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gpu_gives_the_same_coefficients(dtype):
    Z = union_of_subspaces(30, 50, [3, 3], noise=0.05)[0].to(dtype)
    for call in (
        low_rank_subspace,
        lambda X: low_rank_representation(X, 0.2),
        lambda X: low_rank_representation(X, 0.2, norm="l1"),
    ):
        there, here = call(Z.cuda()).coefficients, call(Z).coefficients
        assert there.is_cuda
        assert there.dtype == dtype
        torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=0)


def test_a_subspace_code_is_of_a_matrix():
    with pytest.raises(InputError, match="Z"):
        low_rank_subspace(torch.zeros(4))
