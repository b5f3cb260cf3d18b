"""The nearest doubly stochastic matrix against a general solver, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dcfsc.affinity import DoublyStochastic, NearestDoublyStochastic
from dcfsc.affinity.doubly_stochastic import _thresholds
from dcfsc.errors import InputError
from dcfsc.self_expression import ExplicitCoefficients, SparseCoefficients, joint_affinity


def coefficients(n, seed=0, density=1.0):
    random = np.random.default_rng(seed)
    C = random.normal(size=(n, n)) * (random.random((n, n)) < density)
    np.fill_diagonal(C, 0.0)
    return C


def by_a_general_solver(K, eta):
    """argmin |K - eta A|^2 over doubly stochastic A, by sequential quadratic programming."""
    n = len(K)

    def sums(x):
        A = x.reshape(n, n)
        return np.concatenate([A.sum(axis=0), A.sum(axis=1)[:-1]]) - 1.0

    return minimize(
        lambda x: 0.5 * np.square(K - eta * x.reshape(n, n)).sum(),
        np.full(n * n, 1.0 / n),
        jac=lambda x: -eta * (K - eta * x.reshape(n, n)).ravel(),
        bounds=[(0.0, None)] * (n * n),
        constraints=[{"type": "eq", "fun": sums}],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    ).x.reshape(n, n)


@pytest.mark.parametrize(("n", "eta"), [(5, 0.3), (6, 0.05), (6, 3.0)])
def test_it_is_the_nearest(n, eta):
    C = coefficients(n)
    A = NearestDoublyStochastic(1e-12)(ExplicitCoefficients(torch.from_numpy(C)), eta).toarray()
    np.testing.assert_allclose(A, by_a_general_solver(np.abs(C), eta), atol=1e-7)


@pytest.mark.parametrize("eta", [0.01, 0.1, 2.0])
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_many_samples_meet_the_optimality_conditions(eta, density):
    """A = (K - a 1' - 1 b')_+ / eta for some a, b, over all entries, and sums of one."""
    C = coefficients(150, density=density)
    project = NearestDoublyStochastic(1e-8)
    A = project(ExplicitCoefficients(torch.from_numpy(C)), eta).toarray()
    a, b = project._dual
    expected = np.maximum(np.abs(C) - a[:, None] - b[None, :], 0.0) / eta
    np.testing.assert_allclose(A, expected, atol=1e-7)
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-7)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-7)
    again = project(ExplicitCoefficients(torch.from_numpy(C)), eta).toarray()
    np.testing.assert_allclose(again, A, atol=1e-6)


def test_sparse_and_dense_coefficients_give_the_same():
    C = coefficients(80, density=0.1)
    dense = DoublyStochastic()(ExplicitCoefficients(torch.from_numpy(C)), 3)
    sparse = DoublyStochastic()(SparseCoefficients(sp.csr_array(C)), 3)
    np.testing.assert_allclose(sparse.toarray(), dense.toarray(), atol=1e-5)
    assert abs(dense - dense.T).max() < 1e-12
    assert dense.min() >= 0
    assert dense.diagonal().max() == 0.0


def test_the_scale_of_the_coefficients_does_not_matter_unless_asked():
    C = torch.from_numpy(coefficients(40))
    one, other = (DoublyStochastic()(ExplicitCoefficients(s * C), 3).toarray() for s in (1.0, 9.0))
    np.testing.assert_allclose(one, other, atol=1e-5)
    absolute = DoublyStochastic(0.1, relative=False)
    two = absolute(ExplicitCoefficients(9.0 * C), 3).toarray()
    assert np.abs(two - absolute(ExplicitCoefficients(C), 3).toarray()).max() > 0.1


def test_thresholds_leave_each_row_a_sum_of_eta():
    random = np.random.default_rng(0)
    row = np.repeat(np.arange(7), random.integers(1, 9, size=7))
    v = random.normal(size=len(row))
    t = _thresholds(row, v, 0.4, 7)
    np.testing.assert_allclose(np.bincount(row, np.maximum(v - t[row], 0.0)), 0.4, atol=1e-12)


def test_what_does_not_converge_is_said(monkeypatch):
    monkeypatch.setattr("dcfsc.affinity.doubly_stochastic.STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="raise eta"):
        DoublyStochastic(0.001)(ExplicitCoefficients(torch.from_numpy(coefficients(60))), 3)


@pytest.mark.parametrize("options", [{"eta": 0.0}, {"eta": -1.0}, {"tol": 0.0}])
def test_bad_parameters_are_refused(options):
    with pytest.raises(InputError, match="must be a positive number"):
        DoublyStochastic(**options)


@pytest.mark.parametrize("weights", [(1.0, 0.3, 0.0), (0.3, 0.2, 0.05)])
def test_the_joint_problem_ends_at_its_minimum(weights):
    """Against sequential quadratic programming over P, Q and A together."""
    e1, e2, e3 = weights
    random = np.random.default_rng(0)
    n = 5
    Z = random.normal(size=(n, 3))
    off = ~np.eye(n, dtype=bool)
    m = off.sum()

    def parts(x):
        P, Q = np.zeros((2, n, n))
        P[off], Q[off] = x[:m], x[m : 2 * m]
        return P, Q, x[2 * m :].reshape(n, n)

    def objective(P, Q, A):
        W = P + Q
        fit = np.square(Z - (P - Q) @ Z).sum()
        return 0.5 * fit + 0.5 * e1 * np.square(W - e2 * A).sum() + e3 * W.sum()

    def gradient(x):
        P, Q, A = parts(x)
        R, D = ((P - Q) @ Z - Z) @ Z.T, e1 * (P + Q - e2 * A)
        return np.concatenate([(R + D + e3)[off], (D - R + e3)[off], -e2 * D.ravel()])

    def sums(x):
        A = parts(x)[2]
        return np.concatenate([A.sum(axis=0), A.sum(axis=1)[:-1]]) - 1.0

    best = minimize(
        lambda x: objective(*parts(x)),
        np.concatenate([np.zeros(2 * m), np.full(n * n, 1.0 / n)]),
        jac=gradient,
        bounds=[(0.0, None)] * (2 * m + n * n),
        constraints=[{"type": "eq", "fun": sums}],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    project = NearestDoublyStochastic(1e-12)
    found = joint_affinity(torch.from_numpy(Z), e1, e2, e3, project, tol=1e-9, max_iter=20000)
    assert found.converged
    C, W = found.expression.numpy(), found.magnitudes.numpy()
    A = found.coefficients.toarray()
    value = objective(0.5 * (W + C), 0.5 * (W - C), A)
    assert value == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(A, parts(best.x)[2], atol=1e-5)
    assert (np.abs(C) - 1e-12 <= W).all()
