"""Memberships of the points of an embedding, against sums that are written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from samples import cut_affinity

from dcfsc import spectral
from dcfsc.spectral import confidence
from dcfsc.spectral.assignment import grouped_rows
from dcfsc.spectral.confidence import certain, memberships


def blocks(n: int, n_clusters: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A symmetric affinity with blocks, and noise between them; the blocks."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_clusters
    A = rng.random((n, n)) * np.where(y[:, None] == y, 1.0, noise)
    return A + A.T, y


def shares(A: np.ndarray, labels: np.ndarray) -> np.ndarray:
    B = A - np.diag(np.diag(A))
    return np.array([B[i, labels == c].sum() / B[i].sum() for i, c in enumerate(labels)])


@pytest.mark.parametrize("assign", ["filtered", "kmeans", "cluster_qr"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_probabilities_are_those_of_the_formula(assign, kind):
    A, _ = blocks(60, 3, 0.3)
    A *= 1e-3  # the unit of the affinities does not matter
    result = cut_affinity(A, 3, assign=assign, random_state=0)
    E, labels = result.embedding, result.labels
    rows = grouped_rows(E, 3, assign).numpy() if assign == "filtered" else E.vectors
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(3)])
    distances = ((rows[:, None] - means) ** 2).sum(axis=-1)
    found = memberships(E, labels, 3, kind(A), assign)
    # two probabilities tell the sharpness, and it is the same for all points
    first, second = found.clusters[:, 0], found.clusters[:, 1]
    points = np.arange(60)
    logs = np.log(found.probabilities[:, 0].astype(float) / found.probabilities[:, 1])
    b = logs / (distances[points, second] - distances[points, first])
    np.testing.assert_allclose(b, np.median(b), rtol=1e-3)
    p = np.exp(-np.median(b) * distances)
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.confidence, p[points, labels], atol=1e-4)
    np.testing.assert_array_equal(first, labels)
    others = np.where(np.arange(3) == labels[:, None], -1.0, p)
    np.testing.assert_array_equal(found.next_best, others.argmax(axis=1))
    # and it makes the mean confidence the mean share of the affinity
    assert found.confidence.mean() == pytest.approx(shares(A, labels).mean(), abs=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_chunks_of_any_size_give_the_same_probabilities(kind, monkeypatch):
    A, y = blocks(60, 3, 0.3)
    E = spectral.embed(A, 3, random_state=0)
    whole = memberships(E, y, 3, kind(A))
    for numbers in (1, 7, 100):
        monkeypatch.setattr(confidence, "CHUNK", numbers)
        parts = memberships(E, y, 3, kind(A))
        np.testing.assert_array_equal(parts.clusters, whole.clusters)
        np.testing.assert_allclose(parts.probabilities, whole.probabilities, rtol=1e-6)


def test_the_sharpness_of_many_points_is_that_of_some_from_first_to_last(monkeypatch):
    A, y = blocks(61, 3, 0.3)
    A[5], A[:, 5] = 0.0, 0.0  # isolated: no evidence
    E = spectral.embed(A, 3, random_state=0)
    monkeypatch.setattr(confidence, "SAMPLE", 6)
    found = memberships(E, y, 3, A)
    evident = np.delete(np.arange(61), 5)
    few = evident[np.linspace(0, 59, 6).astype(int)]
    own = shares(A[np.ix_(evident, evident)], y[evident])[np.searchsorted(evident, few)]
    assert found.confidence[few].mean() == pytest.approx(own.mean(), abs=1e-5)


def test_what_the_affinity_cannot_say_ends_at_the_bounds_of_the_sharpness():
    rows = torch.eye(2, dtype=torch.float64)
    nearness = confidence._nearness(rows, rows, torch.tensor([1, 1]))
    np.testing.assert_allclose(nearness, [[1.0, -1.0], [-1.0, 1.0]])
    own = torch.tensor([0, 1])
    assert confidence._sharpness(nearness, own, 2.0) == pytest.approx(1e6)
    assert confidence._sharpness(nearness, own, 0.0) == pytest.approx(1e-3)
    b = confidence._sharpness(nearness, own, 0.75)
    assert b == pytest.approx(np.log(3.0) / 2.0, rel=1e-9)


def test_points_without_links_have_no_share():
    A = np.array([[5.0, 1.0, 3.0, 0.0], [1.0, 0.0, 0.0, 0.0], [3.0, 0, 0, 0], [0, 0, 0, 2.0]])
    labels = np.array([0, 0, 1, 1])
    for matrix in (A, sp.csr_array(A)):
        share = confidence._share_in_own(matrix, labels, 2, np.arange(4))
        assert share == pytest.approx((1 / 4 + 1 + 0 + 0) / 4)


def test_noise_between_the_blocks_costs_confidence():
    found = []
    for noise in (0.0, 0.1, 0.3, 0.6):
        A, y = blocks(80, 4, noise)
        E = spectral.embed(A, 4, random_state=0)
        found.append(memberships(E, y, 4, A).confidence.mean())
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(1.0)
    assert found[-1] < 0.6


def test_a_point_between_two_blocks_is_in_doubt_and_names_the_other():
    A, y = blocks(61, 3, 0.01)
    A[60] = A[:, 60] = np.where(y == 1, 0.55, np.where(y == 2, 0.45, 0.0))
    labels = y.copy()
    labels[60] = 1
    found = memberships(spectral.embed(A, 3, random_state=0), labels, 3, A)
    assert found.confidence.argmin() == 60
    assert found.next_best[60] == 2
    assert found.confidence[60] < 0.9 < found.confidence[:60].min()


def test_few_clusters_are_kept_of_many_and_own_comes_first():
    A, y = blocks(120, 12, 0.5)
    found = memberships(spectral.embed(A, 12, random_state=0), y, 12, A)
    assert found.clusters.shape == found.probabilities.shape == (120, 4)
    np.testing.assert_array_equal(found.clusters[:, 0], y)
    assert (np.diff(found.probabilities[:, 1:], axis=1) <= 0).all()
    assert (found.probabilities.sum(axis=1) <= 1 + 1e-6).all()
    assert all(len(set(row)) == 4 for row in found.clusters.tolist())


def test_points_set_aside_have_all_clusters_alike_and_empty_clusters_none():
    A, _ = blocks(40, 2, 0.0)
    A[:3], A[:, :3] = 0.0, 0.0  # three isolated points
    result = cut_affinity(A, 2, random_state=0)
    found = memberships(result.embedding, result.labels, 2, A)
    np.testing.assert_allclose(found.confidence[:3], 0.5)
    np.testing.assert_allclose(found.confidence[3:], 1.0)
    with np.errstate(divide="raise", invalid="raise"):
        wider = memberships(result.embedding, result.labels, 3, A)
    assert (wider.probabilities[3:][wider.clusters[3:] == 2] == 0).all()


def test_one_cluster_has_no_next_best():
    A, _ = blocks(10, 1, 0.0)
    found = memberships(spectral.embed(A, 1), np.zeros(10, np.int64), 1, A)
    assert found.confidence.tolist() == [1.0] * 10
    assert found.next_best.tolist() == [-1] * 10


def test_what_is_certain_is():
    found = certain(np.array([0, 2, 1]), 3)
    assert found.confidence.tolist() == [1.0, 1.0, 1.0]
    assert found.clusters[:, 0].tolist() == [0, 2, 1]
    assert found.next_best.tolist() == [1, 0, 2]
    assert found.clusters.tolist() == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    assert found.probabilities.tolist() == [[1.0, 0.0, 0.0]] * 3
    assert certain(np.array([5]), 6).clusters.tolist() == [[5, 0, 1, 2]]  # four at most


def test_a_cluster_of_one_point_has_its_mean_there():
    A, y = blocks(31, 3, 0.3)
    labels = np.where(np.arange(31) == 30, 3, y)
    E = spectral.embed(A, 4, random_state=0)
    found = memberships(E, labels, 4, A)
    rows = E.vectors / np.linalg.norm(E.vectors, axis=1, keepdims=True)
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(4)])
    distances = ((rows[:, None] - means) ** 2).sum(axis=-1)
    p = np.take_along_axis(-distances, found.clusters.astype(int), axis=1)
    logs = np.log(found.probabilities.astype(float))
    b = (logs[:, 0] - logs[:, 3]) / (p[:, 0] - p[:, 3])
    np.testing.assert_allclose(b, np.median(b), rtol=1e-3)


def test_where_every_point_is_set_aside_all_clusters_are_alike():
    A, y = blocks(12, 3, 0.3)
    E = replace(spectral.embed(A, 3, random_state=0), set_aside=np.ones(12, dtype=bool))
    np.testing.assert_allclose(memberships(E, y, 3, A).probabilities, 1 / 3, rtol=1e-6)
