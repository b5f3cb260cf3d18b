"""Low rank at the edge of round-off, and what a gap and a price are shares of."""

import math

import pytest
import torch
from samples import normal

from dcfsc.self_expression import low_rank_representation, low_rank_subspace
from dcfsc.self_expression.low_rank import shrink_singular_values

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("scale", [1.0, 2.0**-20, 2.0**20])
@pytest.mark.parametrize(("units", "rank"), [(6, 3), (8, 3), (10, 4)])
def test_singular_values_count_above_eight_units_for_eight_samples(scale, units, rank):
    """max(N, d) = 8 units of round-off of the largest."""
    Z = torch.zeros(8, 4, dtype=torch.float64)
    Z.diagonal().copy_(torch.tensor([1.0, 0.5, 0.25, units * EPS]))
    for X in (Z, Z.T.contiguous()):  # the trace of a projector
        C = low_rank_representation(scale * X, math.inf).coefficients
        assert float(C.trace()) == pytest.approx(rank)


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


@pytest.mark.parametrize("norm", ["l21", "l1"])
def test_a_gap_is_a_share_of_the_objective(norm):
    """Zero is a bound of every objective, so a gap is one at most, however large the objective."""
    found = low_rank_representation(10 * normal(12, 5), 1.0, norm=norm, max_iter=1)
    assert found.objective > 10
    assert 0.1 < found.residual <= 1.0
