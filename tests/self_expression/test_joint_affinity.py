"""Coefficients and a doubly stochastic affinity together, against a general solver."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from samples import normal
from scipy.optimize import minimize

from dcfsc.affinity import NearestDoublyStochastic
from dcfsc.errors import InputError
from dcfsc.self_expression import ExplicitCoefficients, joint_affinity


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


def joint(Z, e1=1.0, e2=0.3, e3=0.1, **options):
    return joint_affinity(torch.from_numpy(Z), e1, e2, e3, NearestDoublyStochastic(1e-9), **options)


def samples(n=7, d=3, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_one_step_is_a_projected_gradient_from_zero():
    """There W = 0, so that A is the identity and the gradient is e1 (W - e2 A) + e3 -+ Z Z'."""
    Z = samples()
    found = joint(Z, max_iter=1)
    rate = 1.0 / (2.0 * np.linalg.norm(Z, 2) ** 2 + 2.0)
    A = NearestDoublyStochastic(1e-9)
    zero = torch.zeros(7, 7, dtype=torch.float64)
    common = -0.3 * A(ExplicitCoefficients(zero), 0.3).toarray() + 0.1
    P, Q = (np.maximum(-rate * (common + sign * Z @ Z.T), 0.0) for sign in (-1.0, 1.0))
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(Q, 0.0)
    np.testing.assert_allclose(found.expression, P - Q, atol=1e-9)
    np.testing.assert_allclose(found.magnitudes, P + Q, atol=1e-9)
    assert (found.n_iter, found.converged) == (1, False)
    assert found.residual == pytest.approx(1.0)


def test_momentum_is_that_of_nesterov():
    """The second and third steps, written out; the first has none."""
    Z, project = samples(), NearestDoublyStochastic(1e-10)
    rate = 1.0 / (2.0 * np.linalg.norm(Z, 2) ** 2 + 2.0)
    V = ahead = np.zeros((2, 7, 7))
    momentum = 1.0
    for number in range(1, 4):
        W = ahead[0] + ahead[1]
        A = project(ExplicitCoefficients(torch.from_numpy(W)), 0.3).toarray()
        fit, common = ((ahead[0] - ahead[1]) @ Z - Z) @ Z.T, W - 0.3 * A + 0.1
        new = np.maximum(ahead - rate * np.stack([common + fit, common - fit]), 0.0)
        new[:, np.arange(7), np.arange(7)] = 0.0
        change = new - V
        if ((ahead - new) * change).sum() > 0:
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = new + (momentum - 1.0) / following * change
        V, momentum = new, following
        found = joint(Z, max_iter=number)
        np.testing.assert_allclose(found.expression, V[0] - V[1], atol=1e-7)
        assert found.residual == pytest.approx(np.linalg.norm(change) / np.linalg.norm(V), rel=1e-4)


def joins_nothing(operator, _):
    """In place of a projection."""
    return sp.eye_array(operator.n, format="csr")


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
    found = joint_affinity(
        torch.from_numpy(Z), eta1, eta2, eta3, joins_nothing, tol=1e-300, max_iter=25
    )
    np.testing.assert_allclose(found.expression.numpy(), V[0] - V[1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.magnitudes.numpy(), V[0] + V[1], rtol=0, atol=1e-10)


def test_it_stops_within_the_tolerance():
    found = joint(samples(), tol=1e-3)
    assert found.converged
    assert found.residual <= 1e-3
    assert 1 < found.n_iter < 1000
    assert not joint(samples(), tol=1e-3, max_iter=found.n_iter - 1).converged
    assert joint(samples()).n_iter > found.n_iter  # the tolerance is a tenth unless said
    assert not found.expression.diagonal().any()
    assert (found.magnitudes >= found.expression.abs() - 1e-12).all()
    np.testing.assert_allclose(found.coefficients.sum(axis=1), 1.0, atol=1e-6)


def test_samples_of_zero_have_no_coefficients():
    found = joint(np.zeros((4, 2)))
    assert not found.magnitudes.any()
    assert found.converged


@pytest.mark.parametrize(
    "options", [{"e1": 0.0}, {"e2": -1.0}, {"e3": -0.1}, {"tol": 0.0}, {"max_iter": 0}]
)
def test_bad_parameters_are_refused(options):
    with pytest.raises(InputError):
        joint(samples(), **options)
    with pytest.raises(InputError):
        joint(samples() * np.nan)
