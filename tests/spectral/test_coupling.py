"""Halves of clusters and the coupling of groups, against sums that are written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from dcfsc import spectral


def affinity(groups: np.ndarray, between: np.ndarray, seed: int = 0) -> np.ndarray:
    """A symmetric affinity with a diagonal; its blocks are as strong as ``between`` says."""
    A = np.random.default_rng(seed).uniform(0.5, 1.0, (len(groups), len(groups)))
    A = A * between[np.ix_(groups, groups)]
    return A + A.T


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_coupling_is_the_share_of_the_group_with_less(kind) -> None:
    rng = np.random.default_rng(1)
    labels, half = rng.integers(0, 3, 40), rng.integers(0, 2, 40).astype(np.uint8)
    half[labels == 2] = 0
    A = 1e-6 * affinity(labels, rng.uniform(0.1, 1, (3, 3)))  # of any unit
    found = spectral.coupling(kind(A), labels, half, 3)
    np.fill_diagonal(A, 0.0)

    def share(a: np.ndarray, b: np.ndarray) -> float:
        between = A[np.ix_(a, b)].sum()
        return between / (min(A[np.ix_(a, a)].sum(), A[np.ix_(b, b)].sum()) + between)

    for i in range(3):
        for j in range(3):
            a, b = labels == i, labels == j
            if i == j:
                a, b = a & (half == 0), a & (half == 1)
            expected = 1.0 if i == j == 2 else share(a, b)
            assert found[i, j] == pytest.approx(expected, rel=1e-5)


def test_halves_are_where_the_graph_is_thin() -> None:
    groups = np.arange(90) % 3
    between = np.array([[1.0, 0.02, 0.0], [0.02, 1.0, 0.0], [0.0, 0.0, 1.0]])
    groups[:9] = 0  # the first group is the larger one
    A = affinity(groups, between)
    labels = np.where(groups == 2, 1, 0)
    half = spectral.halves(spectral.embed(A, 4, random_state=0), labels, 2)
    assert np.array_equal(half[labels == 0], groups[labels == 0])
    found = spectral.coupling(A, labels, half, 2)
    assert found[0, 0] < 0.1 < 0.3 < found[1, 1]
    assert found[0, 1] == 0.0


def test_a_cluster_of_two_samples_has_one_part() -> None:
    A = affinity(np.array([0, 0, 1, 1, 1, 1]), np.eye(2))
    labels = np.array([0, 0, 1, 1, 1, 1])
    half = spectral.halves(spectral.embed(A, 2, random_state=0), labels, 3)
    assert half[:2].tolist() == [0, 0]
    found = spectral.coupling(A, labels, half, 3)
    assert np.diag(found)[[0, 2]].tolist() == [1.0, 1.0]
    assert found[:2, 2].tolist() == found[2, :2].tolist() == [0.0, 0.0]  # the third has no samples


def embedded(angles: np.ndarray) -> spectral.Embedding:
    """An embedding with rows of unit length at these angles."""
    E = spectral.embed(np.ones((len(angles), len(angles))), 2)
    return replace(E, vectors=np.stack([np.cos(angles), np.sin(angles)], axis=1))


def test_three_samples_may_have_two_parts_and_two_have_not() -> None:
    angles, labels = np.array([0.0, 1.0, 0.0, 0.1, 1.0]), np.array([0, 0, 1, 1, 1])
    half = spectral.halves(embedded(angles), labels, 2)
    assert half.tolist() == [0, 0, 0, 0, 1]


def test_the_first_part_is_the_larger_one_whichever_is_found_first() -> None:
    random = np.random.default_rng(0)
    second = np.concatenate([random.permutation([0, 0, 0, 1, 1]) for _ in range(20)])
    half = spectral.halves(embedded(1.5 * second), np.repeat(np.arange(20), 5), 20)
    np.testing.assert_array_equal(half, second)


def test_the_cut_share_is_the_affinity_between_clusters_without_the_diagonal():
    A = np.array([[9.0, 3, 1, 0], [3, 9, 0, 2], [1, 0, 9, 4], [0, 2, 4, 9]])
    for graph in (A, sp.csr_array(A)):
        assert spectral.cut_share(graph, np.array([0, 0, 1, 1])) == 3 / 10
        assert spectral.cut_share(graph, np.array([0, 1, 0, 1])) == 7 / 10
    assert spectral.cut_share(sp.csr_array(np.diag([1.0, 2.0])), np.array([0, 1])) == 0.0
