"""An order of the samples that their values alone decide, and the sample that comes of it."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import processes
from dcfsc.graphs import read_affinity
from dcfsc.pipeline import Recipe, common_sample, distinct, partition, sampled_rows, sampling
from dcfsc.pipeline.sampling import canonical_order


def rows(n=200, d=7, dtype=np.float32, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)).astype(dtype))


def permutation(n, seed=1):
    return np.random.default_rng(seed).permutation(n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_in_another_order_have_the_same_order_of_their_own(dtype):
    X = rows(dtype=dtype)
    order = canonical_order(X)
    assert np.array_equal(np.sort(order), np.arange(200))
    assert abs(np.corrcoef(order, np.arange(200))[0, 1]) < 0.2  # looks random
    for seed in range(3):
        other = permutation(200, seed)
        assert np.array_equal(other[canonical_order(X[other])], order)


def test_copies_keep_the_order_of_the_values():
    X = rows(60).repeat(3, 1)
    other = permutation(180)
    assert torch.equal(X[other][canonical_order(X[other])], X[canonical_order(X)])
    order = canonical_order(X).reshape(60, 3)
    assert np.array_equal(order % 60, np.repeat(order[:, :1] % 60, 3, axis=1))
    assert (np.diff(order, axis=1) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_minus_zero_is_zero(dtype):
    X = rows(dtype=dtype)
    X[::3, 2] = 0.0
    other = X.clone()
    other[::6, 2] = -0.0
    assert np.array_equal(canonical_order(other), canonical_order(X))
    assert np.array_equal(np.signbit(X.numpy()).sum() + 34, np.signbit(other.numpy()).sum())


def test_the_smallest_difference_of_a_number_counts():
    X = torch.full((50, 3), 1.0, dtype=torch.float64)
    X[:, 1] += torch.arange(50) * torch.finfo(torch.float64).eps
    order, other = canonical_order(X), permutation(50)
    assert np.array_equal(other[canonical_order(X[other])], order)
    assert not np.array_equal(order, np.arange(50))


def test_neither_storage_nor_the_size_of_a_chunk_make_a_difference(monkeypatch):
    X = rows()
    order = canonical_order(X)
    assert np.array_equal(canonical_order(X.mT.contiguous().mT), order)
    monkeypatch.setattr(sampling, "KEY_ROWS", 7)
    assert np.array_equal(canonical_order(X), order)


def test_images_keep_their_own_order():
    X = rows()
    assert distinct(X, Recipe((1, 7), 2))[1] is None
    assert np.array_equal(distinct(X, Recipe((7,), 2))[1], canonical_order(X))


def test_a_common_sample_is_the_first_of_the_order(monkeypatch):
    X = rows()
    order, other = canonical_order(X), permutation(200)
    assert torch.equal(common_sample(X, order), X[order])
    monkeypatch.setattr(sampling, "MOST_SAMPLES", 40)
    assert np.array_equal(sampled_rows(200, order), order[:40])
    assert torch.equal(common_sample(X, order), X[order[:40]])
    assert torch.equal(common_sample(X[other], canonical_order(X[other])), X[order[:40]])
    chosen = np.sort(np.random.RandomState(0).permutation(200)[:40])
    assert np.array_equal(sampled_rows(200), chosen)
    assert torch.equal(common_sample(X), X[chosen])


@pytest.mark.parametrize(("rank", "own"), [(0, slice(0, 8)), (1, slice(8, 20))])
def test_each_process_brings_its_rows_and_all_come_in_the_order(monkeypatch, rank, own):
    """Two processes have eight and twelve of twenty rows."""
    monkeypatch.setattr(sampling, "MOST_SAMPLES", 7)
    X = rows(20)
    order = canonical_order(X)
    chosen, brought = np.sort(order[:7]), []
    expected = [i for i in chosen if i in range(*own.indices(20))]

    def gather(part):
        brought.append(part)
        return X[chosen]

    monkeypatch.setattr(processes, "total_count", lambda n: 20)
    monkeypatch.setattr(processes, "row_counts", lambda n, device: [8, 12])
    monkeypatch.setattr(processes, "rank", lambda: rank)
    monkeypatch.setattr(processes, "gather_rows", gather)
    assert torch.equal(common_sample(X[own], order), X[order[:7]])
    assert torch.equal(brought[0], X[expected])
    assert 0 < len(expected) < 7


def graph(n=90, K=3, seed=0):
    """A noisy affinity of three groups."""
    random = np.random.default_rng(seed)
    group = random.integers(0, K, n)
    near = random.random((n, n)) < np.where(group[:, None] == group, 0.3, 0.04)
    A = np.triu(near * random.random((n, n)), 1)
    return A + A.T


def test_a_partition_in_another_order_numbers_clusters_by_their_first_samples():
    A, recipe = graph(), Recipe((7,), 3)
    whole = partition(read_affinity(A), recipe, np.random.RandomState(0))
    order = permutation(90)
    other = whole.reordered(order)
    seen: dict[int, int] = {}
    number = [seen.setdefault(label, len(seen)) for label in whole.labels[order].tolist()]
    assert other.labels.tolist() == number
    sure, expected = other.memberships, whole.memberships
    clusters = np.vectorize(lambda old: seen[old])(expected.clusters[order])
    assert np.array_equal(sure.clusters, clusters)
    assert np.array_equal(sure.probabilities, expected.probabilities[order])
    assert np.array_equal(sure.confidence, expected.confidence[order])
    assert np.array_equal(other.embedding.vectors, whole.embedding.vectors[order])
    assert np.array_equal(other.embedding.degrees, whole.embedding.degrees[order])
    assert np.array_equal(other.embedding.values, whole.embedding.values)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_an_order_of_the_samples_makes_a_partition_theirs(kind):
    """The same random start for the same sample, wherever it stands."""
    A, recipe = graph(), Recipe((7,), 3)
    order, other = permutation(90, 3), permutation(90, 4)
    place = np.argsort(other)  # of a sample among the reordered ones
    whole = partition(read_affinity(kind(A)), recipe, np.random.RandomState(0), order=order)
    moved = partition(
        read_affinity(kind(A[np.ix_(other, other)])),
        recipe,
        np.random.RandomState(0),
        order=place[order],
    )
    expected = whole.reordered(other)
    assert np.array_equal(moved.labels, expected.labels)
    assert np.array_equal(moved.memberships.clusters, expected.memberships.clusters)
    assert np.array_equal(moved.embedding.vectors, expected.embedding.vectors)
    np.testing.assert_array_equal(whole.labels, whole.reordered(np.arange(90)).labels)
