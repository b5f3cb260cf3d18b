"""Partitions of random parts of the samples, by which the data choose."""

import numpy as np
import torch

from dcfsc.affinity import TopK
from dcfsc.estimators.stability import agreement, graph_of_part
from dcfsc.self_expression import solve


def neighbours(n, s, seed=0):
    """Random columns without the sample itself, weights in descending order, (n, s)."""
    random = np.random.default_rng(seed)
    others = [random.permutation(np.delete(np.arange(n), i))[:s] for i in range(n)]
    return -np.sort(-random.random((n, s)), axis=1), np.stack(others)


def test_the_part_that_is_everything_has_the_k_nearest_of_all():
    weights, columns = neighbours(40, 3 * TopK.k)
    A = graph_of_part(weights, columns, np.arange(40)).toarray()
    W = np.zeros((40, 40))
    for i in range(40):
        W[i, columns[i, : TopK.k]] = weights[i, : TopK.k]
    np.testing.assert_array_equal(A, W + W.T)


def test_neighbours_outside_the_part_make_room_for_the_next():
    weights, columns = neighbours(40, 3 * TopK.k)
    part = np.arange(0, 40, 2)
    A = graph_of_part(weights, columns, part).toarray()
    W = np.zeros((40, 40))
    for i in part:
        inside = [c for c in range(columns.shape[1]) if columns[i, c] in part][: TopK.k]
        W[i, columns[i, inside]] = weights[i, inside]
    np.testing.assert_array_equal(A, (W + W.T)[np.ix_(part, part)])


def test_a_sample_that_loses_every_neighbour_stays_alone():
    weights, columns = np.ones((4, 1)), np.array([[1], [0], [3], [2]])
    A = graph_of_part(weights, columns, np.array([0, 2, 3])).toarray()
    np.testing.assert_array_equal(A, [[0, 0, 0], [0, 0, 2], [0, 2, 0]])


def test_separate_subspaces_are_stable_and_noise_is_not():
    random = np.random.default_rng(0)
    Z = np.zeros((90, 12))
    for k in range(3):
        Z[30 * k : 30 * (k + 1), 4 * k : 4 * (k + 1)] = random.normal(size=(30, 4))
    noise = random.normal(size=(90, 12))
    separate, mixed = (
        agreement(solve(torch.nn.functional.normalize(torch.from_numpy(X)), 0.1), 3)
        for X in (Z, noise)
    )
    assert separate > 0.99
    assert -0.5 <= mixed < 0.7
