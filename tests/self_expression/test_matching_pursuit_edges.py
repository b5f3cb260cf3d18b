"""Where a matching pursuit holds the Gram matrix, and where it ends."""

import math

import numpy as np
import pytest
import torch
from samples import normal, unit

from dcfsc.self_expression import matching_pursuit, orthogonal_matching_pursuit
from dcfsc.self_expression.matching_pursuit import use_gram


def test_the_gram_matrix_is_held_from_64_dimensions_up_to_one_gibibyte():
    assert use_gram(16_384, 64, 4)
    assert not use_gram(16_385, 64, 4)
    assert not use_gram(16_384, 63, 4)
    assert not use_gram(16_384, 64, 8)


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
    codes = [sorted(found.coefficients[[i]].indices.tolist()) for i in range(2)]
    assert [len(code) for code in codes] == [2, 1]
    assert found.n_iter == 2
    assert found.residual < 1e-6
    assert np.diff(orthogonal_matching_pursuit(normal(30, 12)).coefficients.indptr).tolist() == (
        [5] * 30
    )
    lengths = torch.linspace(1.0, 9.0, 30, dtype=torch.float64)[:, None]
    plain, long = (orthogonal_matching_pursuit(s * unit(30, 12)) for s in (1.0, lengths))
    np.testing.assert_allclose(long.coefficients.toarray(), plain.coefficients.toarray(), atol=1e-9)
