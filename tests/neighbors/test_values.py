"""Neighbors value by value: dense formulas, the edges of k and N, and which scan is taken."""

import numpy as np
import pytest
import torch

from dcfsc.errors import InputError
from dcfsc.neighbors import (
    exact,
    half_filter,
    larger_of_both,
    scan_among,
    sharded,
    unit_rows,
)
from dcfsc.neighbors.approximate import (
    _centers,
    _lengthen,
    _probes,
    approximately_largest_inner_products,
    default_cells,
)
from dcfsc.neighbors.exact import largest_inner_products
from dcfsc.neighbors.half_filter import HalfFilter


def rows(n, d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def dense(Q, Y, k, diagonal=None):
    """The k largest |q . y| of each row, by a loop."""
    products = Q.numpy() @ Y.numpy().T
    values, indices = [], []
    for i, row in enumerate(products):
        order = [j for j in np.argsort(-np.abs(row)) if diagonal is None or j != i + diagonal]
        indices.append(order[:k])
        values.append(row[order[:k]])
    return np.array(values), np.array(indices)


@pytest.mark.parametrize("scan", ["direct", "plain", "half"])
@pytest.mark.parametrize("N", [2, 3, 9, 33])
def test_as_many_neighbors_as_there_are_others(scan, N):
    """k at, and beyond, the number of columns; fewer columns than a group holds."""
    Y = rows(N, 5)
    for k in (N - 1, N, N + 3):
        for diagonal, most in ((0, N - 1), (None, N)):
            found = largest_inner_products(Y, Y, k, diagonal=diagonal, scan=scan)
            values, indices = dense(Y, Y, min(k, most), diagonal)
            np.testing.assert_allclose(found[0].numpy(), values, rtol=1e-10, atol=1e-12)
            np.testing.assert_array_equal(found[1].numpy(), indices)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scan", ["direct", "plain", "half"])
@pytest.mark.parametrize("least", [1, 2048])
def test_a_row_that_fills_no_tile_and_one_that_fills_several(monkeypatch, scan, least):
    monkeypatch.setattr(exact, "_TILE_BYTES", {"cpu": least})
    monkeypatch.setattr(exact, "_GATHER_BYTES", {"cpu": least})
    monkeypatch.setattr(half_filter, "_CHUNK_ROWS", 50)
    Y = rows(190, 4)
    Q = Y[:40]
    found = largest_inner_products(Q, Y, 3, diagonal=0, group=8, scan=scan)
    values, indices = dense(Q, Y, 3, 0)
    np.testing.assert_allclose(found[0].numpy(), values, rtol=1e-10)
    np.testing.assert_array_equal(found[1].numpy(), indices)


def test_a_cpu_ranks_few_columns_directly_and_many_by_groups(monkeypatch):
    taken = []
    for name in ("_direct", "_plain", "_filtered"):
        monkeypatch.setattr(exact, name, lambda *_, name=name: taken.append(name))
    monkeypatch.setattr(exact, "_MOST_DIRECT", 20)
    for N in (19, 20, 21):
        largest_inner_products(rows(4, 3), rows(N, 3), 2)
    largest_inner_products(rows(4, 3), rows(19, 3), 2, group=4)  # groups are the plain scan's
    assert taken == ["_direct", "_direct", "_plain", "_plain"]


@pytest.mark.parametrize("d", [1, 3, 64, 300])
def test_the_error_of_the_filter_is_the_documented_bound(d):
    half = HalfFilter(torch.ones(10, d))
    norms = np.array([0.0, 0.25, 1.0])
    least = 2 * 2.0**-11 * norms + 2 * d**0.5 * 2.0**-25 + d * 2.0**-24 * norms
    stated = (2.01 * 2.0**-11 + (d + 16) * 2.0**-21) * norms + 2.01 * d**0.5 * 2.0**-25
    error = half._error(torch.from_numpy(norms)).numpy()
    assert (error >= least).all()
    np.testing.assert_allclose(error, stated, rtol=1e-12)


def test_a_proof_leaves_room_for_rounding():
    d, unit = 64, 2.0**-24
    half = HalfFilter(3.0 * torch.eye(d))
    q = torch.zeros(4, d)
    q[:, 0] = 2.0
    smallest = torch.full((4,), 0.5 * 2.0 * 3.0)  # a cosine of one half
    rest = 0.5 - torch.tensor([0.0, (d + 4) * unit, (d + 12) * unit, 0.4])
    assert half.proves(q, smallest, rest).tolist() == [False, False, True, True]


def test_a_zero_row_is_proven_and_a_unit_row_is_not_for_being_one():
    half = HalfFilter(torch.eye(4))
    q = torch.stack([torch.zeros(4), torch.eye(4)[0]])
    assert half.proves(q, torch.zeros(2), torch.ones(2)).tolist() == [True, False]


def test_the_bounds_of_a_block_of_rows_fit_their_memory():
    half = HalfFilter(torch.ones(3, 2))
    for n_groups, expected in ((3, 8192), (1 << 16, 1024), (50_000, 1280), (1 << 24, 128)):
        half.n_groups = n_groups
        assert half.block_rows == expected


def test_padded_widths():
    widths = {1: 16, 16: 16, 17: 32, 64: 64, 65: 128, 128: 128, 129: 192, 192: 192, 300: 320}
    assert {d: half_filter._padded(d) for d in widths} == widths


def test_a_kernel_that_cannot_be_built_is_left_and_a_full_device_is_said(monkeypatch, caplog):
    monkeypatch.setattr(half_filter, "_failed", [])
    for kind in half_filter._OF_THE_DEVICE:
        error = kind.__new__(kind)
        with pytest.raises(kind):
            half_filter._kernel_failed(error)
    assert half_filter._failed == []
    half_filter._kernel_failed(RuntimeError("no compiler"))
    assert half_filter._failed == ["no compiler"]
    assert "no compiler" in caplog.text
    assert half_filter._kernels() is None


def test_cells_without_points_keep_their_centers():
    Y = rows(3, 4).repeat(20, 1)
    centers = _centers(Y, 8, 0)
    np.testing.assert_allclose(centers.norm(dim=1).numpy(), np.ones(8), rtol=1e-12)
    # Every center is one of the three directions, up to sign.
    cosines = (centers @ unit_rows(Y[:3]).T).abs().amax(1)
    np.testing.assert_allclose(cosines.numpy(), np.ones(8), rtol=1e-12)


@pytest.mark.parametrize(("n_cells", "n_probe"), [(1, 1), (3, 3), (6, 1), (6, 2), (24, 1)])
def test_an_approximate_search_finds_all_others_where_k_asks_for_them(n_cells, n_probe):
    Y = rows(24, 3)
    for k in (22, 23, 24, 40):
        found = approximately_largest_inner_products(Y, k, n_cells=n_cells, n_probe=n_probe)
        values, indices = dense(Y, Y, min(k, 23), 0)
        if k >= 23:
            np.testing.assert_allclose(found[0].numpy(), values, rtol=1e-10, atol=1e-12)
            np.testing.assert_array_equal(found[1].numpy(), indices)
        assert found[0].shape == found[1].shape == (24, min(k, 23))


def test_the_least_and_the_most_cells():
    Y = rows(12, 3)
    for options in ({"n_cells": 1}, {"n_cells": 12}, {"n_probe": 1}):
        assert approximately_largest_inner_products(Y, 2, **options)[0].shape == (12, 2)
    for options in ({"n_cells": 0}, {"n_cells": 13}, {"n_probe": 0}):
        with pytest.raises(InputError, match="1 to 12 cells"):
            approximately_largest_inner_products(Y, 2, **options)
    cells = {1: 1, 7: 1, 16: 2, 255: 31, 256: 32, 257: 32, 10_000: 200, 1_000_000: 2000}
    assert {n: default_cells(n) for n in cells} == cells


def test_a_cell_probes_itself_and_what_its_points_name_most():
    nearest = torch.tensor([[0, 2], [0, 2], [0, 1], [2, 1], [2, 1], [2, 0], [2, 3], [3, 0]])
    assert _probes(nearest, 4, 1) == [[0], [], [2], [3]]
    assert _probes(nearest, 4, 2) == [[0, 2], [], [2, 1], [3, 0]]
    assert _probes(nearest, 4, 3) == [[0, 2, 1], [], [2, 1, 0], [3, 0]]
    assert _probes(nearest, 4, 4) == [[0, 1, 2, 3], [1, 0, 2, 3], [2, 0, 1, 3], [3, 0, 1, 2]]


def test_probes_with_too_few_points_take_the_nearest_cells_too():
    angle = torch.tensor([0.0, 0.1, 0.3, 0.7])
    centers = torch.stack([angle.cos(), angle.sin()], 1)
    probes = [[0], [1], [2, 3], [3]]
    _lengthen(probes, centers, torch.tensor([2, 1, 3, 0]), 3)
    assert probes == [[0, 1], [1, 0], [2, 3], [3]]


def test_unit_rows_of_any_size():
    size = np.array([[1.0], [1e-200], [1e200], [0.0], [-3.0]])
    Z = rows(5, 3) * torch.from_numpy(size)
    scaled = Z.numpy() / np.where(size == 0, 1.0, np.abs(size))
    norm = np.linalg.norm(scaled, axis=1, keepdims=True)
    expected = scaled / np.where(norm > 0, norm, 1.0)
    np.testing.assert_allclose(unit_rows(Z).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 4, 10, 11, 15])
@pytest.mark.parametrize("diagonal", [None, 0])
@pytest.mark.parametrize("repeated", [False, True])
def test_the_larger_value_of_every_column_counts_once(k, diagonal, repeated):
    Q = rows(11, 4)
    ways = [Q, Q if repeated else rows(11, 4, seed=1)]
    largest = np.max([np.abs(Q.numpy() @ Y.numpy().T) for Y in ways], axis=0)
    if diagonal is not None:
        np.fill_diagonal(largest, -1.0)
    order = np.argsort(-largest, axis=1)[:, : min(k, 11 - (diagonal is not None))]
    lists = [largest_inner_products(Q, Y, k, diagonal=diagonal) for Y in ways]
    values, indices = larger_of_both(*lists)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_allclose(values.numpy(), np.take_along_axis(largest, order, 1), rtol=1e-10)


def test_zero_rows_have_distinct_neighbors_in_both_lists():
    Q = rows(6, 3)
    Q[2] = 0.0
    values, indices = larger_of_both(
        *(largest_inner_products(Q, Y, 5, diagonal=0) for Y in (Q, 0.0 * Q))
    )
    assert (values[2] == 0.0).all()
    for i, columns in enumerate(indices.tolist()):
        assert sorted(columns) == [j for j in range(6) if j != i]


def test_samples_among_themselves_are_looked_for_in_all_processes(monkeypatch):
    asked = []

    def of_all(Q, Y, k):
        asked.append(k)
        return largest_inner_products(Q, Y, k, diagonal=0)

    monkeypatch.setattr(sharded, "largest_inner_products_of_all", of_all)
    Q = rows(6, 3)
    alone = scan_among(Q, -Q, 2)
    assert asked == []
    monkeypatch.setattr(sharded.processes, "active", lambda: True)
    assert all(map(torch.equal, scan_among(Q, -Q, 2), alone))
    assert asked == [2]


def test_merging_keeps_the_larger_of_a_repeated_column():
    one = torch.tensor([[0.9, -0.7, 0.6]]), torch.tensor([[4, 2, 8]])
    other = torch.tensor([[-0.8, 0.5, 0.1]]), torch.tensor([[4, 2, 1]])
    values, columns = larger_of_both(one, other)
    assert values[0].tolist() == pytest.approx([0.9, 0.7, 0.6])
    assert columns.tolist() == [[4, 2, 8]]
