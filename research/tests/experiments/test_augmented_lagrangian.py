"""The authors' scheme of LRR against the published iteration, and against the optimum."""

import numpy as np
import pytest
import torch

from dcfsc.estimators import LRR
from dcfsc.self_expression import low_rank_representation
from research.experiments.augmented_lagrangian import AuthorsLRR, inexact_augmented_lagrangian


def union_of_subspaces(n, d, dims, noise=0.0):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    Z = torch.nn.functional.normalize(torch.cat([normal(n, m) @ normal(m, d) for m in dims]))
    return Z + noise * normal(*Z.shape)


def published_iteration(X, lam, steps):
    """The published iteration as it stands: samples in columns, the dictionary X itself."""
    n, mu = X.shape[1], 1e-6
    inverse = torch.linalg.inv(X.T @ X + torch.eye(n))
    Z, Y2, E, Y1 = X.new_zeros(n, n), X.new_zeros(n, n), torch.zeros_like(X), torch.zeros_like(X)
    for _ in range(steps):
        U, s, Vt = torch.linalg.svd(Z + Y2 / mu)
        J = U @ torch.diag((s - 1 / mu).clamp_min(0)) @ Vt
        Z = inverse @ (X.T @ (X - E) + J + (X.T @ Y1 - Y2) / mu)
        R = X - X @ Z + Y1 / mu
        length = R.norm(dim=0)
        E = R * ((length - lam / mu).clamp_min(0) / length)
        Y1 = Y1 + mu * (X - X @ Z - E)
        Y2 = Y2 + mu * (Z - J)
        mu = min(1e10, 1.1 * mu)
    return Z.T


def value(C, Z, lam):
    return float(torch.linalg.svdvals(C).sum() + lam * (Z - C @ Z).norm(dim=1).sum())


@pytest.mark.parametrize(("n", "d"), [(8, 6), (4, 20)])
def test_it_is_the_published_iteration_in_reduced_coordinates(n, d):
    Z = union_of_subspaces(n, d, [2, 2, 2], noise=0.1)
    found = inexact_augmented_lagrangian(Z, 0.3)
    assert found.converged
    assert found.residual <= 1e-8
    expected = published_iteration(Z.T, 0.3, found.n_iter)
    torch.testing.assert_close(found.coefficients, expected, atol=1e-6, rtol=0)


def test_it_is_near_the_optimum_on_unit_samples_and_not_on_long_ones():
    Z = union_of_subspaces(20, 30, [3, 3, 3], noise=0.05)
    best = low_rank_representation(Z, 0.18, gap=1e-6)
    near = inexact_augmented_lagrangian(Z, 0.18)
    assert value(near.coefficients, Z, 0.18) == pytest.approx(best.objective, rel=1e-3)
    far = inexact_augmented_lagrangian(255 * Z, 0.18 / 255)
    assert value(far.coefficients, Z, 0.18) > 1.1 * best.objective


def test_it_stops_where_the_tolerance_is_just_met_or_the_iterations_end():
    Z = union_of_subspaces(4, 6, [2, 2], noise=0.1)
    first = inexact_augmented_lagrangian(Z, 1.0, tol=1e-3)
    again = inexact_augmented_lagrangian(Z, 1.0, tol=first.residual)
    assert (again.n_iter, again.residual, again.converged) == (first.n_iter, first.residual, True)
    stopped = inexact_augmented_lagrangian(Z, 1.0, max_iter=3)
    assert (stopped.n_iter, stopped.converged) == (3, False)


def test_the_estimator_clusters_by_the_scheme():
    Z = union_of_subspaces(15, 20, [2, 3]).numpy()
    model = AuthorsLRR(2, lam=20.0, random_state=0).fit(Z)
    np.testing.assert_array_equal(model.labels_[:15], model.labels_[0])
    np.testing.assert_array_equal(model.labels_[15:], 1 - model.labels_[0])
    assert model.get_params() == LRR(2, lam=20.0, random_state=0).get_params()
