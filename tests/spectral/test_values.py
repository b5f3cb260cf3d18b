"""Spectral clustering at its edges: written-out values, NumPy's and SciPy's answers."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc.errors import InputError
from dcfsc.graphs.device_graph import read_on_device
from dcfsc.graphs.graph import ROUNDING, DenseAffinity, inverse_root
from dcfsc.graphs.reading import read_affinity
from dcfsc.spectral import assign, eigensolvers, embed
from dcfsc.spectral.assignment import cluster_qr, discretize
from dcfsc.spectral.eigensolvers import SOLVERS
from dcfsc.spectral.embedding import _preference

READERS = {
    "dense": read_affinity,
    "sparse": lambda A: read_affinity(sp.csr_array(A)),
    "device": lambda A: read_on_device(sp.csr_array(A), torch.device("cpu")),
}


def affinity(n, seed=0):
    A = np.random.default_rng(seed).uniform(0.1, 1.0, (n, n))
    A = A + A.T
    np.fill_diagonal(A, 0.0)
    return A


def start(n):
    return np.random.default_rng(0).uniform(-1.0, 1.0, n)


# --- the graph


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("weight", "count"), [(ROUNDING / 2, 2), (ROUNDING, 2), (2 * ROUNDING, 1)])
def test_a_link_connects_above_rounding_and_not_at_it(kind, weight, count):
    # The square root of 1 + eps is 1 in double precision: the link's normalized weight is eps.
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[1, 2] = weight
    assert READERS[kind](A + A.T).components.max() + 1 == count


@pytest.mark.parametrize("kind", READERS)
def test_a_link_is_measured_against_the_degrees_of_both_ends(kind):
    A = np.kron(np.eye(2), np.ones((50, 50)))
    for link, count in ((2e-15, 2), (2e-13, 1)):  # over degrees of 49: 4e-17 and 4e-15
        A[0, 50] = A[50, 0] = link
        labels = READERS[kind](A).components
        np.testing.assert_array_equal(labels, np.repeat([0, count - 1], 50))


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_the_inverse_root_of_no_degree_is_zero(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = inverse_root(kind(np.array([0.0, 0.25, 1.0, 4.0])))
    np.testing.assert_array_equal(root, [0.0, 2.0, 1.0, 0.5])


def test_symmetry_is_checked_in_every_block_of_a_large_matrix():
    n = 1030  # beyond one block of rows
    A = np.ones((n, n), dtype=np.float32)
    graph = read_affinity(A)
    np.testing.assert_array_equal(graph.degrees, np.full(n, n - 1.0))
    for i, j in ((3, 5), (3, 1028), (1028, 3), (1026, 1029)):
        A[i, j] = 0.5
        with pytest.raises(InputError, match="not symmetric"):
            read_affinity(A)
        A[i, j] = 1.0


@pytest.mark.parametrize("kind", ["sparse", "device"])
@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_sparse_products_are_also_single(kind, tau):
    A = affinity(12)
    S = READERS[kind](A).normalized(tau)
    A = A / A.max()
    root = 1.0 / np.sqrt(A.sum(1) + tau)
    expected = root[:, None] * (A + tau / 12) * root
    X = np.random.default_rng(1).normal(size=(12, 3))
    assert S.has_single
    single = S.apply(torch.from_numpy(X.astype(np.float32)))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, expected @ X, atol=1e-6)
    np.testing.assert_allclose(S.apply(torch.from_numpy(X)), expected @ X, atol=1e-13)


# --- the eigensolvers


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("tau", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("k", [1, 3, 23])
def test_lanczos_up_to_all_pairs_but_one(kind, tau, k):
    S = READERS[kind](affinity(24)).normalized(tau)
    values, vectors = SOLVERS["arpack"](S, k, 1e-12, start(24))
    expected = np.linalg.eigvalsh(S.dense().numpy())[::-1][:k]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    np.testing.assert_allclose(S.dense() @ vectors, vectors * values, atol=1e-10)


@pytest.mark.parametrize("n", [5, 6, 40])
def test_a_value_below_one_that_was_missed_is_noticed(n):
    spectrum = np.concatenate([[1.0, 0.9, 0.8], np.linspace(0.5, -0.5, n - 3)])
    S = DenseAffinity(torch.diag(torch.from_numpy(spectrum)))
    for found, missed in (((0, 1, 2), False), ((0, 2), True), ((0, 1, 3), True), ((1, 2), True)):
        at = list(found)
        values, vectors = torch.from_numpy(spectrum[at]), torch.eye(n, dtype=torch.float64)[:, at]
        assert eigensolvers._overlooked(S, values, vectors, start(n)) == missed, found


@pytest.mark.parametrize("a", [-2.0, -0.9, 0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("degree", [1, 5, 24])
def test_the_gain_is_a_chebyshev_polynomial(a, degree):
    inside = min(max(a, -0.9), 1.0 - 1e-8)
    at = (3.0 - inside) / (1.0 + inside)
    expected = np.polynomial.chebyshev.chebval(at, [0.0] * degree + [1.0])
    assert eigensolvers._gain(a, degree) == pytest.approx(expected, rel=1e-9)


def test_a_gain_beyond_double_precision_is_infinite():
    # acosh(39) = 4.3565: 160 times it is below 700, 163 times it beyond cosh's range.
    assert np.isfinite(eigensolvers._gain(-0.9, 160))
    assert eigensolvers._gain(-0.9, 164) == np.inf
    assert eigensolvers._gain(-0.9, 250) == np.inf


@pytest.mark.parametrize(("apart", "usable"), [(1e-5, True), (1e-7, False)])
def test_a_cholesky_round_is_left_where_it_would_lose_half_the_digits(apart, usable):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 4)))[0]
    V, W = torch.from_numpy(Q[:, :1]), torch.from_numpy(Q[:, 1:3].copy())
    W[:, 1] = W[:, 0] + apart * W[:, 1]
    made = eigensolvers._cholesky_round(V, W + V)
    assert (made is not None) == usable
    if usable:
        np.testing.assert_allclose(made.T @ made, np.eye(2), atol=1e-4)
        np.testing.assert_allclose(V.T @ made, 0.0, atol=1e-9)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("n", [20, 600])
@pytest.mark.parametrize("multiple", [True, False])
def test_every_solver_is_tried_once(solver, n, multiple):
    S = DenseAffinity(torch.eye(n, dtype=torch.float64))
    order = _preference(S, 3, solver, multiple)
    # "subspace" is for large graphs, and for those who name it
    assert sorted(order) == sorted({*SOLVERS} - {"subspace"} | {solver} - {"auto"})
    first = solver
    if solver == "auto":
        first = "eigh" if n == 20 else "block" if multiple else "arpack"
    assert order[0] == first


# --- the assignment


@pytest.fixture
def overlapping():
    rng = np.random.default_rng(3)
    X = 2.5 * np.eye(3)[np.arange(60) % 3] + rng.normal(size=(60, 3))
    A = np.exp(-((X[:, None] - X) ** 2).sum(2) / 2) * rng.uniform(0.2, 5.0, 60)
    return embed(np.sqrt(A * A.T), 7, random_state=0)


def test_cluster_qr_sees_as_many_vectors_as_clusters(overlapping):
    V = overlapping.vectors / np.sqrt(overlapping.degrees)[:, None]
    for K in (2, 3, 5):
        expected = np.unique(cluster_qr(V[:, :K]), return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(expected[1]))
        labels = assign(replace(overlapping, vectors=V), K, method="cluster_qr")
        np.testing.assert_array_equal(labels, rank[expected[2]])


def test_discretisation_starts_once(overlapping):
    ours, theirs = np.random.RandomState(5), np.random.RandomState(5)
    labels = assign(overlapping, 3, method="discretize", random_state=ours)
    V = overlapping.random_walk_vectors()[:, :3]
    expected = discretize(V / np.linalg.norm(V, axis=0), theirs)
    assert len(set(zip(labels, expected, strict=True))) == len(set(expected))
    assert ours.randint(1 << 30) == theirs.randint(1 << 30)  # as many numbers were drawn
