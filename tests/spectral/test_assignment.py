"""Labels from embeddings: the four methods, scikit-learn's scaling, degenerate rows."""

import inspect
import logging
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import cut_affinity as cluster
from sklearn.cluster import SpectralClustering, _spectral
from sklearn.metrics import adjusted_rand_score

from dcfsc.errors import InputError
from dcfsc.spectral import assign, assignment, embed, kmeans
from dcfsc.spectral.assignment import METHODS, spectral_filter


def same_partition(a, b):
    return adjusted_rand_score(a, b) == 1.0


def squares(V, labels):
    """The sum of squared distances of rows to the mean of their cluster."""
    return sum(V[labels == k].var(axis=0).sum() * (labels == k).sum() for k in np.unique(labels))


@pytest.fixture
def embedding(ring_of_clusters):
    A, y = ring_of_clusters(240, 6, noise=0.2)
    return embed(A, 6, random_state=0), y


@pytest.mark.parametrize("method", METHODS)
def test_planted_clusters_are_found(method, embedding):
    V, y = embedding
    labels = assign(V, 6, method=method, random_state=0)
    assert labels.dtype == np.int64
    assert labels.shape == (240,)
    assert same_partition(labels, y)


@pytest.mark.parametrize("method", METHODS)
def test_labels_count_from_zero_by_first_appearance(method, embedding):
    labels = assign(embedding[0], 6, method=method, random_state=1)
    _, first = np.unique(labels, return_index=True)
    assert labels[np.sort(first)].tolist() == list(range(6))


@pytest.mark.parametrize("method", ["kmeans", "cluster_qr", "discretize"])
@pytest.mark.parametrize("weighted", [False, True])
def test_partition_is_scikit_learns(method, weighted, ring_of_clusters):
    A = ring_of_clusters(200, 5, noise=0.6, seed=3)[0].toarray()
    if weighted:  # unequal degrees and self-loops, which must not change the agreement
        scale = np.random.default_rng(0).uniform(0.05, 3.0, 200)
        A = A * np.outer(scale, scale) + np.diag(scale)
    for seed in range(4):
        theirs = SpectralClustering(
            5, affinity="precomputed", assign_labels=method, random_state=seed
        ).fit_predict(A)
        random = np.random.RandomState(seed)
        E = embed(A, 5, random_state=random)
        V = E.random_walk_vectors()  # what scikit-learn groups
        if method == "kmeans":  # its starts are others; the minima that it finds are as low
            ours = kmeans.kmeans(torch.from_numpy(V), 5, random, 10)
            assert squares(V, ours) <= squares(V, theirs) * (1 + 1e-3)
            assert adjusted_rand_score(ours, theirs) > 0.95
        else:
            seen = E if method == "discretize" else replace(E, vectors=V)
            assert same_partition(assign(seen, 5, method=method, random_state=random), theirs)


@pytest.mark.parametrize("method", ["kmeans", "cluster_qr", "discretize", "filtered"])
def test_the_rows_that_are_grouped_are_those_of_the_documentation(method, embedding):
    """k-means sees all six eigenvectors, cluster_qr and discretize as many as clusters."""
    E = replace(embedding[0], degrees=np.linspace(1.0, 9.0, 240), tau=0.5)
    V, walk = E.vectors.copy(), E.vectors / np.sqrt(np.linspace(1.5, 9.5, 240))[:, None]
    if method == "discretize":
        expected = walk[:, :4] / np.linalg.norm(walk[:, :4], axis=0)
    elif method == "filtered":
        gaps = 1.0 - E.values
        expected = V * gaps[3] / (gaps[3] + gaps)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    elif method == "kmeans":
        expected = V / np.linalg.norm(V, axis=1, keepdims=True)
    else:
        expected = V[:, :4]
    by_kmeans = method in ("kmeans", "filtered")
    rows = (assignment.grouped_rows if by_kmeans else assignment._rows)(E, 4, method)
    np.testing.assert_allclose(rows, expected, rtol=1e-12)
    np.testing.assert_array_equal(E.vectors, V)


def test_discretize_depends_on_the_columns_lengths_alone(embedding):
    # The scaling that enters through scikit-learn's division by the degrees.
    V, _ = embedding
    U = V.random_walk_vectors()
    U /= np.linalg.norm(U, axis=0)
    rows = np.random.default_rng(0).uniform(0.1, 10, len(U))[:, None]
    seeds = [np.random.RandomState(5) for _ in range(2)]
    np.testing.assert_array_equal(
        assignment.discretize(U, seeds[0]), assignment.discretize(rows * U, seeds[1])
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(6, 40))
def test_rotations_do_not_change_the_partition(seed, K, n):
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(K), rng.integers(0, K, n - K))
    # Rows near K orthogonal axes, in a random orientation.
    V = (np.eye(K)[y] + rng.normal(scale=0.05, size=(n, K))) * rng.uniform(0.5, 2, (n, 1))
    Q = np.linalg.qr(rng.normal(size=(K, K)))[0]
    for rows in (V, V @ Q):
        assert same_partition(assignment.discretize(rows, np.random.RandomState(seed)), y)
        assert same_partition(assignment.cluster_qr(rows), y)


def agreement(V, labels):
    Xr = V / np.linalg.norm(V, axis=1, keepdims=True)
    M = np.zeros((V.shape[1], V.shape[1]))
    np.add.at(M, labels, Xr)
    return np.linalg.svd(M, compute_uv=False).sum()


def test_the_polar_factor_and_the_sum_of_singular_values(monkeypatch):
    M = np.random.default_rng(0).normal(size=(5, 5))
    U, s, Wt = np.linalg.svd(M)
    whole, drivers = assignment.scipy.linalg.svd, []

    def fails_at_first(M, lapack_driver="gesdd"):
        drivers.append(lapack_driver)
        if lapack_driver == "gesdd":
            raise assignment.scipy.linalg.LinAlgError
        return whole(M, lapack_driver=lapack_driver)

    for svd in (whole, fails_at_first):
        monkeypatch.setattr(assignment.scipy.linalg, "svd", svd)
        Q, total = assignment._polar(M)
        np.testing.assert_allclose(Q, U @ Wt, atol=1e-12)
        assert total == pytest.approx(s.sum(), rel=1e-12)
    assert drivers == ["gesdd", "gesvd"]


def test_the_rotation_starts_from_rows_as_orthogonal_as_there_are():
    a, b, c = np.eye(3)
    Xr = np.stack([a, 0.8 * a + 0.6 * b, b, 0.6 * b + 0.8 * c, c])
    # From the second row: c is orthogonal to it, and then b overlaps by 0.6, a by 0.8.
    np.testing.assert_array_equal(assignment._spread_rows(Xr, 1), np.stack([Xr[1], c, b], axis=1))


def test_the_alternation_ends_where_labels_and_rotation_agree():
    V = np.random.default_rng(1).normal(size=(60, 4))
    Xr = V / np.linalg.norm(V, axis=1, keepdims=True)
    R = assignment._spread_rows(Xr, 0)
    reached = [assignment._alternate(Xr, R, max_iter) for max_iter in range(8)]
    np.testing.assert_array_equal(reached[0][0], (Xr @ R).argmax(axis=1))
    for labels, total in reached:
        assert total == pytest.approx(agreement(V, labels), rel=1e-12)
    totals = [total for _, total in reached]
    assert totals == sorted(totals)
    assert totals[2] > totals[1] > totals[0]
    labels, _ = assignment._alternate(Xr, R, 200)
    M = np.eye(4)[labels].T @ Xr
    U, _, Wt = np.linalg.svd(M)
    np.testing.assert_array_equal((Xr @ (U @ Wt).T).argmax(axis=1), labels)


def test_small_discretisation_is_optimal():
    rng = np.random.default_rng(2)
    V = np.linalg.qr(rng.normal(size=(7, 2)))[0]
    best = max(agreement(V, np.array(labels)) for labels in product(range(2), repeat=7))
    random = np.random.RandomState(0)
    found = [agreement(V, assignment.discretize(V, random)) for _ in range(20)]
    assert max(found) == pytest.approx(best)


@pytest.mark.parametrize("method", METHODS)
def test_set_aside_points_join_the_largest_cluster(method, ring_of_clusters):
    A, y = ring_of_clusters(300, 3, noise=0.02, strays=2)
    big = np.flatnonzero((y != 1) | (np.arange(len(y)) % 2 == 0))  # cluster 1 is halved
    bigger = np.zeros((len(big) + 3, len(big) + 3))
    bigger[3:, 3:] = A.toarray()[np.ix_(big, big)]
    truth = np.append([-1, -1, -1], y[big])
    result = cluster(bigger, 3, assign=method, random_state=0)
    labels = result.labels
    assert result.embedding.isolated[:3].all()
    assert same_partition(labels[truth >= 0], truth[truth >= 0])
    largest = np.bincount(labels[truth >= 0]).argmax()
    assert (labels[truth < 0] == largest).all()


@pytest.mark.parametrize("method", METHODS)
def test_fewer_distinct_rows_than_clusters_give_fewer_clusters_and_say_so(method):
    V = embed(np.kron(np.eye(2), np.ones((10, 10))), 2, random_state=0)
    # An empty third column: two groups of equal rows are all that there is.
    vectors = np.column_stack([V.vectors, np.zeros(20)])
    V = replace(V, vectors=vectors, values=np.append(V.values, 0.0))
    with pytest.warns(UserWarning, match="2 clusters were found where 3"):
        labels = assign(V, 3, method=method, random_state=0)
    assert same_partition(labels, np.repeat([0, 1], 10))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("length", "label"), [(0.7e-13, 1), (1.5e-13, 0)])
def test_a_row_of_rounding_errors_alone_joins_the_largest_cluster(method, length, label):
    V = embed(np.kron(np.eye(2), np.ones((10, 10))), 2, random_state=0)
    kept = {"degrees": V.degrees[3:], "isolated": V.isolated[3:], "set_aside": V.set_aside[3:]}
    vectors = V.vectors[3:].copy()  # seven points in the first cluster, ten in the second
    vectors[6] *= length / np.linalg.norm(vectors[6])
    labels = assign(replace(V, vectors=vectors, **kept), 2, method=method, random_state=0)
    np.testing.assert_array_equal(labels, [0] * 6 + [label] + [1] * 10)


@pytest.mark.parametrize("method", METHODS)
def test_as_many_clusters_as_points(method):
    A = np.random.default_rng(0).random((6, 6))
    assert cluster(A + A.T, 6, assign=method).labels.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("method", METHODS)
def test_one_cluster(method, embedding):
    assert not assign(embedding[0], 1, method=method).any()


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 25), st.floats(0.02, 1.0), st.integers(0, 10_000), st.data())
def test_every_graph_gets_labels(n, density, seed, data):
    rng = np.random.default_rng(seed)
    A = (rng.random((n, n)) < density).astype(float)
    A[0, 1] = 1.0
    A = np.maximum(A, A.T)
    K = data.draw(st.integers(1, n))
    for method in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            labels = cluster(sp.csr_array(A), K, assign=method, n_init=1, random_state=0).labels
        assert labels.shape == (n,)
        assert 0 <= labels.min() <= labels.max() < K


def test_large_inputs_seed_kmeans_on_a_sample(monkeypatch, caplog, embedding):
    V, y = embedding
    monkeypatch.setattr(kmeans, "LARGE", 100)
    monkeypatch.setattr(kmeans, "SAMPLE", 60)
    with caplog.at_level(logging.INFO, logger="dcfsc"):
        labels = assign(V, 6, random_state=0)
    assert same_partition(labels, y)
    assert "60 of 240 rows" in caplog.text


@pytest.mark.parametrize("method", METHODS)
def test_seeds_fix_labels_and_leave_global_state_alone(method, embedding):
    V, _ = embedding
    numpy_state, torch_state = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    first, second, *_ = [
        assign(V, 5, method=method, random_state=seed)
        for seed in (7, 7, np.random.RandomState(7), np.random.default_rng(7), None)
    ]
    np.testing.assert_array_equal(first, second)
    for now, before in zip(np.random.get_state(), numpy_state, strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(now, before)
    assert torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.parametrize(
    ("n_clusters", "options", "message"),
    [
        (0, {}, "n_clusters"),
        (241, {}, "only 240 points"),
        (2.0, {}, "n_clusters"),
        (7, {"method": "cluster_qr"}, "needs 7 eigenvectors"),
        (7, {"method": "discretize"}, "needs 7 eigenvectors"),
        (6, {"method": "kmean"}, "Did you mean 'kmeans'"),
        (7, {"method": "filtered"}, "needs 7 eigenvectors"),
        (6, {"n_init": 0}, "n_init"),
        (6, {"n_init": True}, "n_init"),
        (True, {}, "n_clusters"),
    ],
)
def test_unusable_options_are_one_line_errors(n_clusters, options, message, embedding):
    with pytest.raises(InputError, match=message) as caught:
        assign(embedding[0], n_clusters, **options)
    assert "\n" not in str(caught.value)


def test_the_filter_is_the_resolvent_of_the_laplacian():
    values = np.array([1.0, 0.99, 0.96, 0.92, 0.5])
    weights = spectral_filter(values, 3)
    np.testing.assert_allclose(weights, 0.04 / (0.04 + 1 - values), rtol=1e-12)
    assert weights[0] == 1.0
    assert weights[2] == pytest.approx(0.5)
    # Three pieces: their indicators count, and what divides a piece does not. Rounding is no gap.
    pieces = spectral_filter(np.array([1.0 + 1e-15, 1.0, 1.0 - 1e-15, 0.9, 0.8]), 3)
    np.testing.assert_allclose(pieces, [1, 1, 1, 0, 0], atol=1e-5)
    nearly = spectral_filter(np.array([1.0, 1.0, 1.0 - 3e-9]), 2)
    np.testing.assert_allclose(nearly, [1, 1, 0.25], rtol=1e-6)


@pytest.mark.parametrize(("touching", "displaced"), [(3e-3, False), (6e-3, True)])
def test_a_small_group_displaces_a_cluster_only_where_that_hardly_stands_apart(touching, displaced):
    """Two clusters of 100 that touch, a third, and ten points that hardly hang on to it."""
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [100, 100, 100, 10])
    links = np.array(
        [[0.3, touching, 0, 0], [touching, 0.3, 1e-3, 0], [0, 1e-3, 0.3, 2e-3], [0, 0, 2e-3, 0.9]]
    )
    upper = np.triu(random.random((310, 310)) < links[np.ix_(y, y)], 1)
    A = sp.csr_array((upper + upper.T).astype(float))
    clusters, group_alone = np.where(y == 3, 2, y), np.array([0, 0, 1, 2])[y]
    by_kmeans = cluster(A, 3, assign="kmeans", random_state=0).labels
    assert same_partition(by_kmeans, group_alone)
    result = cluster(A, 3, assign="filtered", random_state=0)
    assert same_partition(result.labels, group_alone if displaced else clusters)
    assert result.embedding.vectors.shape == (310, 6)
    # It is the filtered rows that say so, and no chance of k-means.
    V = assignment.grouped_rows(result.embedding, 3, "filtered").numpy()
    of_clusters, of_group = (
        sum(((V[labels == k] - V[labels == k].mean(axis=0)) ** 2).sum() for k in range(3))
        for labels in (clusters, group_alone)
    )
    assert (of_group < of_clusters) == displaced


def test_filtered_looks_at_no_more_eigenvectors_than_there_are(blocks):
    A, y = blocks([2, 2, 2])
    assert same_partition(cluster(A, 3, assign="filtered", random_state=0).labels, y)
    assert len(set(cluster(A, 5, assign="filtered", random_state=0).labels)) <= 5


def test_the_alternation_takes_as_many_steps_as_scikit_learns():
    ours, theirs = inspect.signature(assignment._alternate), inspect.signature(_spectral.discretize)
    assert ours.parameters["max_iter"].default == theirs.parameters["n_iter_max"].default


@pytest.mark.parametrize("method", ["kmeans", "filtered"])
def test_what_kmeans_is_asked_for(method, monkeypatch, embedding):
    """Ten starts unless told otherwise, exchanges for "filtered" alone, on the device asked for."""
    asked = []

    def record(V, K, random, n_init, exchange=False):
        asked.append((V.device.type, tuple(V.shape), K, n_init, exchange))
        return np.arange(len(V)) % K

    monkeypatch.setattr(assignment, "kmeans", record)
    V = embedding[0]
    lonely = np.arange(240) < 3
    assign(V, 6, method=method)
    assign(replace(V, set_aside=lonely), 5, method=method, n_init=3, device="meta")
    filtered = method == "filtered"
    assert asked == [("cpu", (240, 6), 6, 10, filtered), ("meta", (237, 6), 5, 3, filtered)]
    asked.clear()
    A = np.kron(np.eye(3), np.ones((8, 8))) + 0.01
    for options in ({}, {"device": "cpu"}, {"device": "cpu", "n_init": 4}):
        cluster(A, 3, assign=method, **options)
    assert [(place, n_init) for place, _, _, n_init, _ in asked] == [
        ("cpu", 10),
        ("cpu", 10),
        ("cpu", 4),
    ]


def test_ten_starts_are_drawn_unless_told_otherwise():
    """The same numbers are drawn, and so is the next one."""
    A = np.random.default_rng(0).random((30, 30))
    drawn = []
    for options in ({}, {"n_init": 10}, {"n_init": 11}):
        random = np.random.RandomState(0)
        cluster(A + A.T, 3, random_state=random, **options)
        drawn.append(random.randint(1 << 30))
    assert drawn[0] == drawn[1] != drawn[2]


def test_as_many_points_as_clusters_get_one_each_though_their_rows_are_the_same():
    """One eigenvector of two linked points has one direction for both; nothing is to be said."""
    V = embed(np.ones((2, 2)), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assign(V, 2, random_state=0).tolist() == [0, 1]


@pytest.mark.parametrize("method", METHODS)
def test_no_evidence_at_all_is_one_cluster(method):
    V = embed(np.ones((5, 5)), 2)
    with pytest.warns(UserWarning, match="1 clusters were found where 2"):
        labels = assign(replace(V, set_aside=np.ones(5, dtype=bool)), 2, method=method)
    assert labels.tolist() == [0] * 5
