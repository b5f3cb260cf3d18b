"""From an operator to a graph, and from a graph to a partition."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from samples import cut_affinity

from dcfsc import spectral
from dcfsc.affinity import LowRank, Symmetric, TopK
from dcfsc.io import synthetic
from dcfsc.pipeline import Recipe, cut, graph_of, labels_of, partition
from dcfsc.self_expression import solve

K = 3


@pytest.fixture(scope="module")
def operator():
    X = synthetic(90, K, 3, 12, noise=0.3, random_state=0).X
    return solve(torch.nn.functional.normalize(torch.from_numpy(X)), 0.1)


@pytest.mark.parametrize("affinity", [TopK(), TopK(k=3), Symmetric(), LowRank()])
@pytest.mark.parametrize("assign", ["filtered", "kmeans", "discretize", "cluster_qr"])
def test_a_partition_is_that_of_the_steps_one_by_one(operator, affinity, assign):
    recipe = Recipe((12,), K, affinity=affinity, assign=assign)
    graph = graph_of(operator, recipe)
    found = partition(graph, recipe, np.random.RandomState(1))
    A = affinity(operator, K)
    expected = cut_affinity(A, K, assign=assign, random_state=np.random.RandomState(1))
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.embedding.values, expected.embedding.values, atol=1e-10)
    host = A.numpy() if isinstance(A, torch.Tensor) else A
    sure = spectral.memberships(expected.embedding, expected.labels, K, host, assign)
    np.testing.assert_allclose(found.memberships.confidence, sure.confidence, atol=1e-5)
    np.testing.assert_array_equal(
        labels_of(graph, recipe, np.random.RandomState(1), 10), found.labels
    )


def test_a_graph_of_nearest_neighbors_is_trusted_and_is_what_a_reader_finds(operator):
    recipe = Recipe((12,), K)
    graph = graph_of(operator, recipe)
    A = TopK()(operator, K)
    read = graph_of(operator, Recipe((12,), K, affinity=lambda operator, n_clusters: A))
    assert sp.issparse(graph.on_host)
    assert (graph.on_host != A).nnz == 0
    assert graph.scale == read.scale
    np.testing.assert_array_equal(graph.degrees, read.degrees)
    np.testing.assert_array_equal(graph.components, read.components)
    assert (graph.weights != read.weights).nnz == 0
    assert graph.components is graph.components  # counted once


def test_known_labels_are_not_looked_for_and_are_certain(operator, monkeypatch):
    recipe = Recipe((12,), K)
    known = np.arange(90) % K
    monkeypatch.setattr(spectral, "assign", None)
    found = partition(graph_of(operator, recipe), recipe, np.random.RandomState(0), known)
    assert found.labels is known
    assert found.memberships.confidence.tolist() == [1.0] * 90


def test_a_cut_into_fewer_takes_the_leading_eigenvectors(operator):
    many, few = Recipe((12,), 6), Recipe((12,), 2)
    graph = graph_of(operator, many)
    whole = partition(graph, many, np.random.RandomState(0))
    found = cut(whole.embedding, graph.on_host, few, np.random.RandomState(0))
    np.testing.assert_array_equal(found.embedding.vectors, whole.embedding.vectors[:, :4])
    assert set(found.labels) == {0, 1}


def test_edges_of_rounding_do_not_connect():
    """Two pairs that an edge far below the degrees joins: the graph grows, as the cut sees two."""
    A = sp.csr_array(np.kron(np.eye(2), [[0.0, 1.0], [1.0, 0.0]]))
    A = sp.csr_array(A + 1e-20 * sp.csr_array(([1.0, 1.0], ([1, 2], [2, 1])), shape=(4, 4)))
    from dcfsc.graphs import trusted

    assert trusted(A, torch.device("cpu")).n_components == 2
    A.data[A.data < 1] = 1e-10
    assert trusted(A, torch.device("cpu")).n_components == 1
