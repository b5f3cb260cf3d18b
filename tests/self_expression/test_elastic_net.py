"""The elastic net against coordinate descent and its own optimality conditions."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import ElasticNet

from dcfsc.errors import InputError
from dcfsc.self_expression import elastic_net, elastic_net_self_expression
from dcfsc.self_expression.elastic_net import newton


def union(n=60, d=20, noise=0.05, seed=0, parts=4):
    """Noisy samples of some subspaces of dimension four, at unit length."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(n, 4)) @ random.normal(size=(4, d)) for _ in range(parts)]
    Z = np.concatenate(X) + noise * random.normal(size=(parts * n, d))
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def weights(Z, alpha, r):
    G = np.abs(Z @ Z.T)
    np.fill_diagonal(G, 0.0)
    return alpha * r / G.max(axis=1)


@pytest.mark.parametrize("r", [0.3, 0.95])
@pytest.mark.parametrize("alpha", [3.0, 50.0])
def test_codes_are_those_of_coordinate_descent(r, alpha):
    Z = union()
    C = elastic_net_self_expression(torch.from_numpy(Z), alpha, r, tol=1e-8).coefficients.toarray()
    assert np.abs(np.diag(C)).max() == 0.0
    g = weights(Z, alpha, r)
    for i in range(0, len(Z), 60):
        others = np.delete(np.arange(len(Z)), i)
        # its problem is ours over g d
        peer = ElasticNet(
            alpha=1.0 / (g[i] * Z.shape[1]),
            l1_ratio=r,
            fit_intercept=False,
            tol=1e-14,
            max_iter=10**6,
        ).fit(Z[others].T, Z[i])
        np.testing.assert_allclose(C[i, others], peer.coef_, atol=1e-7)


@pytest.mark.parametrize("alpha", [50.0, 200.0])
@pytest.mark.parametrize("block_rows", [None, 37])
def test_every_sample_meets_the_optimality_conditions(alpha, block_rows):
    """c_j = soft(z_j . y, r) / (1 - r) over all others, with more of them than at the start."""
    Z, r = union(30), 0.9
    result = elastic_net_self_expression(
        torch.from_numpy(Z), alpha, r, tol=1e-9, block_rows=block_rows
    )
    assert result.converged
    assert result.n_iter > 1
    C = result.coefficients.toarray()
    y = weights(Z, alpha, r)[:, None] * (Z - C @ Z)
    u = y @ Z.T
    np.fill_diagonal(u, 0.0)
    expected = np.sign(u) * np.maximum(np.abs(u) - r, 0.0) / (1.0 - r)
    np.testing.assert_allclose(C, expected, atol=1e-6)


def test_a_weight_of_its_own_takes_the_place_of_alpha():
    Z, r, g = union(20), 0.5, 7.0
    C = elastic_net_self_expression(torch.from_numpy(Z), l1_ratio=r, weight=g, tol=1e-9)
    C = C.coefficients.toarray()
    u = g * (Z - C @ Z) @ Z.T
    np.fill_diagonal(u, 0.0)
    np.testing.assert_allclose(C, np.sign(u) * np.maximum(np.abs(u) - r, 0) / (1 - r), atol=1e-6)


def test_single_precision_is_near_double():
    Z = union()
    double = elastic_net_self_expression(torch.from_numpy(Z), 20.0, 0.9).coefficients.toarray()
    single = elastic_net_self_expression(torch.from_numpy(Z).float(), 20.0, 0.9)
    assert single.coefficients.dtype == np.float32
    np.testing.assert_allclose(single.coefficients.toarray(), double, atol=2e-4)


def test_newton_ends_at_the_optimum_from_anywhere():
    """Few steps would not do at such a weight; a line search of halvings would not either."""
    random = np.random.default_rng(0)
    A, x = random.normal(size=(43, 12)), random.normal(size=12)
    r, g = 0.95, 2000.0
    G, b = torch.from_numpy(A @ A.T)[None], torch.from_numpy(A @ x)[None]
    for start in (torch.zeros(1, 43).double(), torch.randn(1, 43).double()):
        c, solved = newton(G, b, torch.tensor([g]).double(), r, start)
        assert solved
        u = g * (A @ (x - c[0].numpy() @ A))
        expected = np.sign(u) * np.maximum(np.abs(u) - r, 0.0) / (1.0 - r)
        np.testing.assert_allclose(c[0].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("steps", [0, 1, 2, 100])
def test_newton_says_whether_all_have_come_to_the_optimum(steps, monkeypatch):
    """Two problems, one of them solved by its first step: without a support there is none."""
    monkeypatch.setattr(elastic_net, "NEWTON_STEPS", steps)
    random = np.random.default_rng(1)
    A, X = random.normal(size=(20, 8)), random.normal(size=(2, 8))
    G = torch.from_numpy(A @ A.T).expand(2, 20, 20)
    g = torch.tensor([400.0, 1e-6]).double()
    c, solved = newton(G, torch.from_numpy(X @ A.T), g, 0.9, torch.zeros(2, 20).double())
    assert solved is (steps == 100)
    assert not c[1].any()
    assert bool(c[0].any()) is (steps > 0)


def test_the_line_search_ends_where_the_derivative_vanishes():
    random = np.random.default_rng(2)
    u, du = random.normal(size=(2, 30, 6))
    g, zp, pp = random.uniform(0.5, 2.0, 30), random.normal(size=30), random.uniform(0.1, 2.0, 30)
    zp[:8], r = -30.0, 0.4  # still falling at 1

    def derivative(t):
        v = u + t[:, None] * du
        soft = np.sign(v) * np.maximum(np.abs(v) - r, 0.0)
        return g * (zp + t * pp) + (soft * du).sum(axis=1) / (1.0 - r)

    found = elastic_net._line_search(*map(torch.from_numpy, (u, du, g, zp, pp)), r).numpy()
    at_one, at_zero = derivative(np.ones(30)), derivative(np.zeros(30))
    inside = (at_one > 0) & (at_zero < 0)
    assert inside.sum() > 5
    assert (at_one <= 0).sum() > 2
    np.testing.assert_allclose(derivative(found)[inside], 0.0, atol=1e-4)
    np.testing.assert_array_equal(found[at_one <= 0], 1.0)
    assert (found[at_zero >= 0] < 1e-5).all()


@pytest.mark.parametrize("above", [0.0, 1.5])
def test_the_strongest_are_those_of_loops(above):
    random = np.random.default_rng(3)
    Z, y, row = random.normal(size=(12, 4)), random.normal(size=(3, 4)), np.array([4, 0, 11])
    T = np.array([[1, 2, -1], [5, -1, -1], [0, 10, 3]])
    for known in (None, T):
        found = elastic_net._strongest(
            *map(torch.from_numpy, (y, Z, row)),
            None if known is None else torch.from_numpy(T),
            5,
            above,
        )
        for b in range(3):
            hidden = {row[b], *(() if known is None else T[b])}
            products = np.abs(Z @ y[b])
            others = [j for j in np.argsort(-products) if j not in hidden and products[j] > above]
            expected = (others + [-1] * 5)[:5]
            assert found[b].tolist() == expected


def test_samples_without_a_coefficient_leave_and_those_missing_join():
    T = torch.tensor([[7, 3, 5], [2, 8, -1]])
    c = torch.tensor([[0.5, 0.0, -0.25], [0.0, 1.0, 0.0]])
    missing = torch.tensor([[1, 9], [4, -1]])
    joined, codes = elastic_net._joined(T, c, missing)
    assert joined.tolist() == [[9, 7, 5, 1], [8, 4, -1, -1]]
    assert codes.tolist() == [[0.0, 0.5, -0.25, 0.0], [1.0, 0.0, 0.0, 0.0]]
    nothing = elastic_net._joined(T[:0], c[:0], missing[:0])
    assert nothing[0].shape == nothing[1].shape == (0, 0)


def test_few_samples_join_in_a_round(monkeypatch):
    """From two samples, two at a time: more rounds, and the same codes."""
    Z, r = torch.from_numpy(union(15)), 0.8
    whole = elastic_net_self_expression(Z, 50.0, r, tol=1e-9)
    monkeypatch.setattr(elastic_net, "START", 2)
    monkeypatch.setattr(elastic_net, "GROWTH", 2)
    slow = elastic_net_self_expression(Z, 50.0, r, tol=1e-9)
    assert slow.n_iter > whole.n_iter
    np.testing.assert_allclose(slow.coefficients.toarray(), whole.coefficients.toarray(), atol=1e-7)


def test_what_rounds_leave_is_the_largest_correlation_beyond_the_ratio():
    Z, r, alpha = union(30), 0.9, 300.0
    result = elastic_net_self_expression(torch.from_numpy(Z), alpha, r, max_iter=1)
    C = result.coefficients.toarray()
    u = np.abs(weights(Z, alpha, r)[:, None] * (Z - C @ Z) @ Z.T)
    np.fill_diagonal(u, 0.0)
    assert result.n_iter == 1
    assert result.residual == pytest.approx(np.where(C == 0, u, 0.0).max() / r - 1.0, rel=1e-6)
    assert not result.converged
    parts = elastic_net_self_expression(torch.from_numpy(Z), alpha, r, max_iter=1, block_rows=50)
    assert parts.residual == pytest.approx(result.residual, rel=1e-9)


def test_too_few_rounds_are_told():
    result = elastic_net_self_expression(torch.from_numpy(union()), 500.0, 0.9, max_iter=1)
    assert not result.converged
    assert result.residual > 1e-3


def test_orthogonal_and_zero_samples_have_no_code():
    C = elastic_net_self_expression(torch.eye(5).double()).coefficients
    assert C.nnz == 0
    Z = torch.from_numpy(union(10))
    Z[3] = 0.0
    C = elastic_net_self_expression(Z).coefficients
    assert C[[3]].nnz == C[:, [3]].nnz == 0
    assert np.isfinite(C.data).all()


@pytest.mark.parametrize("r", [0.0, 1.0, -0.1, float("nan")])
def test_a_bad_ratio_is_refused(r):
    with pytest.raises(InputError, match="l1_ratio must lie between 0 and 1"):
        elastic_net_self_expression(torch.eye(3), 2.0, r)
