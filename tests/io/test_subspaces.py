from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orth, subspace_angles

from dcfsc.errors import InputError
from dcfsc.io import load, synthetic


def bases(data, affine=False):
    """An orthonormal basis of each cluster's (direction) space, from its points."""
    spans = []
    for k in range(data.n_classes):
        points = data.X[data.y == k].astype(np.float64)
        spans.append(orth((points - points.mean(0) if affine else points).T, rcond=1e-5))
    return spans


@given(
    K=st.integers(1, 5),
    m=st.integers(1, 6),
    extra=st.integers(1, 10),
    overlap=st.floats(0, 0.99),
    affine=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_dimensions_and_common_directions(K, m, extra, overlap, affine, seed):
    shared = min(round(overlap * m), m - 1)
    D = shared + K * (m - shared) + extra  # room for the subspaces' own parts to be independent
    data = synthetic(K * 40, K, m, D, overlap=overlap, affine=affine, random_state=seed)
    spans = bases(data, affine)
    assert [U.shape for U in spans] == [(D, m)] * K
    for i in range(K):
        for j in range(i):
            angles = subspace_angles(spans[i], spans[j])
            assert np.sum(angles < 1e-3) == shared
    joint = np.linalg.matrix_rank(np.hstack(spans), tol=1e-4)
    assert joint == shared + K * (m - shared)


def test_affine_clusters_miss_the_origin():
    data = synthetic(200, 4, 3, 20, affine=True, random_state=0)
    for k, U in enumerate(bases(data, affine=True)):
        center = data.X[data.y == k].astype(np.float64).mean(0)
        offset = center - U @ (U.T @ center)
        assert np.linalg.norm(offset) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("D", [4, 50])
@pytest.mark.parametrize("affine", [False, True])
def test_noise_is_relative_to_each_point(D, affine):
    n = 20000
    settings = {
        "n_samples": n,
        "n_clusters": 1,
        "subspace_dim": 2,
        "ambient_dim": D,
        "affine": affine,
    }
    noisy = synthetic(**settings, noise=0.1, random_state=3, dtype=np.float64)
    clean = synthetic(**settings, random_state=3, dtype=np.float64)
    # the same seed draws the same subspace and coefficients before the first noise
    ratio = np.linalg.norm(noisy.X - clean.X, axis=1) / np.linalg.norm(clean.X, axis=1)
    spread = 0.1 / np.sqrt(2 * D)  # standard deviation of the noise's norm, to first order
    assert ratio.mean() == pytest.approx(0.1, abs=6 * spread / np.sqrt(n))
    big = np.linalg.norm(clean.X, axis=1) > np.median(np.linalg.norm(clean.X, axis=1))
    assert ratio[big].mean() == pytest.approx(ratio[~big].mean(), abs=12 * spread / np.sqrt(n))


def test_signal_has_unit_mean_square():
    X = synthetic(20000, 4, 8, 30, random_state=0).X
    assert np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)) == pytest.approx(1, abs=0.03)


def test_seed_decides_everything():
    a = synthetic(300, noise=0.1, random_state=5)
    b = synthetic(300, noise=0.1, random_state=5)
    c = synthetic(300, noise=0.1, random_state=6)
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.X, c.X)


def test_random_states_of_numpy_and_the_global_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    a = synthetic(50, random_state=np.random.RandomState(1))
    b = synthetic(50, random_state=np.random.RandomState(1))
    np.testing.assert_array_equal(a.X, b.X)
    c = synthetic(50, random_state=np.random.default_rng(1))
    d = synthetic(50, random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(c.X, d.X)
    synthetic(50)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_shuffled_and_typed():
    data = synthetic(1000, 5, random_state=0)
    assert data.X.dtype == np.float32
    assert data.y.dtype == np.int64
    assert data.X.flags.c_contiguous
    changes = np.count_nonzero(np.diff(data.y))
    assert 700 < changes < 900  # four in five neighbors differ when the order is random
    assert synthetic(20, dtype=np.float64).X.dtype == np.float64


@given(
    n=st.integers(1, 500),
    K=st.integers(1, 20),
    unbalanced=st.floats(0, 0.99),
    seed=st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_cluster_sizes(n, K, unbalanced, seed):
    n += K
    data = synthetic(n, K, 1, 3, unbalanced=unbalanced, random_state=seed)
    sizes = np.bincount(data.y, minlength=K)
    assert sizes.sum() == n
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1 or unbalanced > 0
    assert np.all(np.diff(sizes) <= 1)


def test_unbalanced_ratio():
    sizes = np.bincount(synthetic(100_000, 6, 1, 2, unbalanced=0.9).y)
    assert sizes.min() / sizes.max() == pytest.approx(0.1, abs=0.001)


def test_working_memory_is_bounded():
    tracemalloc.start()
    try:
        data = synthetic(400_000, 2, 4, 64, noise=0.1, random_state=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.8 * data.X.nbytes


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_samples": 3, "n_clusters": 4}, "n_samples=3"),
        ({"n_clusters": 2.5}, "n_clusters=2.5"),
        ({"subspace_dim": 51}, "subspace_dim=51"),
        ({"subspace_dim": 50, "affine": True}, "at most 49"),
        ({"noise": -1}, "noise=-1"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"overlap": 1.0}, "overlap=1.0"),
        ({"overlap": -0.1}, "overlap=-0.1"),
        ({"unbalanced": 1}, "unbalanced=1"),
        ({"dtype": np.int32}, "dtype=int32"),
        ({"random_state": "a"}, "random_state='a'"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_wrong_values_are_named(wrong, named):
    with pytest.raises(InputError, match=named.replace(".", r"\.")) as error:
        synthetic(**wrong)
    assert "\n" not in str(error.value)


def test_by_name():
    data = load("synthetic", n_samples=30, n_clusters=3, random_state=1)
    assert data.X.shape == (30, 50)
    assert data.n_classes == 3
    assert "union of 3 subspaces" in data.notes
    with pytest.raises(InputError, match=r"unknown option 'clusters'.*n_clusters"):
        load("synthetic", clusters=3)
