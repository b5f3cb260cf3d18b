"""Local scaling of distances, and the sum of graphs scaled by their degrees."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from samples import unit

from dcfsc.affinity import TopK
from dcfsc.affinity.topk import by_degrees, locally_scaled
from dcfsc.self_expression import FeatureForm, NearestForm, RerankedForm


def nearest(Z, k):
    """Cosines in descending order and columns (n, k), as arrays."""
    C = np.clip((Z @ Z.mT).numpy(), -1.0, 1.0)
    np.fill_diagonal(C, -2.0)
    columns = np.argsort(-C, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(C, columns, axis=1), columns


def by_loop(cosines, columns):
    n, k = cosines.shape
    distances = np.sqrt(1.0 - np.minimum(cosines, 1.0))
    scale = distances[:, min(6, k) - 1]
    scale = np.maximum(scale, max(0.1 * scale.mean(), 1.5e-154))
    weights = np.zeros((n, k))
    for i in range(n):
        for place, j in enumerate(columns[i]):
            weights[i, place] = math.exp(-(distances[i, place] ** 2) / (scale[i] * scale[j]))
    return weights


@pytest.mark.parametrize("k", [3, 6, 10])
def test_a_distance_counts_by_those_of_both_samples_other_neighbors(k):
    cosines, columns = nearest(unit(50, 6), k)
    weights = locally_scaled(torch.from_numpy(cosines), torch.from_numpy(columns)).numpy()
    np.testing.assert_allclose(weights, by_loop(cosines, columns), rtol=1e-13, atol=0)


def test_copies_have_a_tenth_of_the_mean_scale():
    Z = unit(50, 6)
    Z[1:12] = Z[0]  # more copies than neighbors: their sixth nearest is a copy
    cosines, columns = nearest(Z, 10)
    cosines[:12] = cosines[:12].round(12)
    weights = locally_scaled(torch.from_numpy(cosines), torch.from_numpy(columns)).numpy()
    np.testing.assert_allclose(weights, by_loop(cosines, columns), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(weights[:12], 1.0)
    assert np.isfinite(weights).all()


def test_copies_alone_are_joined_by_one():
    columns = torch.tensor([[1, 2], [0, 2], [0, 1]])
    ones = torch.ones(3, 2, dtype=torch.float64)
    assert torch.equal(locally_scaled(ones, columns), ones)


def symmetric(weights, columns):
    n = len(weights)
    W = np.zeros((n, n))
    np.put_along_axis(W, columns, weights, axis=1)
    return W + W.T


def normalized(A):
    degrees = A.sum(axis=1)
    root = np.where(degrees > 0, np.sqrt(np.where(degrees > 0, degrees, 1.0)), np.inf)
    return A / np.outer(root, root)


def sorted_and_distinct(A):
    return all((np.diff(A.indices[a:b]) > 0).all() for a, b in itertools.pairwise(A.indptr))


def test_a_graph_is_scaled_by_its_degrees_and_lone_samples_stay_alone():
    A = np.array([[0.0, 2.0, 0, 3], [2, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0]])
    scaled = by_degrees(sp.csr_array(A)).toarray()
    np.testing.assert_allclose(scaled, normalized(A), rtol=1e-15)
    assert scaled[0, 1] == pytest.approx(2 / math.sqrt(5 * 2))
    assert not scaled[2].any()


def test_neighbors_in_clouds_are_a_fourth_more_and_locally_scaled():
    Z = unit(60, 6)
    lifted = torch.cat([Z, torch.ones(60, 1)], dim=1) * math.sqrt(0.5)
    cosines, columns = nearest(lifted, 10)
    A = TopK(k=8, grow=False)(NearestForm(lifted), 3).toarray()
    expected = symmetric(by_loop(cosines, columns), columns)
    np.testing.assert_allclose(A, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("signs", ["auto", "both"])
def test_the_graph_of_several_kinds_of_rows_is_the_sum_of_scaled_ones(signs):
    """Written out: the pool's by powers of the cosine, the others' by local scales."""
    n, k, lam = 60, 8, 0.7
    Z, others = unit(n, 7), [unit(n, 5, seed=1), unit(n, 6, seed=2)]
    H = (Z @ torch.linalg.inv(Z.mT @ Z + lam * torch.eye(7).double()) @ Z.mT).numpy()
    cosine = np.abs(H) / np.sqrt(np.outer(np.diag(H), np.diag(H)))
    np.fill_diagonal(cosine, -1.0)
    columns = np.argsort(-cosine, axis=1)[:, :k]
    weights = np.take_along_axis(cosine, columns, axis=1) ** 4.0
    expected = normalized(symmetric(weights, columns))
    for R in others:  # all others are among the 64 candidates
        values, columns = nearest(R, k + k // 4)
        values = np.maximum(values, 0.0)
        expected += normalized(symmetric(by_loop(values, columns), columns))
    operator = RerankedForm(FeatureForm(Z, lam), others)
    A = TopK(k=k, grow=False, signs=signs)(operator, 3)
    assert sorted_and_distinct(A)
    A = A.toarray()
    np.testing.assert_allclose(A, expected, rtol=1e-9, atol=1e-13)
