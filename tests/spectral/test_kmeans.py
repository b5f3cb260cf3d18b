"""k-means over many points: the descent, its agreement with scikit-learn, repeatability."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dcfsc.spectral import kmeans
from dcfsc.spectral.kmeans import lloyd


def blobs(n=3000, K=7, p=5, spread=0.15, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return torch.from_numpy(rng.normal(size=(K, p))[y] + spread * rng.normal(size=(n, p))), y


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_the_descent_ends_where_scikit_learns_does(K, p, seed):
    V, _ = blobs(200, 4, p, 0.3, seed)
    centres = V[:K].clone()
    labels, found = lloyd(V, centres)
    theirs = KMeans(K, init=centres.numpy(), n_init=1, algorithm="lloyd").fit(V.numpy())
    inertia = float((V - found[labels]).square().sum())
    assert inertia <= theirs.inertia_ * (1 + 1e-3) + 1e-12


def test_a_fixed_point_of_the_descent_is_one():
    V, _ = blobs()
    labels, centres = lloyd(V, V[:7].clone())
    means = torch.stack([V[labels == c].mean(0) for c in range(7)])
    assert float((means - centres).square().sum()) <= kmeans.TOLERANCE * float(V.var())
    distances = torch.cdist(V, centres)
    nearest = distances.min(1).values
    assert (distances.gather(1, labels[:, None])[:, 0] <= nearest + 1e-5).all()


def test_chunks_do_not_matter_and_runs_repeat(monkeypatch):
    V, _ = blobs()
    whole = lloyd(V, V[:7].clone())
    assert torch.equal(whole[1], lloyd(V, V[:7].clone())[1])
    monkeypatch.setattr(kmeans, "_CHUNK_ELEMENTS", {"cpu": 700})
    parts = lloyd(V, V[:7].clone())
    assert torch.equal(whole[0], parts[0])
    torch.testing.assert_close(whole[1], parts[1], atol=1e-6, rtol=1e-5)


def test_a_centre_without_points_stays():
    V, _ = blobs()
    far = torch.full((1, 5), 100.0, dtype=V.dtype)
    labels, centres = lloyd(V, torch.cat([V[:3], far]))
    assert torch.equal(centres[3], far[0])
    assert not (labels == 3).any()


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
def test_a_gpu_descends_to_the_same_centres():
    V, _ = blobs()
    labels, centres = lloyd(V, V[:7].clone())
    on_gpu = lloyd(V.cuda(), V[:7].cuda())
    assert torch.equal(labels, on_gpu[0].cpu())
    torch.testing.assert_close(centres, on_gpu[1].cpu(), atol=1e-6, rtol=1e-5)


def without_clusters(n=400, p=3):
    return np.random.default_rng(5).normal(size=(n, p))


def inertia(V, labels):
    return sum(
        float(((V[labels == c] - V[labels == c].mean(0)) ** 2).sum()) for c in np.unique(labels)
    )


def test_every_start_before_exchanges_is_another_one(monkeypatch):
    V, starts = without_clusters(), []

    def leave(V, start):
        starts.append(start)
        return start

    monkeypatch.setattr(kmeans, "improve", leave)
    labels = kmeans.kmeans(torch.from_numpy(V), 12, np.random.RandomState(0), 6, exchange=True)
    assert len(starts) == 6
    sums = [start.inertia for start in starts]
    assert len(set(sums)) == 6
    np.testing.assert_array_equal(labels, starts[int(np.argmin(sums))].labels)  # the lowest one
    again = kmeans.kmeans(torch.from_numpy(V), 12, np.random.RandomState(1), 6, exchange=True)
    assert not {start.inertia for start in starts[6:]} & set(sums)
    assert inertia(V, again) == pytest.approx(min(s.inertia for s in starts[6:]), rel=1e-2)


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
    V = without_clusters()
    plain = kmeans.kmeans(torch.from_numpy(V), 12, np.random.RandomState(0), 3)
    better = kmeans.kmeans(torch.from_numpy(V), 12, np.random.RandomState(0), 3, exchange=True)
    assert inertia(V, better) < inertia(V, plain) * (1 - 1e-4)


def test_centres_are_added_up_in_double_precision():
    V, _ = blobs()
    V = V.float()
    labels, centres = lloyd(V, V[:7].clone())
    assert centres.dtype == torch.float64
    labels_again, sums, counts = kmeans._assign_and_sum(V, centres)
    assert torch.equal(labels, labels_again)
    for c in range(7):
        torch.testing.assert_close(sums[c], V[labels == c].double().sum(0), rtol=1e-6, atol=1e-4)
        assert float(counts[c]) == int((labels == c).sum())


def test_the_descent_does_not_end_earlier_far_from_the_origin():
    rng = np.random.default_rng(0)
    V = torch.from_numpy(np.round(64 * rng.normal(size=(400, 2))) / 64)  # exact in float32
    labels, centres = lloyd(V, V[:5])
    same, moved = lloyd(V + 8.0, V[:5] + 8.0)
    assert torch.equal(same, labels)
    torch.testing.assert_close(moved - 8.0, centres, rtol=0.0, atol=1e-9)
