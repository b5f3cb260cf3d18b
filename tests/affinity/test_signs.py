"""Whether samples on opposite sides of the origin are neighbors."""

import numpy as np
import pytest
import torch

from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.self_expression import solve


def cone(n=60, seed=0):
    """Samples on one side of the origin, but for a few that are turned round."""
    random = torch.Generator().manual_seed(seed)
    Z = torch.rand(n, 8, dtype=torch.float64, generator=random) + 0.2
    Z[:3] = -Z[10:13]
    return Z


def plane(n=80, seed=0):
    """Two planes through the origin: every direction as often as its opposite."""
    random = torch.Generator().manual_seed(seed)
    Z = torch.zeros(n, 6, dtype=torch.float64)
    Z[: n // 2, :2] = torch.randn(n // 2, 2, dtype=torch.float64, generator=random)
    Z[n // 2 :, 3:5] = torch.randn(n // 2, 2, dtype=torch.float64, generator=random)
    return Z


def cosines(operator):
    """The signed cosines of the whitened samples, (N, N)."""
    H = operator.dense().double() * (1.0 - operator.leverage)[:, None]
    length = operator.leverage.sqrt()
    return (H / length[:, None] / length).numpy()


@pytest.mark.parametrize("form", ["features", "samples"])
def test_few_opposites_are_left_out(form):
    operator = solve(cone(), 0.1, form=form)
    A = TopK(grow=False)(operator, 2).toarray()
    C = cosines(operator)
    linked = A > 0
    # The three that were turned round have each other, or nobody but their opposites.
    assert not linked[3:, 3:][C[3:, 3:] < 0].any()
    assert (TopK(grow=False, signs="both")(operator, 2).toarray() > 0)[C < 0].any()


def test_subspaces_through_the_origin_keep_both_signs():
    operator = solve(plane(), 0.1)
    auto = TopK(grow=False)(operator, 2).toarray()
    np.testing.assert_array_equal(auto, TopK(grow=False, signs="both")(operator, 2).toarray())
    assert (auto > 0)[cosines(operator) < 0].any()


def test_positive_is_the_positive_part_of_the_nearest():
    operator = solve(plane(), 0.1)
    A = TopK(grow=False, signs="positive")(operator, 2).toarray()
    assert not (A > 0)[cosines(operator) < -1e-12].any()


def test_a_sample_with_opposites_alone_is_not_cut_off():
    Z = torch.eye(4, dtype=torch.float64).repeat(6, 1) + 0.01 * torch.rand(
        24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    Z[0] = -Z[0]
    A = TopK(k=2, grow=False, signs="positive")(solve(Z, 0.1), 4).toarray()
    assert A[0].sum() > 0


def test_unknown_signs_are_refused():
    with pytest.raises(InputError, match="signs"):
        TopK(signs="negative")
