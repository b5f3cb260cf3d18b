"""The inverted file: exact when it probes everything, honest about what it misses when not."""

import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.neighbors.approximate import (
    approximately_largest_inner_products,
    recall,
)
from dcfsc.neighbors.exact import largest_inner_products
from dcfsc.self_expression import solve


def points(n=1200, seed=0):
    data = synthetic(n, 4, 3, 20, noise=0.05, random_state=seed)
    return torch.from_numpy(data.X), data.y


@pytest.mark.parametrize("n_cells", [1, 7, 40])
def test_probing_every_cell_is_exact(n_cells):
    Y, _ = points()
    values, indices = approximately_largest_inner_products(Y, 5, n_cells=n_cells, n_probe=n_cells)
    exact, expected = largest_inner_products(Y, Y, 5, diagonal=0)
    torch.testing.assert_close(values.abs(), exact.abs())
    assert torch.equal(indices.sort(1).values, expected.sort(1).values)
    assert recall(Y, values) == 1.0


def test_recall_is_the_share_of_exact_neighbors():
    Y, _ = points()
    values, indices = approximately_largest_inner_products(Y, 5, n_cells=60, n_probe=2)
    expected = largest_inner_products(Y, Y, 5, diagonal=0)[1]
    found = (indices[:, :, None] == expected[:, None, :]).any(2).double().mean()
    assert recall(Y, values, rows=len(Y)) == pytest.approx(float(found), abs=2e-3)
    assert found < 1.0
    more = approximately_largest_inner_products(Y, 5, n_cells=60, n_probe=12)[0]
    assert recall(Y, more) > recall(Y, values)


def test_opposite_directions_share_a_cell():
    """|y . c| does not see a sign, so flipping half of the points changes no neighbor."""
    Y, _ = points()
    flipped = Y.clone()
    flipped[::2] *= -1.0
    one = approximately_largest_inner_products(Y, 4, n_cells=30, n_probe=3)
    other = approximately_largest_inner_products(flipped, 4, n_cells=30, n_probe=3)
    torch.testing.assert_close(one[0].abs(), other[0].abs())


@pytest.mark.parametrize("n_probe", [1, 3])
def test_every_point_gets_k_others_even_from_tiny_cells(n_probe):
    Y, _ = points(300)
    Y[:40] = 0.0
    Y[40:60] = Y[40]
    values, indices = approximately_largest_inner_products(Y, 9, n_cells=150, n_probe=n_probe)
    assert (indices != torch.arange(300)[:, None]).all()
    assert (indices.sort(1).values.diff(dim=1) > 0).all()
    torch.testing.assert_close(values, (Y[:, None, :] * Y[indices]).sum(2), atol=1e-6, rtol=1e-5)


def test_seeds_repeat_and_global_state_is_left_alone():
    Y, _ = points(500)
    before = torch.get_rng_state()
    one = approximately_largest_inner_products(Y, 3, n_probe=2, seed=5)
    again = approximately_largest_inner_products(Y, 3, n_probe=2, seed=5)
    assert torch.equal(one[1], again[1])
    assert torch.equal(torch.get_rng_state(), before)


def test_an_operator_says_what_its_search_missed(caplog):
    Z, _ = points()
    operator = solve(Z, 1.0)
    assert operator.recall is None
    with caplog.at_level("INFO", logger="dcfsc"):
        values, indices = operator.approximate_topk(4)
    torch.testing.assert_close(values, operator.dense().gather(1, indices))
    assert operator.recall == pytest.approx(
        recall(operator.Y, values * operator.complement[:, None].float())
    )
    assert f"recall {operator.recall:.4f}" in caplog.text


def test_an_estimator_searches_approximately_only_when_asked():
    Z, y = points(2000)
    model = ClosedFormSubspaceClustering(
        4, subspace_dim=3, affinity=TopK(search="approximate"), random_state=0
    ).fit(Z.numpy())
    assert clustering_error(y, model.labels_) < 1.0
    assert 0.8 < model.coefficients_.recall <= 1.0
    plain = ClosedFormSubspaceClustering(4, subspace_dim=3, random_state=0).fit(Z.numpy())
    assert plain.coefficients_.recall is None


def test_what_cannot_be_searched_is_said():
    Z, _ = points(30)
    with pytest.raises(InputError, match="form='features'"):
        TopK(search="approximate")(solve(Z, 1.0, form="samples"), 4)
    with pytest.raises(InputError, match="search='exact'"):
        TopK(search="approximate")(solve(Z, 1.0, form="samples"), 3)
    with pytest.raises(InputError, match="unknown search"):
        TopK(search="aproximate")
    for options in ({"n_cells": 0}, {"n_cells": 31}, {"n_probe": 0}):
        with pytest.raises(InputError, match="n_cells"):
            approximately_largest_inner_products(Z, 2, **options)
