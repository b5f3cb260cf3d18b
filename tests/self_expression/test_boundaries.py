"""Defaults, bounds and refusals: what decides only at an edge, with numbers made for that edge."""

import inspect
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import distributed
from dcfsc.errors import InputError
from dcfsc.self_expression import (
    FeatureForm,
    dense_self_expression,
    elastic_net,
    elastic_net_self_expression,
    joint_affinity,
    kernel_matrix,
    kernel_sparse_self_expression,
    lam_for_dof,
    low_rank_representation,
    low_rank_subspace,
    matching_pursuit,
    orthogonal_matching_pursuit,
    solve,
    solve_for_dof,
    sparse,
    sparse_self_expression,
)
from dcfsc.self_expression.effective_dof import numerical_rank
from dcfsc.self_expression.gram import fewer_samples, row_chunks
from dcfsc.self_expression.low_rank import shrink_singular_values
from dcfsc.self_expression.matching_pursuit import use_gram
from dcfsc.self_expression.sparse import peak_correlations
from dcfsc.self_expression.sparse_admm import HatFactor, sparse_product

EPS = torch.finfo(torch.float64).eps
NO_NUMBERS = [0, -1.0, math.nan, math.inf]


def normal(n, d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def identity(operator, _):
    """In place of a projection: the affinity that joins nothing."""
    return sp.eye_array(operator.n, format="csr")


def joint(Z, eta1=1.0, eta2=0.3, eta3=0.1, **options):
    return joint_affinity(Z, eta1, eta2, eta3, identity, **options)


def kernel_code(Z, **options):
    return kernel_sparse_self_expression(kernel_matrix(Z, "linear"), **options)


# ---- parameters ----------------------------------------------------------------------------------

# What the documentation says of parameters that are not given, and options under which they count.
DEFAULTS = [
    (dense_self_expression, {}, {"l1": 100.0, "outliers": True, "rho": 3.0, "mu": 1e-6}),
    (dense_self_expression, {"tol": 1e-300, "max_iter": 60}, {"max_mu": 1e10}),
    (dense_self_expression, {"rho": 1.1}, {"tol": 1e-8}),
    (sparse_self_expression, {"max_iter": 9000}, {"alpha": 20.0, "affine": False, "tol": 2e-4}),
    (
        sparse_self_expression,
        {"outliers": False, "max_iter": 9000},
        {"alpha": 20.0, "tol": 2e-4, "drop_diagonal": False, "layout": "dense"},
    ),
    (
        kernel_code,
        {"max_iter": 9000},
        {"alpha": 20.0, "affine": False, "tol": 2e-4, "drop_diagonal": False, "layout": "dense"},
    ),
    (elastic_net_self_expression, {}, {"alpha": 50.0, "l1_ratio": 0.95, "tol": 1e-3}),
    (low_rank_representation, {}, {"lam": 0.18, "norm": "l21", "method": "admm", "gap": 1e-4}),
    (low_rank_representation, {"method": "alm"}, {"rho": 1.1, "mu": 1e-6, "tol": 1e-8}),
    (
        low_rank_representation,
        {"method": "alm", "tol": 1e-300, "max_iter": 420},
        {"max_mu": 1e10},
    ),
    (joint, {"eta1": 0.01, "eta3": 0.01}, {"tol": 1e-4}),
]


@pytest.mark.parametrize(("solver", "options", "defaults"), DEFAULTS)
def test_what_is_not_said_is_as_documented(solver, options, defaults):
    """The same result to the last bit, and another one if any number were twice as large."""
    shape = (80, 15) if solver is elastic_net_self_expression else (30, 5)
    Z = torch.nn.functional.normalize(normal(*shape, seed=3) + 0.5)

    def result(**changes):
        found = solver(Z, **options, **changes)
        C = found.coefficients
        C = C.toarray() if sp.issparse(C) else C.numpy()
        return C.tobytes(), found.n_iter, found.residual

    plain = result()
    assert plain == result(**defaults)
    for name, value in defaults.items():
        if isinstance(value, float) and name != "l1_ratio":  # which is below one
            assert plain != result(**{name: 2 * value}), name


@pytest.mark.parametrize(
    ("solver", "options", "most"),
    [
        (dense_self_expression, {"rho": 1.001}, 1000),
        (low_rank_representation, {"gap": 1e-300}, 2000),
        (joint, {"eta1": 1e-3, "eta3": 1e-3, "tol": 1e-300}, 1000),
    ],
)
def test_there_are_as_many_steps_as_documented(solver, options, most):
    Z = torch.nn.functional.normalize(normal(12, 5, seed=3) + 0.5)
    found = solver(Z, **options)
    assert (found.n_iter, found.converged) == (most, False)


POSITIVE = {
    dense_self_expression: ["l1", "l2", "rho", "mu", "max_mu", "tol", "max_iter"],
    elastic_net_self_expression: ["alpha", "weight", "tol", "max_iter", "block_rows"],
    sparse_self_expression: ["alpha", "weight", "penalty", "gamma", "tol", "max_iter"],
    kernel_sparse_self_expression: ["alpha", "weight", "penalty", "tol", "max_iter", "block_rows"],
    kernel_matrix: ["gamma", "degree"],
    low_rank_representation: ["gap", "rho", "mu", "max_mu", "tol", "max_iter"],
    low_rank_subspace: ["tau"],
    orthogonal_matching_pursuit: ["tol"],
    joint: ["eta1", "eta2", "tol", "max_iter"],
}
CASES = [(solver, name) for solver, names in POSITIVE.items() for name in names]


@pytest.mark.parametrize(("solver", "name"), CASES)
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_parameter_that_is_no_positive_number_is_refused_by_name(solver, name, value):
    with pytest.raises(InputError, match=f"^{name} must be a positive number, got"):
        solver(torch.eye(4, dtype=torch.float64) + 0.2, **{name: value})


@pytest.mark.parametrize("value", NO_NUMBERS[:3])
def test_prices_may_be_infinite_but_not_zero(value):
    Z = normal(4, 3)
    with pytest.raises(InputError, match=r"^lam must be a positive number"):
        low_rank_representation(Z, value)
    with pytest.raises(InputError, match=r"^alpha must be a positive number"):
        low_rank_subspace(Z, alpha=value)


@pytest.mark.parametrize("solver", POSITIVE)
@pytest.mark.parametrize(
    ("Z", "word"),
    [
        (torch.ones(3), "non-empty matrix"),
        (torch.ones(1, 3, 3), "non-empty matrix"),
        (torch.ones(0, 3), "non-empty matrix"),
        (torch.ones(3, 3, dtype=torch.int64), "float32 or float64"),
        (torch.tensor([[1.0, math.inf], [math.inf, 1.0]]), "NaN or infinite"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused_by_name(solver, Z, word):
    name = next(iter(inspect.signature(solver).parameters))
    with pytest.raises(InputError, match=rf"^{name} .*{word}"):
        solver(Z)


@pytest.mark.parametrize("solver", [sparse_self_expression, kernel_code])
def test_a_layout_that_is_not_known_is_refused(solver):
    with pytest.raises(InputError, match="unknown layout"):
        solver(normal(4, 3), layout="coo")


# ---- the closed form -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("d", [1, 3])
def test_one_sample_alone_has_its_leverage_and_no_coefficient(form, d):
    operator = solve(torch.full((1, d), 2.0, dtype=torch.float64), 0.5, form=form)
    assert float(operator.leverage) == pytest.approx(4 * d / (4 * d + 0.5))
    assert operator.dense().tolist() == [[0.0]]


def test_as_many_samples_as_features_are_solved_by_samples(monkeypatch):
    Z = normal(4, 4)
    assert solve(Z, 1.0).form == solve_for_dof(Z, 2.0).form == "samples"
    assert solve(normal(5, 4), 1.0).form == "features"
    monkeypatch.setattr(distributed, "active", lambda: True)
    assert not fewer_samples(Z)


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("shape", [(4,), (3, 2), (5, 4), (4, 2, 2)])
def test_products_are_with_matrices_of_as_many_rows(form, shape):
    operator = solve(normal(4, 3), 1.0, form=form)
    for product in (operator.matmul, operator.rmatmul):
        with pytest.raises(InputError, match="B has 4 columns"):
            product(torch.ones(shape, dtype=torch.float64))


def test_whole_numbers_have_no_closed_form():
    with pytest.raises(InputError, match="float32 or float64"):
        solve_for_dof(torch.eye(3, dtype=torch.int64), 2.0)


@pytest.mark.parametrize(("complement", "dtype"), [(0.015, torch.float32), (0.008, torch.float64)])
def test_single_precision_ends_where_two_digits_would_be_lost(complement, dtype):
    """A sample alone in its direction has 1 - h = lam / (lam + |z|^2)."""
    Z = torch.zeros(6, 4)
    Z[:5, :3] = 0.1 * normal(5, 3).float()
    Z[5, 3] = (1 / complement - 1) ** 0.5
    operator = FeatureForm(Z, 1.0)
    assert float(operator.complement.min()) == pytest.approx(complement, rel=1e-5)
    assert operator.Y.dtype == dtype
    assert operator.dense().dtype == torch.float32


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("value", [1e200, math.inf, math.nan])
def test_one_number_whose_square_overflows_is_named(form, value):
    Z = normal(4, 4)
    Z[1, 2] = value
    with pytest.raises(InputError, match="NaN or infinite values"):
        solve(Z, 1.0, form=form)


def test_a_leverage_is_below_one_by_what_the_samples_length_says():
    """Orthogonal samples, where 1 - |y|^2 is nothing but rounding."""
    lengths = torch.linspace(1e7, 6e7, 40, dtype=torch.float64)
    floor = 1.0 / (1.0 + lengths.square())
    found = FeatureForm(torch.diag(lengths), 1.0).complement
    assert (found >= floor * (1 - 1e-12)).all()
    assert (found <= floor + 4 * EPS).all()
    assert (found == floor).any()  # rounding alone would be negative or zero


def test_the_rank_counts_what_is_above_the_rounding_of_the_largest():
    for scale in (1.0, 2.0**-60, 2.0**60):
        for small, rank in ((1.9e-15, 1), (2e-15, 1), (2.1e-15, 2), (3.9e-15, 2)):
            squares = scale * torch.tensor([small, 1.0], dtype=torch.float64)
            assert numerical_rank(squares) == rank
    assert lam_for_dof(torch.tensor([7.0], dtype=torch.float64), 0.5) == pytest.approx(7.0)


def test_a_device_that_is_not_known_holds_as_many_numbers_as_a_cpu():
    chunks = list(row_chunks(3, 1 << 21, torch.device("meta")))
    assert chunks == list(row_chunks(3, 1 << 21, torch.device("cpu")))
    assert [(s.start, s.stop) for s in chunks] == [(0, 2), (2, 3)]


# ---- sparse codes --------------------------------------------------------------------------------


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


@pytest.mark.parametrize("outliers", [True, False])
def test_blocks_end_on_their_own_and_the_last_to_end_counts(outliers):
    """A zero row, a block of its own, is finished at once and changes no other row."""
    Z = torch.cat([normal(20, 6), torch.zeros(1, 6, dtype=torch.float64)])
    whole = sparse_self_expression(Z, outliers=outliers, max_iter=5000)
    parts = sparse_self_expression(Z, outliers=outliers, max_iter=5000, block_rows=20)
    assert whole.converged
    assert parts.converged
    assert parts.n_iter == whole.n_iter > 10
    assert parts.residual == pytest.approx(whole.residual, rel=1e-6)
    torch.testing.assert_close(parts.coefficients, whole.coefficients, rtol=0, atol=1e-12)


def outlier_code(Z, **options):
    return sparse_self_expression(Z, max_iter=5000, **options)


def lasso_code(Z, **options):
    return sparse_self_expression(Z, outliers=False, max_iter=5000, **options)


@pytest.mark.parametrize(
    ("solver", "tol"),
    [(outlier_code, 1e-3), (lasso_code, 1e-3), (dense_self_expression, 1e-4), (joint, 1e-3)],
)
def test_a_tolerance_that_is_just_met_is_met(solver, tol):
    Z = normal(12, 5)
    first = solver(Z, tol=tol)
    again = solver(Z, tol=first.residual)
    assert first.n_iter > 2
    assert (again.n_iter, again.residual, again.converged) == (first.n_iter, first.residual, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_samples_without_any_other_to_use_are_all_outlier(dtype, layout):
    Z = 2 * torch.eye(4, dtype=dtype)[:3]
    found = sparse_self_expression(Z, 6.0, layout=layout)
    C = found.coefficients.toarray() if layout == "csr" else found.coefficients.numpy()
    assert C.shape == (3, 3)
    assert C.dtype == Z.numpy().dtype
    assert not C.any()
    assert torch.equal(found.outliers, Z)
    assert found.outliers is not Z
    assert found.objective == pytest.approx(6.0 / 2 * 6)  # gamma |Z|_1
    lasso = sparse_self_expression(Z, 6.0, layout=layout, outliers=False)
    assert lasso.outliers is None
    for end in (found, lasso):
        assert (end.n_iter, end.residual, end.converged) == (0, 0.0, True)
        assert sp.issparse(end.coefficients) == (layout == "csr")


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


# ---- the elastic net -----------------------------------------------------------------------------


def unit(n, d, seed=0):
    return torch.nn.functional.normalize(normal(n, d, seed))


@pytest.mark.parametrize("n", [2, 3, 30, 65])
def test_a_code_over_few_samples_takes_one_round(n):
    found = elastic_net_self_expression(unit(n, 8), tol=1e-9)
    assert (found.n_iter, found.residual, found.converged) == (1, 0.0, True)


def test_two_samples_have_the_code_of_one_variable():
    """c = soft(g p, r) / (1 - r + g |z|^2) with p = z_1 . z_2."""
    Z = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    C = elastic_net_self_expression(Z, l1_ratio=0.5, weight=10.0).coefficients.toarray()
    c = (10 * 0.6 - 0.5) / (0.5 + 10)
    np.testing.assert_allclose(C, [[0, c], [c, 0]], rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_that_are_orthogonal_never_join_each_others_codes(dtype):
    """Two pairs in orthogonal planes, and a zero row."""
    Z = torch.zeros(5, 4, dtype=dtype)
    Z[0, 0], Z[1, 0], Z[1, 1] = 1.0, 0.8, 0.6
    Z[2, 2], Z[3, 2], Z[3, 3] = 1.0, 0.6, -0.8
    found = elastic_net_self_expression(Z)
    expected = np.zeros((5, 5), dtype=bool)
    expected[[0, 1, 2, 3], [1, 0, 3, 2]] = True
    np.testing.assert_array_equal(found.coefficients.toarray() != 0, expected)
    assert (found.n_iter, found.converged) == (1, True)


@pytest.mark.parametrize("tol", [1e-9, 0.5])
@pytest.mark.parametrize("growth", [1, 3])
def test_rounds_end_where_none_is_beyond_the_tolerance(tol, growth, monkeypatch):
    """One sample at first, few in a round: every |z_j . y| outside the code is within (1 + tol) r,
    and with a large tolerance some are beyond r."""
    monkeypatch.setattr(elastic_net, "START", 1)
    monkeypatch.setattr(elastic_net, "GROWTH", growth)
    Z, r = unit(60, 10, seed=1), 0.8
    found = elastic_net_self_expression(Z, 30.0, r, tol=tol)
    assert found.converged
    assert 1 < found.n_iter < 100
    C, G = torch.from_numpy(found.coefficients.toarray()), (Z @ Z.T).fill_diagonal_(0.0)
    g = 30.0 * r / G.abs().amax(1)
    u = (g[:, None] * (Z - C @ Z) @ Z.T).fill_diagonal_(0.0).abs()
    outside = u[C == 0].max()
    assert outside <= (1 + tol) * r * (1 + 1e-9)
    assert bool(outside > 1.1 * r) == (tol == 0.5)
    support = C != 0
    torch.testing.assert_close(C.abs()[support], ((u - r) / (1 - r))[support], rtol=1e-6, atol=1e-8)


def test_what_one_round_leaves_does_not_depend_on_the_order(monkeypatch):
    """Each sample comes first once, the one that is missed most among them."""
    monkeypatch.setattr(elastic_net, "START", 1)
    Z = unit(12, 4, seed=2)
    found = [elastic_net_self_expression(Z.roll(i, 0), 30.0, max_iter=1) for i in range(12)]
    assert found[0].residual > 1e-3
    for i, other in enumerate(found):
        assert other.residual == pytest.approx(found[0].residual, rel=1e-9)
        rolled = np.roll(found[0].coefficients.toarray(), (i, i), axis=(0, 1))
        np.testing.assert_allclose(other.coefficients.toarray(), rolled, rtol=0, atol=1e-10)


def test_codes_that_newton_has_not_found_are_not_converged(monkeypatch):
    monkeypatch.setattr(elastic_net, "NEWTON_STEPS", 1)
    found = elastic_net_self_expression(unit(30, 8))
    assert (found.residual, found.converged) == (math.inf, False)


# ---- matching pursuit ----------------------------------------------------------------------------


def test_the_gram_matrix_is_held_from_64_dimensions_up_to_one_gibibyte():
    assert use_gram(16_384, 64, torch.float32)
    assert not use_gram(16_385, 64, torch.float32)
    assert not use_gram(16_384, 63, torch.float32)
    assert not use_gram(16_384, 64, torch.float64)


@pytest.mark.parametrize(("gram", "d", "held"), [(True, 3, True), (False, 70, False)])
@pytest.mark.parametrize("unsaid", [False, True])
def test_there_is_a_gram_matrix_where_it_is_asked_for(gram, d, held, unsaid, monkeypatch):
    seen = []
    pursue = matching_pursuit._pursue

    def spy(Z, G, *rest):
        seen.append(G is not None)
        return pursue(Z, G, *rest)

    monkeypatch.setattr(matching_pursuit, "_pursue", spy)
    orthogonal_matching_pursuit(normal(80, d), 2, gram=None if unsaid else gram)
    assert seen == [held != unsaid]


@pytest.mark.parametrize("gram", [False, True])
def test_samples_may_be_coded_one_at_a_time(gram):
    Z = normal(7, 4)
    one, whole = (orthogonal_matching_pursuit(Z, 3, gram=gram, block=b) for b in (1, 1024))
    np.testing.assert_allclose(one.coefficients.toarray(), whole.coefficients.toarray(), atol=1e-12)
    assert one.objective == pytest.approx(whole.objective)


def test_a_pursuit_ends_below_a_millionth_or_at_five_samples_unless_said():
    """Shares of 1.5e-6 and 0.7e-6 are left of the first two samples by the third."""
    Z = torch.zeros(5, 4, dtype=torch.float64)
    Z[2, 0] = 1.0
    for i, share in enumerate((1.5e-6, 0.7e-6)):
        Z[i, 0], Z[i, 1 + i] = math.sqrt(1 - share), math.sqrt(share)
    Z[3, 1] = Z[4, 2] = 1.0
    found = orthogonal_matching_pursuit(3 * Z)
    codes = [sorted(found.coefficients[i].indices.tolist()) for i in range(2)]
    assert [len(code) for code in codes] == [2, 1]
    assert found.n_iter == 2
    assert found.residual < 1e-6
    assert np.diff(orthogonal_matching_pursuit(normal(30, 12)).coefficients.indptr).tolist() == (
        [5] * 30
    )
    lengths = torch.linspace(1.0, 9.0, 30, dtype=torch.float64)[:, None]
    plain, long = (orthogonal_matching_pursuit(s * unit(30, 12)) for s in (1.0, lengths))
    np.testing.assert_allclose(long.coefficients.toarray(), plain.coefficients.toarray(), atol=1e-9)


# ---- low rank ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 2.0**-20, 2.0**20])
@pytest.mark.parametrize(("units", "rank"), [(6, 3), (8, 3), (10, 4)])
def test_singular_values_count_above_eight_units_for_eight_samples(scale, units, rank):
    """max(N, d) = 8 units of round-off of the largest."""
    Z = torch.zeros(8, 4, dtype=torch.float64)
    Z.diagonal().copy_(torch.tensor([1.0, 0.5, 0.25, units * EPS]))
    assert low_rank_representation(scale * Z, math.inf).rank == rank
    assert low_rank_representation(scale * Z.T.contiguous(), math.inf).rank == rank


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("share", [1e-9, 1e-7, 1e-5, 0.1])
def test_singular_values_are_shrunk_exactly_at_any_size(size, share):
    M = size * normal(12, 5)
    U, s, Wt = torch.linalg.svd(M, full_matrices=False)
    threshold = share * float(s[0])
    J, kept = shrink_singular_values(M, threshold)
    expected = (s - threshold).clamp_min(0.0)
    torch.testing.assert_close(J, (U * expected) @ Wt, rtol=0, atol=1e-10 * size)
    torch.testing.assert_close(kept.sort().values, expected.sort().values, rtol=0, atol=1e-9 * size)


def test_the_price_of_a_code_is_a_hundredth_of_the_largest_square_unless_said():
    Z = normal(9, 5)
    tau = 100.0 / float(torch.linalg.matrix_norm(Z, 2)) ** 2
    plain, said = low_rank_subspace(Z), low_rank_subspace(Z, tau, tau / 2)
    torch.testing.assert_close(plain.coefficients, said.coefficients, rtol=1e-12, atol=1e-14)
    assert plain.objective == pytest.approx(said.objective, rel=1e-12)


@pytest.mark.parametrize("method", ["admm", "alm"])
@pytest.mark.parametrize("norm", ["l21", "l1"])
def test_a_gap_is_a_share_of_the_objective(method, norm):
    """Zero is a bound of every objective, so a gap is one at most, however large the objective."""
    found = low_rank_representation(10 * normal(12, 5), 1.0, norm=norm, method=method, max_iter=1)
    assert found.objective > 10
    assert 0.1 < found.gap <= 1.0


# ---- dense codes, and codes with an affinity -----------------------------------------------------


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_round_off_beside_the_longest_direction_is_no_direction(shape, scale):
    """Singular values of 1000 and 1: the squares carry round-off of a million."""
    left, right = (torch.linalg.qr(normal(k, 2, seed=k)).Q for k in shape)
    Z = scale * left @ torch.diag(torch.tensor([1e3, 1.0], dtype=torch.float64)) @ right.T
    found = dense_self_expression(Z, 1e30, outliers=False)
    torch.testing.assert_close(found.coefficients, left @ left.T, rtol=0, atol=1e-6)
    assert found.objective == pytest.approx(1.0)


def test_momentum_starts_again_uphill():
    """25 steps of the joint problem, with an affinity that joins nothing, written out."""
    Z = torch.nn.functional.normalize(normal(10, 4, seed=3) + 0.5).numpy()
    eta1, eta2, eta3, restarts = 1.0, 0.3, 1e-3, 0
    rate = 0.5 / (np.linalg.norm(Z, 2) ** 2 + eta1)
    V = ahead = np.zeros((2, 10, 10))
    momentum, diagonal = 1.0, np.arange(10)
    for _ in range(25):
        W, fit = ahead[0] + ahead[1], ((ahead[0] - ahead[1]) @ Z - Z) @ Z.T
        common = eta1 * (W - eta2 * np.eye(10)) + eta3
        new = np.maximum(ahead - rate * np.stack([common + fit, common - fit]), 0.0)
        new[:, diagonal, diagonal] = 0.0
        if ((ahead - new) * (new - V)).sum() > 0:
            momentum, restarts = 1.0, restarts + 1
        following = 0.5 + np.sqrt(0.25 + momentum**2)
        ahead, V = new + (momentum - 1.0) / following * (new - V), new
        momentum = following
    assert restarts > 1
    found = joint(torch.from_numpy(Z), eta1, eta2, eta3, tol=1e-300, max_iter=25)
    np.testing.assert_allclose(found.expression.numpy(), V[0] - V[1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.magnitudes.numpy(), V[0] + V[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("code", [sparse_self_expression, kernel_sparse_self_expression])
@pytest.mark.parametrize("name", ["tol", "max_iter", "block_rows"])
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_bad_options_are_refused_also_where_there_is_nothing_to_code(code, name, value):
    with pytest.raises(InputError, match=name):
        code(torch.eye(4, dtype=torch.float64), **{name: value})
