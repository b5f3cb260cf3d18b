"""Scores at their edges: written-out values and NumPy's eigenvalues."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

import dcfsc.metrics.representation as representation
from dcfsc.metrics import best_map, connectivity, subspace_preserving_error
from dcfsc.metrics.partition import _spare_names


def first_names(classes, count):
    return list(islice(_spare_names(np.array(classes)), count))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_spare_names_as_asked_for_and_none_taken(count):
    numbers = [9 + i for i in range(count)]
    assert first_names([3, 8], count) == numbers
    assert first_names([2.5, 8.5], count) == numbers
    texts = ["unmatched 1", "unmatched 3", "unmatched 4"][:count]
    assert first_names(["a", "unmatched 2"], count) == texts
    texts = [f"unmatched {1 + i}" for i in range(count)]
    assert first_names(["a", "unmatched 9"], count) == texts


def test_clusters_without_a_class_keep_apart_from_a_class_of_their_name():
    y_true = ["unmatched 1"] * 4 + ["b"] * 3
    y_pred = [0, 0, 0, 5, 1, 1, 7]
    expected = ["unmatched 1"] * 3 + ["unmatched 2", "b", "b", "unmatched 3"]
    assert best_map(y_true, y_pred).tolist() == expected


def test_names_stay_as_they_are_where_every_cluster_has_a_class():
    assert best_map(["a", "a", "b", "c", "c"], [4, 4, 2, 2, 2]).tolist() == list("aaccc")
    assert best_map([1, 1, 2, 3], [0, 0, 9, 4]).tolist() == [1, 1, 2, 3]


@pytest.mark.parametrize("seed", [0, 191, 323, 582])
@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_coefficients_all_outside_are_a_hundred_percent_and_not_more(seed, as_matrix):
    """The sums of a row's part and of the whole row are rounded each in its own way."""
    C = np.random.default_rng(seed).normal(size=(5, 5))
    value = subspace_preserving_error(as_matrix(C), np.arange(5))
    assert value <= 100.0
    assert value == pytest.approx(100.0, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_lanczos_for_classes_of_any_scale_and_uneven_degrees(scale, spread, monkeypatch):
    monkeypatch.setattr(representation, "DENSE_CLASS", 10)
    monkeypatch.setattr(representation.scipy.linalg, "eigh", None)  # no factorization
    rng = np.random.default_rng(2)
    A = rng.uniform(0.5, 1.5, (40, 40))
    u = np.geomspace(1.0, spread, 40)
    A = scale * (A + A.T) * u[:, None] * u
    np.fill_diagonal(A, 0.0)
    d = A.sum(1)
    expected = 1.0 - np.linalg.eigvalsh(A / np.sqrt(np.outer(d, d)))[-2]
    y = np.zeros(40)
    assert connectivity(A, y).minimum == pytest.approx(expected, abs=1e-10)
    assert connectivity(sp.csr_array(A), y).minimum == pytest.approx(expected, abs=1e-10)
