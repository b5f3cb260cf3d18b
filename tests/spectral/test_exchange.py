"""Exchanges out of the local minima of k-means, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from dcfsc.spectral.exchange import Halves, Partition, exchanges, halve, improve, join_losses


def squares(points: np.ndarray) -> float:
    """The sum of squared distances to the mean."""
    return float(((points - points.mean(axis=0)) ** 2).sum()) if len(points) else 0.0


def blobs(centres: np.ndarray, each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    noise = 0.1 * random.standard_normal((len(centres), each, centres.shape[1]))
    return (centres[:, None] + noise).reshape(-1, centres.shape[1]), np.repeat(
        np.arange(len(centres)), each
    )


def descended(V: np.ndarray, centres: np.ndarray) -> Partition:
    return Partition.of(KMeans(len(centres), init=centres, n_init=1, random_state=0).fit(V))


def test_two_centres_in_one_cluster_and_one_for_two_are_exchanged() -> None:
    true = np.array([[0.0, 0.0], [5.0, 0.0], [20.0, 0.0], [20.0, 20.0]])
    V, y = blobs(true, 30)
    stuck = descended(V, np.array([[2.5, 0.0], [20.0, -0.1], [20.0, 0.1], [20.0, 20.0]]))
    best = descended(V, true)
    assert stuck.inertia > 10 * best.inertia  # Lloyd's descent does not leave it
    found = improve(V, stuck)
    assert found.inertia == pytest.approx(best.inertia, rel=1e-12)
    assert len(set(zip(found.labels, y, strict=True))) == 4


def test_several_exchanges_follow_each_other() -> None:
    random = np.random.RandomState(1)
    true = 30.0 * random.standard_normal((12, 3))
    V, _ = blobs(true, 20)
    best = descended(V, true)
    start = descended(V, V[:12])  # all twelve in the first cluster
    assert improve(V, start).inertia == pytest.approx(best.inertia, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.booleans())
def test_never_higher_than_the_start(seed: int, K: int, copies: bool) -> None:
    random = np.random.RandomState(seed)
    V = random.standard_normal((40, 3))
    if copies:
        V = V[random.randint(0, 8, 40)]
    start = descended(V, V[random.choice(40, K, replace=False)])
    found = improve(V, start)
    assert found.inertia <= start.inertia
    assert found.centres.shape == (K, 3)
    assert found.inertia == pytest.approx(
        sum(squares(V[found.labels == k]) for k in range(K)), rel=1e-3, abs=1e-9
    )


def test_the_gain_of_a_split_is_what_two_centres_save() -> None:
    points = np.random.RandomState(2).standard_normal((50, 4)) * [5.0, 1.0, 1.0, 1.0]
    gain, centres = halve(points)
    distances = ((points[:, None] - centres) ** 2).sum(axis=2)
    first = distances.argmin(axis=1) == 0
    assert np.allclose(centres, [points[first].mean(axis=0), points[~first].mean(axis=0)])
    assert gain == pytest.approx(squares(points) - squares(points[first]) - squares(points[~first]))
    assert gain > 0.5 * squares(points[:, :1])  # the long axis is the one that is cut


@pytest.mark.parametrize("points", [np.ones((1, 3)), np.ones((7, 3)), np.zeros((0, 3))])
def test_a_cluster_without_extent_is_not_split(points: np.ndarray) -> None:
    gain, _ = halve(points)
    assert gain == 0.0


def test_the_loss_of_a_join_is_what_one_centre_costs() -> None:
    V, y = blobs(np.random.RandomState(3).standard_normal((4, 2)), 9)
    y[:4] = 1
    centres = np.stack([V[y == k].mean(axis=0) for k in range(4)])
    losses = join_losses(centres, np.bincount(y).astype(float))
    for a in range(4):
        for b in range(4):
            if a < b:
                cost = squares(V[(y == a) | (y == b)]) - squares(V[y == a]) - squares(V[y == b])
                assert losses[a, b] == pytest.approx(cost)
            else:
                assert losses[a, b] == np.inf


@pytest.mark.parametrize("K", [1, 2])
def test_one_or_two_clusters_have_nothing_to_exchange(K: int) -> None:
    V = np.random.RandomState(4).standard_normal((20, 2))
    start = Partition.of(KMeans(K, n_init=1, random_state=0).fit(V))
    assert exchanges(start, Halves(V)) == []
    assert improve(V, start) is start


def brute_force_exchanges(V: np.ndarray, y: np.ndarray, K: int) -> list[np.ndarray]:
    """The centres after the best exchanges, by means and sums of squares of the points alone."""
    means = np.stack([V[y == k].mean(axis=0) for k in range(K)])
    halved = [halve(V[y == k]) for k in range(K)]
    found = []
    for s in sorted(range(K), key=lambda k: -halved[k][0])[:10]:
        losses = {}
        for a in range(K):
            for b in range(a + 1, K):
                if s not in (a, b):
                    both = (y == a) | (y == b)
                    losses[a, b] = squares(V[both]) - squares(V[y == a]) - squares(V[y == b])
        for a, b in sorted(losses, key=lambda pair: losses[pair])[:5]:
            if losses[a, b] < 2.0 * halved[s][0]:
                centres = means.copy()
                centres[a] = V[(y == a) | (y == b)].mean(axis=0)
                centres[s], centres[b] = halved[s][1]
                found.append((halved[s][0] - losses[a, b], centres))
    return [centres for _, centres in sorted(found, key=lambda f: -f[0])[:5]]


@pytest.mark.parametrize("K", [3, 5, 12])
@pytest.mark.parametrize("seed", range(4))
def test_exchanges_are_those_of_brute_force(K: int, seed: int) -> None:
    """Clusters of unequal sizes, so that every count and every mask matters."""
    random = np.random.RandomState(seed)
    y = np.repeat(np.arange(K), random.randint(1, 30, K))
    y = random.permutation(y)
    V = 2.0 * random.standard_normal((K, 3))[y] + random.standard_normal((len(y), 3))
    means = np.stack([V[y == k].mean(axis=0) for k in range(K)])
    found = exchanges(Partition(y, means, 0.0), Halves(V))
    expected = brute_force_exchanges(V, y, K)
    assert len(found) == len(expected)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-9, atol=1e-12)


def test_an_empty_cluster_is_joined_at_no_cost() -> None:
    V = np.array([[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    centres = np.array([[2.0, 0.0], [50.0, 50.0], [9.0, 9.0]])
    losses = join_losses(centres, np.array([2.0, 0.0, 1.0]))
    assert (losses[0, 1], losses[1, 2]) == (0.0, 0.0)
    assert losses[0, 2] == pytest.approx(2 * 1 / 3 * (49 + 81))
    first, *_ = exchanges(Partition(np.array([0, 0, 2]), centres, 8.0), Halves(V))
    # Cluster 0 is split, and the empty one gives its centre away.
    np.testing.assert_allclose(first[np.lexsort(first.T)], V[np.lexsort(V.T)])


def test_halves_are_found_once_for_the_same_members() -> None:
    V = np.random.RandomState(5).standard_normal((30, 2))
    halves = Halves(V)
    members = np.array([1, 4, 5, 9, 20])
    assert halves.of(members) is halves.of(members.copy())
    gain, centres = halve(V[members])
    assert halves.of(members)[0] == gain
    np.testing.assert_array_equal(halves.of(members)[1], centres)
    assert halves.of(np.array([1, 4, 5, 9, 21]))[0] == halve(V[[1, 4, 5, 9, 21]])[0]


@pytest.mark.parametrize("seed", range(6))
def test_halves_are_a_fixed_point_of_two_means(seed: int) -> None:
    """Skewed points, where the middle of the principal axis is not where the halves meet."""
    points = np.random.RandomState(seed).lognormal(sigma=1.2, size=(60, 3))
    gain, centres = halve(points)
    first = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1) == 0
    assert 0 < first.sum() < 60
    np.testing.assert_allclose(
        centres, [points[first].mean(axis=0), points[~first].mean(axis=0)], rtol=1e-9
    )
    saved = squares(points) - squares(points[first]) - squares(points[~first])
    assert gain == pytest.approx(saved, rel=1e-9)
