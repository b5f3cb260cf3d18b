"""Affinity to labels in one call, over every assigner, solver and kind of affinity."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from samples import cut_affinity as cluster
from sklearn.metrics import adjusted_rand_score

from dcfsc.errors import InputError
from dcfsc.spectral import assign, default_components, embed
from dcfsc.spectral.assignment import METHODS
from dcfsc.spectral.eigensolvers import SOLVERS

KINDS = {
    "numpy": sp.csr_array.toarray,
    "float32": lambda A: A.toarray().astype(np.float32),
    "csr": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "torch": lambda A: torch.from_numpy(A.toarray()),
}


def same_partition(a, b):
    return adjusted_rand_score(a, b) == 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_block_diagonal_graphs_are_recovered_exactly(method, solver, kind, blocks):
    A, y = blocks([40, 25, 30, 50])
    result = cluster(KINDS[kind](A), 4, assign=method, solver=solver, random_state=0)
    assert result.embedding.n_connected == 4
    assert same_partition(result.labels, y)


@pytest.mark.parametrize("method", METHODS)
def test_two_clusters(method, ring_of_clusters):
    A, y = ring_of_clusters(120, 2)
    assert same_partition(cluster(A, 2, assign=method, random_state=0).labels, y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("solver", ["arpack", "block"])
def test_ring_of_clusters_at_three_thousand_points(method, solver, ring_of_clusters):
    A, y = ring_of_clusters(3000, 12, noise=0.1)
    result = cluster(A, 12, assign=method, solver=solver, random_state=0)
    assert result.embedding.solver == solver
    assert np.mean(same_in_cluster(result.labels, y)) > 0.995


def same_in_cluster(labels, y):
    """Whether each point sits in the cluster where most of its class does."""
    majority = np.array([np.bincount(labels[y == c]).argmax() for c in range(y.max() + 1)])
    assert len(set(majority)) == len(majority)
    return labels == majority[y]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("strays", [1, 3, 25])
@pytest.mark.parametrize("kind", ["numpy", "csr"])
def test_the_real_clusters_win_over_stray_components(method, strays, kind, ring_of_clusters):
    A, y = ring_of_clusters(800, 4, strays=strays)
    result = cluster(KINDS[kind](A), 4, assign=method, random_state=0)
    assert same_partition(result.labels[y >= 0], y[y >= 0])


@pytest.mark.parametrize("method", METHODS)
def test_large_components_beyond_the_clusters_stay_whole(method, blocks):
    A, y = blocks([40, 30, 25, 20, 15])
    labels = cluster(A, 3, assign=method, random_state=0).labels
    assert all(len(set(labels[y == c])) == 1 for c in range(5))
    assert len(set(labels)) == 3


@pytest.mark.parametrize("method", METHODS)
def test_duplicated_points_share_their_label(method, ring_of_clusters):
    A = ring_of_clusters(60, 3)[0].toarray()
    twice = np.kron(A, np.ones((2, 2)))
    labels = cluster(twice, 3, assign=method, random_state=0).labels
    np.testing.assert_array_equal(labels[::2], labels[1::2])


@pytest.mark.parametrize("method", METHODS)
def test_all_ones_affinity_gives_some_partition(method):
    labels = cluster(np.ones((30, 30)), 3, assign=method, random_state=0).labels
    assert labels.shape == (30,)
    assert labels.max() < 3


def test_more_eigenvectors_than_clusters_for_kmeans(ring_of_clusters):
    A, _ = ring_of_clusters(200, 4)
    result = cluster(A, 4, n_components=5, random_state=0)
    assert result.embedding.vectors.shape == (200, 5)
    assert result.labels.max() == 3


def test_one_seed_drives_both_steps_whatever_the_solver(ring_of_clusters):
    A, _ = ring_of_clusters(600, 5, noise=0.7)
    for method in METHODS:
        runs = [
            cluster(A, 5, assign=method, solver=solver, random_state=11).labels
            for solver in ("eigh", "arpack", "block", "arpack")
        ]
        for labels in runs[1:]:
            np.testing.assert_array_equal(labels, runs[0])


@pytest.mark.parametrize("n_clusters", [0, 31, None, "2", 1.5, True])
def test_unusable_n_clusters_is_one_line(n_clusters):
    with pytest.raises(InputError, match=r"n_c") as caught:
        assign(embed(np.ones((30, 30)), 3), n_clusters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("assign", "K", "n", "expected"),
    [
        ("filtered", 5, 100, 10),
        ("filtered", 5, 10, 10),
        ("filtered", 5, 9, 9),
        ("filtered", 5, 3, 5),
        ("kmeans", 5, 100, 5),
    ],
)
def test_how_many_eigenvectors_an_assignment_looks_at(assign, K, n, expected):
    assert default_components(assign, K, n) == expected
