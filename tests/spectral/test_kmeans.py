"""k-means over many points: the descent, its agreement with scikit-learn, repeatability."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dcfsc.spectral import descent, kmeans
from dcfsc.spectral.kmeans import _filled, lloyd


def blobs(n=3000, K=7, p=5, spread=0.15, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return torch.from_numpy(rng.normal(size=(K, p))[y] + spread * rng.normal(size=(n, p))), y


def plain_descent(V, centers):
    """The sum of squares where Lloyd's steps become small, and whether a center lost all points."""
    lost, moved = False, np.inf
    while moved > descent.TOLERANCE * V.var(0).mean():
        labels = ((V[:, None] - centers) ** 2).sum(2).argmin(1)
        there = np.isin(np.arange(len(centers)), labels)
        lost |= not there.all()
        means = [V[labels == k].mean(0) if there[k] else c for k, c in enumerate(centers)]
        moved = ((np.array(means) - centers) ** 2).sum()
        centers = np.array(means)
    return ((V[:, None] - centers) ** 2).sum(2).min(1).sum(), lost


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
@example(5, 5, 77)  # scikit-learn moves the center that loses all its points
def test_the_descent_ends_where_a_plain_one_does(K, p, seed):
    V, _ = blobs(200, 4, p, 0.3, seed)
    centers = V[:K].clone()
    labels, found = lloyd(V, centers)
    inertia = float((V - found[labels]).square().sum())
    plain, lost = plain_descent(V.numpy(), centers.numpy())
    assert inertia == pytest.approx(plain, rel=1e-3, abs=1e-12)
    theirs = KMeans(K, init=centers.numpy(), n_init=1, algorithm="lloyd").fit(V.numpy())
    assert lost or inertia <= theirs.inertia_ * (1 + 1e-3) + 1e-12


def test_a_fixed_point_of_the_descent_is_one():
    V, _ = blobs()
    labels, centers = lloyd(V, V[:7].clone())
    means = torch.stack([V[labels == c].mean(0) for c in range(7)])
    assert float((means - centers).square().sum()) <= descent.TOLERANCE * float(V.var())
    distances = torch.cdist(V, centers)
    nearest = distances.min(1).values
    assert (distances.gather(1, labels[:, None])[:, 0] <= nearest + 1e-5).all()


def test_chunks_do_not_matter_and_runs_repeat(monkeypatch):
    V, _ = blobs()
    whole = lloyd(V, V[:7].clone())
    assert torch.equal(whole[1], lloyd(V, V[:7].clone())[1])
    monkeypatch.setattr(descent, "_CHUNK_ELEMENTS", {"cpu": 700})
    parts = lloyd(V, V[:7].clone())
    assert torch.equal(whole[0], parts[0])
    torch.testing.assert_close(whole[1], parts[1], atol=1e-6, rtol=1e-5)


def test_a_center_without_points_stays():
    V, _ = blobs()
    far = torch.full((1, 5), 100.0, dtype=V.dtype)
    labels, centers = lloyd(V, torch.cat([V[:3], far]))
    assert torch.equal(centers[3], far[0])
    assert not (labels == 3).any()


def test_the_best_starts_on_a_sample_are_improved(monkeypatch):
    V, given = torch.from_numpy(without_clusters()), []

    def record(V, starts, allowed):
        given.append(starts)
        return starts

    monkeypatch.setattr(kmeans, "improve", record)
    kmeans.kmeans(V, 12, np.random.RandomState(0), 6, exchange=True)
    monkeypatch.setattr(kmeans, "LARGE", 300)
    monkeypatch.setattr(kmeans, "SAMPLE", len(V))
    kmeans.kmeans(V, 12, np.random.RandomState(0), 6, exchange=True)
    every, few = given
    assert (len(every.labels), len(few.labels)) == (6, 3)
    # The sample is the rows in another order: the starts differ, and all six are there to compare.
    monkeypatch.setattr(kmeans, "IMPROVED", 6)
    kmeans.kmeans(V, 12, np.random.RandomState(0), 6, exchange=True)
    explained = given[2].explained.sum(1).sort(descending=True).values
    torch.testing.assert_close(few.explained.sum(1), explained[:3])


def test_many_points_get_the_labels_of_few(monkeypatch):
    V, y = blobs()
    whole = kmeans.kmeans(V, 7, np.random.RandomState(0), 5)
    monkeypatch.setattr(kmeans, "LARGE", 1000)
    monkeypatch.setattr(kmeans, "SAMPLE", 400)
    sampled = kmeans.kmeans(V, 7, np.random.RandomState(0), 5)
    assert adjusted_rand_score(whole, sampled) > 0.999
    assert adjusted_rand_score(y, sampled) > 0.95
    again = kmeans.kmeans(V, 7, np.random.RandomState(0), 5)
    np.testing.assert_array_equal(sampled, again)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_descends_to_the_same_centers():
    V, _ = blobs()
    labels, centers = lloyd(V, V[:7].clone())
    on_gpu = lloyd(V.cuda(), V[:7].cuda())
    assert torch.equal(labels, on_gpu[0].cpu())
    torch.testing.assert_close(centers, on_gpu[1].cpu(), atol=1e-6, rtol=1e-5)


def without_clusters(n=400, p=3):
    return np.random.default_rng(5).normal(size=(n, p))


def inertia(V, labels):
    return sum(
        float(((V[labels == c] - V[labels == c].mean(0)) ** 2).sum()) for c in np.unique(labels)
    )


def test_every_start_is_another_one_and_the_lowest_is_taken(monkeypatch):
    V, given = torch.from_numpy(without_clusters()), []

    def leave(V, starts, allowed):
        given.append(starts)
        return starts

    monkeypatch.setattr(kmeans, "improve", leave)
    labels = kmeans.kmeans(V, 12, np.random.RandomState(0), 6, exchange=True)
    sums = [inertia(V.numpy(), y.numpy()) for y in given[0].labels]
    assert len(set(sums)) == 6
    np.testing.assert_array_equal(labels, given[0].labels[int(np.argmin(sums))])
    kmeans.kmeans(V, 12, np.random.RandomState(1), 6, exchange=True)
    assert not {inertia(V.numpy(), y.numpy()) for y in given[1].labels} & set(sums)


def test_seeds_are_rows_far_apart():
    """Well-separated blobs get one seed each; a row that is a seed is not drawn again."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(15), 20))
    V = torch.from_numpy(100.0 * rng.normal(size=(15, 4))[y] + 0.01 * rng.normal(size=(300, 4)))
    rows = kmeans.seeds(kmeans.centered(V), 15, np.random.RandomState(0), 8)
    assert rows.shape == (8, 15)
    for start in rows:
        assert sorted(y[start].tolist()) == list(range(15))
    few = kmeans.centered(V[:6])
    for start in kmeans.seeds(few, 6, np.random.RandomState(0), 5):
        assert sorted(start.tolist()) == list(range(6))


def test_seeds_are_drawn_by_squared_distance():
    """From 0, a row at 3 is drawn nine times as often as one at 1, if one is drawn at a time."""
    V = torch.tensor([[0.0], [1.0], [3.0]])
    second = np.array(
        [kmeans.seeds(V, 2, np.random.RandomState(s), 50)[:, :2].tolist() for s in range(40)]
    ).reshape(-1, 2)
    # Of two draws the one that leaves less is kept, 3: it is missed where both are 1.
    from_zero = second[second[:, 0] == 0, 1]
    assert len(from_zero) > 500
    assert (from_zero == 2).mean() == pytest.approx(0.99, abs=0.012)


@pytest.mark.parametrize("K", [1, 2, 5, 21])
def test_seeds_are_those_of_the_definition(K):
    """Greedy k-means++ in NumPy, with the same random numbers; coordinates are whole numbers."""
    V = np.random.default_rng(K).integers(-9, 10, (40, 3)).astype(float)
    ours, random = np.random.RandomState(3), np.random.RandomState(3)
    found = kmeans.seeds(torch.from_numpy(V).float(), K, ours, 4)
    first, draws = random.randint(40, size=4), 2 + int(np.log(K))
    uniform = random.random_sample((K - 1, 4, draws))
    apart = ((V[:, None] - V) ** 2).sum(2)
    for b in range(4):
        chosen = [first[b]]
        nearest = apart[first[b]]
        for u in uniform[:, b]:
            drawn = np.searchsorted(np.cumsum(nearest), u * nearest.sum(), side="right")
            left = np.minimum(apart[drawn], nearest).sum(1)
            chosen.append(drawn[left.argmin()])
            nearest = np.minimum(nearest, apart[chosen[-1]])
        assert found[b].tolist() == chosen
    assert ours.randint(1 << 30) == random.randint(1 << 30)


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize(
    ("rows", "K", "clusters"),
    [
        (np.repeat(np.arange(12.0).reshape(4, 3) ** 2, 10, axis=0), 6, 4),  # fewer distinct rows
        (np.random.default_rng(0).normal(size=(9, 4)), 9, 9),  # a cluster each
        (np.random.default_rng(0).normal(size=(11, 4)), 9, 9),
        (np.random.default_rng(0).normal(size=(30, 1)), 4, 4),
        (np.random.default_rng(0).normal(size=(30, 3)), 2, 2),
        (np.random.default_rng(0).normal(size=(30, 3)), 1, 1),
        (np.full((20, 3), 0.1), 3, 1),  # all rows the same
        (np.zeros((20, 3)), 3, 1),
    ],
)
def test_as_many_clusters_as_rows_allow(rows, K, clusters, exchange):
    labels = kmeans.kmeans(torch.from_numpy(rows), K, np.random.RandomState(0), 3, exchange)
    assert labels.shape == (len(rows),)
    assert labels.dtype == np.int64
    assert len(set(labels.tolist())) == clusters
    for row in np.unique(rows, axis=0):
        assert len(set(labels[(rows == row).all(axis=1)].tolist())) == 1


def test_empty_clusters_move_to_the_farthest_rows():
    V = torch.tensor([[0.0], [0.1], [0.2], [5.0], [-9.0]])
    stuck = descent.Partitions.of(V[None], torch.zeros((2, 5), dtype=torch.int64), 3)
    filled = kmeans._filled(V, stuck, 0.0)
    for labels in filled.labels:
        assert len(set(labels[:3].tolist())) == 1
        assert len(set(labels[2:].tolist())) == 3


def test_every_empty_cluster_gets_a_row_of_its_own():
    """Two batches with other empty clusters; the rows come by their distance to their center."""
    V = torch.tensor([[0.0], [1.0], [-1.0], [7.0], [-9.0], [-9.0]])
    labels = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 0, 2, 1, 1]])
    given = descent.Partitions.of(V[None], labels, 3)
    found = kmeans._filled(V, given, 0.0)
    for labels, centers in zip(found.labels, found.centers[..., 0], strict=True):
        assert sorted(centers.tolist()) == [-9.0, 0.0, 7.0]
        assert centers[labels].tolist() == [0.0, 0.0, 0.0, 7.0, -9.0, -9.0]
    assert torch.equal(given.labels[0], torch.ones(6, dtype=torch.int64))


@pytest.mark.parametrize(("apart", "merged"), [(0.75e-9, True), (1.5e-9, False)])
@pytest.mark.parametrize("length", [0.125, 1.0, 8.0])
def test_centers_are_the_same_by_the_rows_length(length, apart, merged):
    V = torch.full((4, 16), 0.25 * length)  # rows of length 1, times another
    centers = torch.full((1, 3, 16), 0.25 * length, dtype=torch.float64)
    centers[0, 2, 0] += apart * length
    centers[0, 1] = -3.0
    found = descent.Partitions(
        torch.tensor([[2, 0, 1, 2]]), centers, torch.ones((1, 3), dtype=torch.float64)
    )
    assert kmeans._merged(found, V).tolist() == ([0, 0, 1, 0] if merged else [2, 0, 1, 2])


@pytest.mark.parametrize("exchange", [False, True])
def test_as_low_as_scikit_learns(exchange):
    """Over many problems; one alone may end higher or lower."""
    ratios = []
    for seed in range(10):
        V = np.random.default_rng(seed).normal(size=(300, 4))
        ours = kmeans.kmeans(torch.from_numpy(V), 10, np.random.RandomState(seed), 5, exchange)
        theirs = KMeans(10, n_init=5, random_state=seed).fit(V).labels_
        ratios.append(inertia(V, ours) / inertia(V, theirs))
    assert np.mean(ratios) < (0.995 if exchange else 1.005)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_centered_rows_are_single_and_sum_to_zero(dtype):
    V = torch.from_numpy(np.random.default_rng(0).normal(2.0, size=(50, 3))).to(dtype)
    expected = V.double().numpy() - V.double().numpy().mean(axis=0)
    centered = kmeans.centered(V)
    assert centered.dtype == torch.float32
    np.testing.assert_allclose(centered, expected, atol=1e-6)


@pytest.mark.parametrize("exchange", [False, True])
def test_a_shift_of_all_rows_changes_nothing(exchange):
    """Rows far from 0 lose no digits: they are centered before float32."""
    V = np.random.default_rng(0).integers(0, 64, size=(200, 3)) / 8.0
    labels = [
        kmeans.kmeans(torch.from_numpy(V + shift), 6, np.random.RandomState(0), 3, exchange)
        for shift in (0.0, 2.0**30)
    ]
    np.testing.assert_array_equal(*labels)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_finds_as_low_a_sum_and_repeats_itself():
    V = torch.from_numpy(without_clusters(2000, 8))
    found = [kmeans.kmeans(V.cuda(), 30, np.random.RandomState(0), 5, True) for _ in range(2)]
    np.testing.assert_array_equal(*found)
    on_cpu = kmeans.kmeans(V, 30, np.random.RandomState(0), 5, True)
    assert inertia(V.numpy(), found[0]) == pytest.approx(inertia(V.numpy(), on_cpu), rel=0.01)


def test_more_starts_go_lower_and_seeds_matter():
    V = without_clusters()
    results = {
        (seed, n): inertia(
            V, kmeans.kmeans(torch.from_numpy(V), 12, np.random.RandomState(seed), n)
        )
        for seed in range(4)
        for n in (1, 20)
    }
    assert len({results[seed, 1] for seed in range(4)}) == 4
    assert all(results[seed, 20] <= results[seed, 1] * (1 + 1e-9) for seed in range(4))
    assert sum(results[seed, 20] < results[seed, 1] for seed in range(4)) >= 2


def test_exchanges_improve_every_start():
    V = np.random.default_rng(5).normal(size=(400, 6))
    plain = kmeans.kmeans(torch.from_numpy(V), 20, np.random.RandomState(0), 3)
    better = kmeans.kmeans(torch.from_numpy(V), 20, np.random.RandomState(0), 3, exchange=True)
    assert inertia(V, better) < inertia(V, plain) * (1 - 1e-3)


def test_the_descent_does_not_end_earlier_far_from_the_origin():
    rng = np.random.default_rng(0)
    V = torch.from_numpy(np.round(64 * rng.normal(size=(400, 2))) / 64)  # exact in float32
    labels, centers = lloyd(V, V[:5])
    same, moved = lloyd(V + 8.0, V[:5] + 8.0)
    assert torch.equal(same, labels)
    torch.testing.assert_close(moved - 8.0, centers, rtol=0.0, atol=1e-9)


def test_an_empty_cluster_moves_to_the_row_farthest_from_its_center():
    V = torch.tensor([[0.0], [1.0], [10.0], [11.0], [30.0]], dtype=torch.float64)
    labels = torch.tensor([[0, 0, 1, 1, 1]])
    found = _filled(V, descent.Partitions.of(V[None], labels, 3), 0.0)
    assert found.labels.tolist() == [[0, 0, 1, 1, 2]]
    assert found.centers.flatten().tolist() == [0.5, 10.5, 30.0]


def test_a_sample_is_drawn_beyond_the_number_of_the_documentation(monkeypatch):
    assert (kmeans.LARGE, kmeans.SAMPLE) == (50_000, 20_000)
    monkeypatch.setattr(kmeans, "SAMPLE", 30)
    V, started = blobs(60)[0], []
    best = kmeans._best

    def record(V, *given):
        started.append(len(V))
        return best(V, *given)

    monkeypatch.setattr(kmeans, "_best", record)
    for large in (60, 59):
        monkeypatch.setattr(kmeans, "LARGE", large)
        kmeans.kmeans(V, 7, np.random.RandomState(0), 2)
    assert started == [60, 30]
