"""The elastic net with few samples, few rounds and few steps of Newton."""

import math

import numpy as np
import pytest
import torch
from samples import unit

from dcfsc.self_expression import elastic_net, elastic_net_self_expression


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
