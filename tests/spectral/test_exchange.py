"""Exchanges out of the local minima of k-means, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.spectral import exchange
from dcfsc.spectral.descent import Partitions, descended, tolerance
from dcfsc.spectral.exchange import (
    Groups,
    Search,
    halve,
    improve,
    join_losses,
    pieces,
    principal_scores,
    promising,
    squared_distances,
)


def squares(points: np.ndarray) -> float:
    """The sum of squared distances to the mean."""
    return float(((points - points.mean(axis=0)) ** 2).sum()) if len(points) else 0.0


def inertias(V: torch.Tensor, found: Partitions) -> np.ndarray:
    X = V.double().numpy()
    return np.array([sum(squares(X[y == k]) for k in np.unique(y)) for y in found.labels.numpy()])


def blobs(centers: np.ndarray, each: int, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    random = np.random.RandomState(seed)
    noise = 0.1 * random.standard_normal((len(centers), each, centers.shape[1]))
    V = (centers[:, None] + noise).reshape(-1, centers.shape[1])
    return torch.from_numpy(V).float(), np.repeat(np.arange(len(centers)), each)


def from_centers(V: torch.Tensor, *centers: np.ndarray) -> Partitions:
    return descended(V, torch.from_numpy(np.array(centers)), tolerance(V))


def in_two(points: np.ndarray) -> tuple[float, np.ndarray]:
    """`halve` of one group of points."""
    gain, centers = halve(
        torch.from_numpy(points)[None], torch.ones((1, len(points)), dtype=torch.bool)
    )
    return float(gain[0]), centers[0].numpy()


def test_two_centers_in_one_cluster_and_one_for_two_are_exchanged() -> None:
    true = np.array([[0.0, 0.0], [5.0, 0.0], [20.0, 0.0], [20.0, 20.0]])
    V, y = blobs(true, 30)
    best = from_centers(V, true)
    stuck = from_centers(V, np.array([[2.5, 0.0], [20.0, -0.1], [20.0, 0.1], [20.0, 20.0]]), true)
    assert inertias(V, stuck)[0] > 10 * inertias(V, best)[0]  # Lloyd's descent does not leave it
    found = improve(V, stuck, tolerance(V))
    np.testing.assert_allclose(inertias(V, found), inertias(V, best)[0], rtol=1e-9)
    for labels in found.labels.tolist():
        assert len(set(zip(labels, y.tolist(), strict=True))) == 4


@pytest.mark.parametrize("K", [12, 60])
def test_several_exchanges_follow_each_other(K: int) -> None:
    true = 30.0 * np.random.RandomState(1).standard_normal((K, 3))
    V, _ = blobs(true, K + 5)
    start = from_centers(V, V[:K].double().numpy())  # all in the first cluster
    found = improve(V, start, tolerance(V))
    np.testing.assert_allclose(inertias(V, found), inertias(V, from_centers(V, true)), rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 14), st.booleans())
def test_never_higher_than_the_start(seed: int, K: int, copies: bool) -> None:
    random = np.random.RandomState(seed)
    V = torch.from_numpy(random.standard_normal((40, 3))).float()
    if copies:
        V = V[torch.from_numpy(random.randint(0, 8, 40))]
    chosen = [V[torch.from_numpy(random.permutation(40)[:K])].double().numpy() for _ in range(3)]
    starts = from_centers(V, *chosen)
    before = starts.labels.clone()
    found = improve(V, starts, tolerance(V))
    assert torch.equal(starts.labels, before)  # left as they were
    assert (inertias(V, found) <= inertias(V, starts) * (1 + 1e-6) + 1e-9).all()
    assert found.centers.shape == (3, K, 3)


def test_starts_are_improved_as_if_alone() -> None:
    V = torch.from_numpy(np.random.RandomState(0).standard_normal((300, 3))).float()
    centers = [V[15 * b : 15 * (b + 1)].double().numpy() for b in range(4)]
    together = improve(V, from_centers(V, *centers), tolerance(V))
    for b in range(4):
        alone = improve(V, from_centers(V, centers[b]), tolerance(V))
        assert torch.equal(together.labels[b], alone.labels[0])


def test_pieces_of_any_size_give_the_same_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    V = torch.from_numpy(np.random.RandomState(0).standard_normal((300, 3))).float()
    starts = from_centers(V, *[V[15 * b : 15 * (b + 1)].double().numpy() for b in range(4)])
    whole = improve(V, starts, tolerance(V))
    monkeypatch.setitem(exchange._PADDED_ELEMENTS, "cpu", 2000)
    assert torch.equal(whole.labels, improve(V, starts, tolerance(V)).labels)


def test_a_round_keeps_sums_and_labels_together() -> None:
    """After every round the sums are those of the labels, and the sum of squares is lower."""
    V = torch.from_numpy(np.random.RandomState(3).standard_normal((600, 3))).float()
    starts = from_centers(V, *[V[40 * b : 40 * (b + 1)].double().numpy() for b in range(3)])
    search, active = Search(V, starts, tolerance(V)), [0, 1, 2]
    rounds = 0
    while active:
        before = inertias(V, search.found)
        active = search.round(active)
        after = inertias(V, search.found)
        assert np.flatnonzero(after < before * (1 - exchange.LEAST_GAIN)).tolist() == active
        exact = Partitions.of(V[None], search.found.labels, 40)
        assert torch.equal(search.found.counts, exact.counts)
        torch.testing.assert_close(search.found.sums, exact.sums, rtol=1e-10, atol=1e-10)
        fresh = Search(V, search.found, tolerance(V))
        for one in (search, fresh):  # every cluster that changed is halved again
            one._halve(Groups(search.found))
        torch.testing.assert_close(search.gains, fresh.gains, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(search.halves, fresh.halves, rtol=1e-5, atol=1e-5)
        rounds += 1
    assert rounds > 2


def test_a_trial_starts_from_the_halves_and_the_joint_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step: rows of the three clusters and their nearest go to the nearest of the centers."""
    monkeypatch.setattr(exchange, "TRIAL_ITERATIONS", 1)
    monkeypatch.setattr(exchange, "NEAR", 5)
    V = torch.from_numpy(np.random.RandomState(6).standard_normal((200, 2))).float()
    starts = from_centers(V, V[:9].double().numpy(), V[9:18].double().numpy())
    search = Search(V, starts, tolerance(V))
    groups = Groups(search.found)
    search._halve(groups)
    apart = squared_distances(search.found.centers)
    tried = np.array([[1, 4, 0, 7], [0, 2, 3, 8], [1, 0, 6, 5]])
    for t in search._try(groups, tried, apart):
        for b, i in enumerate(t.where.tolist()):
            split, first, second = next(
                e[1:] for e in tried.tolist() if e[:2] == [i, t.clusters[b, 0]]
            )
            assert t.clusters[b, :3].tolist() == [split, first, second]
            centers = starts.centers[i].numpy()
            rest = [k for k in range(9) if k not in (split, first, second)]
            distance = ((centers[rest, None] - centers[[split, first, second]]) ** 2).sum(2).min(1)
            near = np.array(rest)[distance.argsort()[:2]].tolist()
            assert t.clusters[b, 3:].tolist() == near
            y = starts.labels[i].numpy()
            X = V.double().numpy()
            one, two = in_two(X[y == split])[1]
            joint = X[(y == first) | (y == second)].mean(axis=0)
            given = np.stack([one, joint, two, *centers[near]])
            inside = t.before[b] < 5
            rows = t.rows[b][inside].numpy()
            assert sorted(rows) == np.flatnonzero(np.isin(y, t.clusters[b])).tolist()
            expected = ((X[rows, None] - given) ** 2).sum(2).argmin(1)
            np.testing.assert_array_equal(t.after.labels[b][inside], expected)
            np.testing.assert_array_equal(t.clusters[b][t.before[b][inside]], y[rows])


def test_the_gain_of_a_split_is_what_two_centers_save() -> None:
    points = np.random.RandomState(2).standard_normal((50, 4)) * [5.0, 1.0, 1.0, 1.0]
    gain, centers = in_two(points)
    first = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1) == 0
    assert np.allclose(centers, [points[first].mean(axis=0), points[~first].mean(axis=0)])
    assert gain == pytest.approx(squares(points) - squares(points[first]) - squares(points[~first]))
    assert gain > 0.5 * squares(points[:, :1])  # the long axis is the one that is cut


@pytest.mark.parametrize("seed", range(6))
def test_halves_are_a_fixed_point_of_two_means(seed: int) -> None:
    """Skewed points, where the middle of the principal axis is not where the halves meet."""
    points = np.random.RandomState(seed).lognormal(sigma=1.2, size=(60, 3))
    gain, centers = in_two(points)
    first = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1) == 0
    assert 0 < first.sum() < 60
    expected = [points[first].mean(axis=0), points[~first].mean(axis=0)]
    np.testing.assert_allclose(centers, expected, rtol=1e-9)
    saved = squares(points) - squares(points[first]) - squares(points[~first])
    assert gain == pytest.approx(saved, rel=1e-9)


def test_groups_of_unlike_sizes_are_halved_as_if_alone() -> None:
    sizes = (40, 7, 1, 25)
    alone = [np.random.RandomState(m).standard_normal((m, 3)) for m in sizes]
    X = torch.full((4, 40, 3), 50.0, dtype=torch.float64)
    for row, points in zip(X, alone, strict=True):
        row[: len(points)] = torch.from_numpy(points)
    gains, centers = halve(X, torch.arange(40) < torch.tensor(sizes)[:, None])
    for b, points in enumerate(alone):
        gain, own = in_two(points)
        assert float(gains[b]) == pytest.approx(gain, rel=1e-12)
        np.testing.assert_allclose(centers[b], own, rtol=1e-9)
    assert gains[2] == 0.0


@pytest.mark.parametrize("points", [np.ones((1, 3)), np.ones((7, 3)), np.zeros((0, 3))])
def test_a_cluster_without_extent_is_not_split(points: np.ndarray) -> None:
    padded = np.concatenate([points, np.zeros((2, 3))])
    mean = points.mean(axis=0) if len(points) else np.zeros(3)
    present = torch.arange(len(padded))[None] < len(points)
    gain, centers = halve(torch.from_numpy(padded)[None], present)
    assert gain.tolist() == [0.0]
    np.testing.assert_array_equal(centers[0], [mean, mean])


@pytest.mark.parametrize("points", [[0, 6], [1, 2, 9], [0, 0, 0, 8], [-9, 1, 2, 3], [0, 1, 10, 11]])
def test_few_points_are_halved_as_by_hand(points: list[float]) -> None:
    """The best of all cuts of a line, also where one point is left alone."""
    line = np.array(points, dtype=float)[:, None]
    cuts = [(squares(line) - squares(line[:i]) - squares(line[i:]), i) for i in range(1, len(line))]
    saved, at = max(cuts)
    gain, centers = in_two(line)
    assert gain == pytest.approx(saved, rel=1e-12)
    assert sorted(centers.ravel()) == pytest.approx([line[:at].mean(), line[at:].mean()])


def test_scores_along_the_principal_axis() -> None:
    rng = np.random.default_rng(0)
    Q = rng.normal(size=(40, 3)) * [3.0, 1.0, 1.0]
    Q[0] = [0.0, 6.0, 0.0]
    U, s, _ = np.linalg.svd(Q, full_matrices=False)
    scores = principal_scores(torch.from_numpy(np.stack([Q, np.zeros_like(Q)]))).numpy()
    assert abs(scores[0] @ U[:, 0]) == pytest.approx(s[0], rel=1e-4)
    np.testing.assert_array_equal(scores[1], 0.0)


def test_the_loss_of_a_join_is_what_one_center_costs() -> None:
    points, y = blobs(np.random.RandomState(3).standard_normal((4, 2)), 9)
    V = points.double().numpy()
    y[:4] = 1
    found = Partitions.of(points[None], torch.from_numpy(y)[None], 4)
    losses = join_losses(squared_distances(found.centers), found.counts)[0]
    for a in range(4):
        for b in range(4):
            if a < b:
                cost = squares(V[(y == a) | (y == b)]) - squares(V[y == a]) - squares(V[y == b])
                assert float(losses[a, b]) == pytest.approx(cost)
            else:
                assert losses[a, b] == np.inf


def always(exchange: exchange.Exchange, promise: float) -> bool:
    return True


@pytest.mark.parametrize("K", [1, 2])
def test_one_or_two_clusters_have_nothing_to_exchange(K: int) -> None:
    V = torch.from_numpy(np.random.RandomState(4).standard_normal((20, 2))).float()
    start = from_centers(V, V[:K].double().numpy())
    assert improve(V, start, tolerance(V)) is start


DEFAULTS = (10, 4, 10)
assert DEFAULTS == (exchange.SPLITS, exchange.PAIRS, exchange.TRIES)


@pytest.mark.parametrize(
    ("K", "limits"),
    [
        (3, DEFAULTS),
        (5, DEFAULTS),
        (12, DEFAULTS),
        (12, (2, 1, 300)),
        (12, (4, 2, 300)),
        (24, (1, 4, 1)),
        (24, (1, 1, 5)),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_exchanges_are_those_of_brute_force(
    K: int, limits: tuple[int, int, int], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that touch clusters of their own come first, then the others, by what they promise."""
    for name, limit in zip(("SPLITS", "PAIRS", "TRIES"), limits, strict=True):
        monkeypatch.setattr(exchange, name, limit)
    random = np.random.RandomState(seed)
    gains = random.lognormal(size=K)
    losses = np.full((K, K), np.inf)
    losses[np.triu_indices(K, 1)] = random.lognormal(size=K * (K - 1) // 2)
    best = np.argsort(-gains)[: max(exchange.SPLITS, K // 4)]
    cheap = np.sort(losses.ravel())[min(K * (K - 1) // 2, exchange.PAIRS * K) - 1]
    promise = {
        (int(s), a, b): gains[s] - losses[a, b]
        for s in best
        for a in range(K)
        for b in range(a + 1, K)
        if s not in (a, b) and losses[a, b] < 2.0 * gains[s] and losses[a, b] <= cheap
    }
    expected: list[exchange.Exchange] = []
    ranked = sorted(promise, key=lambda e: -promise[e])
    for e in ranked:
        if not any(set(e) & set(other) for other in expected):
            expected.append(e)
    expected = expected[: max(exchange.TRIES, K // 8)]
    others = [e for e in ranked if e not in expected]
    expected += others[: max(exchange.TRIES - len(expected), 0)]
    assert promising(gains, losses, always) == expected
    asked = []

    def not_the_first(e: exchange.Exchange, promised: float) -> bool:
        asked.append((e, promised))
        return e != ranked[0]

    if ranked:
        assert ranked[0] not in promising(gains, losses, not_the_first)
        assert asked[0] == (ranked[0], pytest.approx(promise[ranked[0]]))


def test_an_exchange_is_tried_once_for_what_it_promises() -> None:
    V, y = blobs(np.random.RandomState(3).standard_normal((4, 2)), 9)
    search = Search(V, Partitions.of(V[None], torch.from_numpy(y)[None], 4), tolerance(V))
    first, second = search._new(0), search._new(1)
    assert first((0, 1, 2), 0.5)
    assert not first((0, 1, 2), 0.5)
    assert not search._new(0)((0, 1, 2), 0.5 + 1e-12)  # the same but for rounding
    assert first((0, 1, 2), 0.6)
    assert first((0, 1, 3), 0.5)
    assert second((0, 1, 2), 0.5)  # another partition


def test_an_empty_cluster_is_joined_at_no_cost() -> None:
    V = torch.tensor([[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    stuck = Partitions.of(V[None], torch.tensor([[0, 0, 2]]), 3)
    losses = join_losses(squared_distances(stuck.centers), stuck.counts)[0]
    assert (losses[0, 1], losses[1, 2]) == (0.0, 0.0)
    two = join_losses(torch.ones((1, 2, 2)), torch.zeros((1, 2)))  # both are empty
    assert two.tolist() == [[[np.inf, 0.0], [np.inf, np.inf]]]
    assert float(losses[0, 2]) == pytest.approx(2 * 1 / 3 * (49 + 81))
    # Cluster 0 is split, and the empty one gives its center away.
    found = improve(V, stuck, 0.0)
    assert sorted(found.labels[0].tolist()) == [0, 1, 2]


def test_the_rows_of_some_clusters() -> None:
    labels = torch.from_numpy(np.random.RandomState(0).randint(0, 5, (3, 20)))
    groups = Groups(Partitions.of(torch.zeros((1, 20, 1)), labels, 6))  # the last is empty
    where, clusters = torch.tensor([2, 0]), torch.tensor([[4, 1], [5, 3]])
    rows, place = groups.rows(where, clusters)
    for b in range(2):
        for j in range(2):
            own = torch.nonzero(labels[where[b]] == clusters[b, j])[:, 0]
            assert torch.equal(rows[b][place[b] == j], own)
    assert rows.shape[1] == int((place < 2).sum(1).max())


def test_pieces_hold_groups_of_like_sizes() -> None:
    V = torch.zeros((1, 1 << 10))
    sizes = torch.tensor([10, 600, 0, 300, 500, 2000])
    found = [piece.tolist() for piece in pieces(sizes, V)]  # at most 1,024 rows with the padding
    assert found == [[5], [1], [4, 3], [0, 2]]
    empty = [piece.tolist() for piece in pieces(torch.zeros(3, dtype=torch.int64), V)]
    assert empty == [[0, 1, 2]]


def test_of_exchanges_that_share_clusters_the_best_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine clusters all take part in every trial, so that one of them is kept, if it pays."""
    V = torch.from_numpy(np.random.RandomState(6).standard_normal((200, 2))).float()
    search = Search(V, from_centers(V, V[:9].double().numpy()), tolerance(V))
    groups = Groups(search.found)
    search._halve(groups)
    tried = np.array([(0, s, a, b) for s in (2, 4, 5, 6, 8) for a, b in ((0, 1), (3, 7))])
    trials = list(search._try(groups, tried, squared_distances(search.found.centers)))
    before = inertias(V, search.found)[0]
    after = []
    for t in trials:
        for b in range(len(t.where)):
            labels = torch.empty(200, dtype=torch.int64)
            inside = t.before[b] < 9
            labels[t.rows[b][inside]] = t.clusters[b][t.after.labels[b][inside]]
            after.append(inertias(V, Partitions.of(V[None], labels[None], 9))[0])
    assert sum(a < before for a in after) > 1
    share = 1.0 - min(after) / before
    monkeypatch.setattr(exchange, "LEAST_GAIN", 1.001 * share)
    assert search._keep_best(trials) == []
    assert inertias(V, search.found)[0] == before
    monkeypatch.setattr(exchange, "LEAST_GAIN", 0.999 * share)
    assert search._keep_best(trials) == [0]
    assert inertias(V, search.found)[0] == pytest.approx(min(after), rel=1e-12)


def test_the_joint_mean_of_clusters_with_one_point_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    V = torch.tensor([[-1.0], [1.0], [2.0], [-2.0], [7.0]])
    starts = Partitions.of(V[None], torch.tensor([[0, 0, 0, 0, 2]]), 4)
    search, given = Search(V, starts, 0.0), []
    whole = exchange.descend

    def record(X: torch.Tensor, centers: torch.Tensor, *rest: Any, **named: Any) -> Any:
        given.extend(centers[:, 1, 0].tolist())
        return whole(X, centers, *rest, **named)

    monkeypatch.setattr(exchange, "descend", record)
    groups = Groups(search.found)
    tried = np.array([[0, 0, 1, 2], [0, 0, 1, 3]])
    list(search._try(groups, tried, squared_distances(search.found.centers)))
    assert sorted(given) == [0.0, 7.0]  # the one point's own place, and the origin for no point
