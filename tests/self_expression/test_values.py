"""Values against dense formulas in double precision, at the edges of what is allowed."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.neighbors import largest_inner_products
from dcfsc.self_expression import (
    CosineForm,
    FeatureForm,
    LambdaPath,
    MirroredCosineForm,
    RidgeFactor,
    SampleForm,
    SparseCoefficients,
    dense_self_expression,
    effective_dof,
    gram,
    lam_for_dof,
    low_rank_representation,
    low_rank_subspace,
    orthogonal_matching_pursuit,
    solve,
    squared_singular_values,
    target_dof,
)
from dcfsc.self_expression.closed_form import cholesky
from dcfsc.self_expression.gram import CHUNK_ELEMENTS, outer_gram, row_chunks
from dcfsc.self_expression.low_rank import _polynomial_shrinkage

CPU = torch.device("cpu")
SHAPES = [(9, 5), (5, 9), (6, 6)]


def matrix(n, d, seed=0):
    Z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(Z)


def awkward(n, d):
    """A copy, an opposite and a zero row among others."""
    Z = matrix(n, d)
    Z[1], Z[2], Z[3] = Z[0], -Z[0], 0.0
    return Z


def hat(Z, lam):
    return Z @ torch.linalg.solve(Z.T @ Z + lam * torch.eye(Z.shape[1], dtype=Z.dtype), Z.T)


def coefficients(Z, lam):
    H = hat(Z, lam)
    return (H / (1.0 - H.diagonal())[:, None]).fill_diagonal_(0.0)


@pytest.mark.parametrize("form", [SampleForm, FeatureForm])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lam", [1e-6, 0.3, 1e8])
def test_both_forms_are_the_dense_formula_with_copies_and_zero_rows(form, shape, lam):
    Z = awkward(*shape)
    n = len(Z)
    B, H, operator = coefficients(Z, lam), hat(Z, lam), form(Z, lam)
    close = {"rtol": 1e-6, "atol": 1e-9 * float(B.abs().max())}
    torch.testing.assert_close(operator.rows(0, n), B, **close)
    torch.testing.assert_close(operator.rows(2, 4), B[2:4], **close)
    V = matrix(n, 3, seed=1)
    torch.testing.assert_close(operator.matmul(V), B @ V, **close)
    torch.testing.assert_close(operator.matmul(Z), B @ Z, **close)
    torch.testing.assert_close(operator.rmatmul(V), B.T @ V, **close)
    torch.testing.assert_close(operator.leverage, H.diagonal(), rtol=1e-6, atol=1e-9)
    assert operator.effective_dof == pytest.approx(float(H.trace()), rel=1e-6)
    unseen = matrix(4, Z.shape[1], seed=2)
    inverse = torch.linalg.inv(Z.T @ Z + lam * torch.eye(Z.shape[1], dtype=Z.dtype))
    codes = unseen @ inverse @ Z.T
    close["atol"] = 1e-9 * float(codes.abs().max())
    torch.testing.assert_close(operator.code(unseen), codes, **close)


@pytest.mark.parametrize("form", [SampleForm, FeatureForm])
@pytest.mark.parametrize("k", [1, 4, 5, 6, 40])
def test_the_largest_of_a_row_are_at_most_all_the_others(form, k):
    Z = matrix(6, 4, seed=3)
    B, H, operator = coefficients(Z, 0.2), hat(Z, 0.2), form(Z, 0.2)
    length = H.diagonal().sqrt()
    cosine = (H / length[:, None] / length).fill_diagonal_(0.0)
    for dense, (values, indices) in ((B, operator.topk(k)), (cosine, operator.topk_cosine(k))):
        assert values.shape == indices.shape == (6, min(k, 5))
        assert not (indices == torch.arange(6)[:, None]).any()
        torch.testing.assert_close(values, dense.gather(1, indices))
        largest = dense.abs().sort(1, descending=True).values[:, : min(k, 5)]
        torch.testing.assert_close(values.abs().sort(1, descending=True).values, largest)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6, 7, 30])
def test_short_sparse_rows_are_filled_up_with_other_columns(k):
    random = np.random.default_rng(k)
    C = random.normal(size=(7, 7)) * (random.random((7, 7)) < np.linspace(0, 1, 7)[:, None])
    np.fill_diagonal(C, 0.0)
    values, indices = (t.numpy() for t in SparseCoefficients(sp.csr_array(C)).topk(k))
    assert values.shape == indices.shape == (7, min(k, 6))
    for i in range(7):
        assert len({i, *indices[i]}) == 1 + min(k, 6)
        assert np.array_equal(values[i], C[i, indices[i]])
        assert np.allclose(np.sort(abs(values[i])), np.sort(abs(C[i]))[::-1][: min(k, 6)][::-1])


def test_neighbors_among_mirror_images_share_a_scan_with_those_among_the_samples(monkeypatch):
    """One list is the cosine form's, the other has the larger of both values of every column."""
    Z = torch.cat([matrix(30, 5), matrix(30, 5)[:9]])  # copies: equal magnitudes
    mirrored = matrix(39, 5, seed=1)
    larger = torch.maximum((Z @ Z.T).abs(), (Z @ mirrored.T).abs()).fill_diagonal_(0.0)
    scanned: list[Tensor] = []

    def scan(Q, Y, k, diagonal=None):
        scanned.append(Y)
        return largest_inner_products(Q, Y, k, diagonal=diagonal)

    monkeypatch.setattr("dcfsc.neighbors.sharded.largest_inner_products", scan)
    operator = MirroredCosineForm(Z, mirrored)
    for k in (3, 7, 50):
        alone = CosineForm(Z).topk(k)
        scanned.clear()
        among_samples, (values, columns) = operator.neighbors(k)
        assert [Y is Z for Y in scanned] == [True, False]
        assert all(map(torch.equal, among_samples, alone))
        assert all(map(torch.equal, operator.topk_cosine(k), alone))
        torch.testing.assert_close(values, larger.topk(min(k, 38)).values)
        torch.testing.assert_close(values, larger.gather(1, columns))


def test_chunks_hold_as_many_rows_as_fit(monkeypatch):
    monkeypatch.setitem(CHUNK_ELEMENTS, "cpu", 12)
    steps = [(s.start, s.stop) for s in row_chunks(10, 4, CPU)]
    assert steps == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert len(list(row_chunks(5, 100, CPU))) == 5
    assert len(list(row_chunks(5, 0, CPU))) == 1
    assert list(row_chunks(0, 4, CPU)) == []
    for shape in SHAPES:
        Z = matrix(*shape)
        torch.testing.assert_close(gram(Z), Z.T @ Z)
        torch.testing.assert_close(outer_gram(Z), Z @ Z.T)
        torch.testing.assert_close(FeatureForm(Z, 0.1).rows(0, len(Z)), coefficients(Z, 0.1))


@pytest.mark.parametrize("shape", SHAPES)
def test_there_are_as_many_squared_singular_values_as_the_shorter_side(shape):
    Z = matrix(*shape)
    squares = squared_singular_values(Z)
    assert len(squares) == min(shape)
    torch.testing.assert_close(squares, torch.linalg.svdvals(Z).square().flip(0))


@pytest.mark.parametrize("lam", [1e-8, 1.0, 1e8])
def test_the_whitened_gram_is_that_of_the_whitened_rows(lam):
    Z = matrix(9, 5)
    factor = RidgeFactor(gram(Z), lam)
    Y = factor.whiten(Z)
    torch.testing.assert_close(Y @ Y.T, hat(Z, lam), rtol=1e-6, atol=1e-14)
    torch.testing.assert_close(factor.whitened_gram, Y.T @ Z, rtol=1e-6, atol=1e-10)


def test_the_least_lam_is_taken_and_a_smaller_one_is_refused():
    eps = torch.finfo(torch.float64).eps
    identity = torch.eye(3, dtype=torch.float64)
    assert float(cholesky(identity.clone(), eps)[0, 0]) == pytest.approx(1.0)
    torch.testing.assert_close(cholesky(identity.clone(), 0.5, 0.5), math.sqrt(1.5) * identity)
    for lam, least in ((eps / 2, 0.0), (0.49, 0.5)):
        with pytest.raises(InputError, match="too small beside"):
            cholesky(identity.clone(), lam, least)


@pytest.mark.parametrize("dof", [1e-4, 0.5, 2.0, 3.9])
def test_equal_singular_values_have_the_root_in_closed_form(dof):
    """s / (s + lam) four times is dof at lam = s (4 - dof) / dof."""
    squares = torch.full((4,), 7.0, dtype=torch.float64)
    lam = lam_for_dof(squares, dof)
    assert lam == pytest.approx(7.0 * (4.0 - dof) / dof, rel=1e-9)
    assert effective_dof(squares, lam) == pytest.approx(dof, rel=1e-9)


def test_the_target_is_clusters_times_dimension():
    assert target_dof(4, 1.5) == 6.0
    assert target_dof(3, 1e-6) == pytest.approx(3e-6)
    for wrong in (0, -1.0, 9e-7, math.inf, math.nan, "3", None):
        with pytest.raises(InputError, match="subspace_dim must be a positive number"):
            target_dof(4, wrong)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lam", [1e-4, 1.0, 1e6])
def test_the_path_is_the_dense_formula(shape, lam):
    Z = awkward(*shape)
    path, H = LambdaPath(Z), hat(Z, lam)
    assert path.effective_dof(lam) == pytest.approx(float(H.trace()), rel=1e-8)
    torch.testing.assert_close(path.leverage(lam), H.diagonal(), rtol=1e-7, atol=1e-12)
    error = float((Z - coefficients(Z, lam) @ Z).square().sum())
    assert path.leave_one_out_error(lam) == pytest.approx(error, rel=1e-6)


def test_samples_divided_among_processes_have_no_form_by_samples(monkeypatch):
    monkeypatch.setattr(processes, "active", lambda: True)
    with pytest.raises(InputError, match="needs all samples in one process"):
        solve(matrix(4, 6), 0.1, form="samples")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("l1", [1e-3, 1.0, 100.0])
def test_dense_codes_are_a_hat_matrix(shape, l1):
    Z = awkward(*shape)
    found, C = dense_self_expression(Z, l1, outliers=False), hat(Z, 1 / l1)
    torch.testing.assert_close(found.coefficients, C, rtol=1e-7, atol=1e-10)
    value = (C.square().sum() + l1 * (Z - C @ Z).square().sum()) / 2
    assert found.objective == pytest.approx(float(value), rel=1e-7)
    assert (found.n_iter, found.residual, found.converged) == (0, 0.0, True)


def test_noise_costs_a_hundred_unless_said():
    Z = matrix(9, 5)
    found = dense_self_expression(Z, outliers=False).coefficients
    torch.testing.assert_close(found, hat(Z, 0.01), rtol=1e-7, atol=1e-10)


def lrr_value(Z, C, lam):
    return float(torch.linalg.svdvals(C).sum() + lam * (Z - C @ Z).norm(dim=1).sum())


@pytest.mark.parametrize("max_iter", [1, 2, 11])
def test_a_stopped_low_rank_code_has_its_value_and_a_true_gap(max_iter):
    Z = 0.1 * matrix(12, 6)
    best = low_rank_representation(Z, 1.0, gap=1e-7, max_iter=5000)
    found = low_rank_representation(Z, 1.0, max_iter=max_iter, gap=1e-12)
    assert found.n_iter == max_iter
    assert not found.converged
    assert found.objective == pytest.approx(lrr_value(Z, found.coefficients, 1.0), rel=1e-8)
    assert found.objective * (1.0 - found.residual) <= best.objective * (1 + 1e-9)
    torch.testing.assert_close(found.error, Z - found.coefficients @ Z)


@pytest.mark.parametrize("max_iter", [1, 2, 11])
def test_a_bound_of_the_optimum_is_never_above_a_small_one(max_iter):
    """All samples are errors: the optimum is their price, far below one."""
    found = low_rank_representation(matrix(12, 6), 1e-3, max_iter=max_iter, gap=1e-12)
    assert found.objective == pytest.approx(1e-3 * 12)
    assert found.objective * (1 - found.residual) <= 1e-3 * 12 * (1 + 1e-12)
    assert found.residual >= 0


def test_iterations_stop_where_the_tolerance_is_just_met():
    Z = matrix(12, 6)
    first = low_rank_representation(Z, 1.0, gap=1e-2)
    again = low_rank_representation(Z, 1.0, gap=first.residual)
    assert (again.n_iter, again.residual, again.converged) == (first.n_iter, first.residual, True)


def test_fixed_data_have_the_code_of_their_own_singular_values():
    Z = matrix(9, 5)
    found = low_rank_subspace(Z, 3.0, math.inf)
    V, s, _ = torch.linalg.svd(Z, full_matrices=False)
    weights = (1 - 1 / (3.0 * s.square())).clamp_min(0.0)
    torch.testing.assert_close(found.coefficients, (V * weights) @ V.T)
    value = weights.sum() + 1.5 * (Z - found.coefficients @ Z).square().sum()
    assert found.objective == pytest.approx(float(value))
    assert (found.n_iter, found.residual, found.converged) == (0, 0.0, True)
    assert torch.equal(found.clean, Z)
    assert not found.error.any()


@pytest.mark.parametrize("a", [0.2, 1.0, 8.0])
def test_values_too_small_for_a_root_are_shrunk_in_one_step(a):
    x = torch.tensor([0.0, 0.1, 0.5], dtype=torch.float64)
    u, n_iter, defect = _polynomial_shrinkage(x, a)
    torch.testing.assert_close(u, a / (a + 1) * x)
    assert n_iter == 1
    assert defect < 1e-15


@pytest.mark.parametrize("gram", [True, False])
def test_a_pursuit_stops_below_its_tolerance_and_not_at_it(gram):
    """(3, 4) / 5 and the axes, all of unit length: each starts with a residual of one."""
    Z = torch.tensor([[1, 0], [0, 1], [0.6, 0.8]], dtype=torch.float64)
    at_once = orthogonal_matching_pursuit(Z, 2, tol=1.01, gram=gram)
    assert (at_once.coefficients.nnz, at_once.n_iter) == (0, 0)
    assert (at_once.residual, at_once.objective) == (1.0, pytest.approx(3.0))
    once = orthogonal_matching_pursuit(Z, 2, tol=1.0, gram=gram)
    found = once.coefficients.toarray()
    np.testing.assert_allclose(found[:2], [[0, 0, 0.6], [0, 0, 0.8]], atol=1e-12)
    assert once.n_iter == 1
    full = orthogonal_matching_pursuit(Z, 9, tol=1e-9, gram=gram).coefficients.toarray()
    np.testing.assert_allclose(full[2], [0.6, 0.8, 0], atol=1e-12)
    np.testing.assert_allclose(full @ Z.numpy(), Z.numpy(), atol=1e-12)


def test_outliers_cost_half_of_the_noise_unless_said():
    Z = matrix(9, 5)
    found, same, other = (
        dense_self_expression(Z, 1.0, outliers=True, **options)
        for options in ({}, {"l2": 0.5}, {"l2": 2.0})
    )
    assert torch.equal(found.coefficients, same.coefficients)
    assert not torch.allclose(found.coefficients, other.coefficients)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 2, 2)])
def test_samples_are_the_rows_of_a_matrix_that_is_not_empty(shape):
    with pytest.raises(InputError, match="Z must be a matrix of samples in rows"):
        solve(torch.zeros(shape, dtype=torch.float64), 0.3)


@pytest.mark.parametrize("form", ["features", "samples"])
def test_back_propagation_keeps_what_it_needs_and_no_more(form):
    """The gradient is B' g, and the d x d factor is not alive beside the activations."""
    Z = torch.randn(30, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    operator = solve(Z, 0.3, form=form)
    V = Z.clone().requires_grad_()
    expressed = operator.apply(V)
    g = torch.randn(30, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    kept = expressed.grad_fn.operator
    assert not hasattr(kept, "factor") or kept.factor is None
    (gradient,) = torch.autograd.grad(expressed, V, g)
    torch.testing.assert_close(gradient, operator.rows(0, 30).mT @ g, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(operator.code(Z[:2]), operator.code(Z)[:2])  # it is whole itself
