"""Subspace iteration in float32 on graphs whose eigenpairs a dense factorization in float64 has."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from dcfsc import spectral
from dcfsc.graphs import graph as graphs
from dcfsc.graphs.graph import DenseAffinity, NormalizedAffinity
from dcfsc.graphs.reading import read_affinity
from dcfsc.spectral import eigensolvers, embedding
from dcfsc.spectral.eigensolvers import SOLVERS, residuals, subspace

TOL = 1e-6


def start(n, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, n)


def reference(S):
    values, vectors = np.linalg.eigh(S.dense().numpy())
    return values[::-1], vectors[:, ::-1]


def clouds(n, K=6, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = 2.2 * np.eye(K)[rng.integers(0, K, n)][:, :4] + rng.normal(scale=spread, size=(n, 4))
    A = kneighbors_graph(X, 7)
    return sp.csr_array(A + A.T)


def near_ties(n, bridge=1e-4):
    """Four copies of one graph, and the first node of each joined to the next one's."""
    A = sp.block_diag([clouds(n // 4)] * 4).tolil()
    for i in range(3):
        a, b = i * (n // 4), (i + 1) * (n // 4)
        A[a, b] = A[b, a] = bridge
    return sp.csr_array(A)


@pytest.fixture
def graph(request, ring_of_clusters, blocks):
    make = {
        "clouds": lambda: clouds(900),
        "ring": lambda: ring_of_clusters(1500, 8, noise=0.3)[0],
        "pieces": lambda: blocks([60, 90, 40, 50] * 3)[0],
        "near ties": lambda: near_ties(1000),
        "small": lambda: clouds(500, spread=0.2),
    }
    return make[request.param]()


EVERY = pytest.mark.parametrize(
    "graph", ["clouds", "ring", "pieces", "near ties", "small"], indirect=True
)


@EVERY
@pytest.mark.parametrize("tau", [0.0, 0.05])
def test_pairs_are_those_of_the_dense_factorization(graph, tau):
    S = read_affinity(graph).normalized(tau)
    k = 12
    values, vectors = subspace(S, k, TOL, start(S.n))
    assert (values.dtype, vectors.dtype) == (torch.float64, torch.float32)
    assert vectors.shape == (S.n, k)
    V, dense = vectors.double().numpy(), S.dense().numpy()
    assert np.linalg.norm(dense @ V - V * values.numpy(), axis=0).max() <= TOL
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-6)
    expected, basis = reference(S)
    np.testing.assert_allclose(values, expected[:k], atol=1e-7)
    # Eigenvectors are known as far as their values stand apart.
    for j in np.flatnonzero(-np.diff(expected[: k + 1]) > 1e-3):
        seen, theirs = V[:, : j + 1], basis[:, : j + 1]
        np.testing.assert_allclose(seen @ seen.T, theirs @ theirs.T, atol=1e-3)
    in_double = SOLVERS["block"](S, k, 1e-9, start(S.n))
    np.testing.assert_allclose(values, in_double[0], atol=1e-7)


@EVERY
def test_residuals_by_parts_are_those_of_the_whole(graph, monkeypatch):
    S = read_affinity(graph).normalized(0.0)
    values, vectors = subspace(S, 12, TOL, start(S.n))
    R = S.dense() @ vectors.double() - vectors.double() * values
    expected = torch.linalg.vector_norm(R, dim=0)
    for least in (1, 5, 100):
        monkeypatch.setattr(eigensolvers, "LEAST_COLUMNS", least)
        monkeypatch.setattr(eigensolvers, "_PART_ELEMENTS", {"cpu": 1})
        torch.testing.assert_close(residuals(S, values, vectors), expected, atol=1e-14, rtol=1e-9)
    assert residuals(S, values, vectors).max() == pytest.approx(float(expected.max()), rel=1e-9)


def test_every_vector_is_as_exact_as_its_own_tolerance(monkeypatch):
    """The loose ones are filtered less."""
    S = read_affinity(clouds(1500)).normalized(0.0)
    work = []
    whole = eigensolvers._chebyshev_filter

    def record(S, X, degree, a):
        work.append(X.shape[1] * degree)
        return whole(S, X, degree, a)

    monkeypatch.setattr(eigensolvers, "_chebyshev_filter", record)
    done = []
    for loose in (TOL, 1e-2):
        work.clear()
        tol = torch.tensor([TOL] * 6 + [loose] * 6, dtype=torch.float64)
        values, vectors = subspace(S, 12, tol, start(1500))
        found = residuals(S, values, vectors)
        assert (found <= tol).all()
        done.append(sum(work))
    assert found[6:].max() > 10 * TOL
    assert done[1] < done[0]


def test_what_a_column_adds_beside_its_block_is_bounded():
    S = NormalizedAffinity()
    S.device = torch.device("cpu")
    for n, k in ((100, 7), (1 << 20, 40), (1 << 14, 130)):
        S.n = n
        parts = list(eigensolvers.columns(S, k))
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(k))
        widest = max(part.stop - part.start for part in parts)
        assert widest <= max(eigensolvers.LEAST_COLUMNS, (1 << 20) // n)


def test_the_filter_by_parts_is_the_filter(monkeypatch):
    S = read_affinity(clouds(500)).normalized(0.05)
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 9)))
    whole = eigensolvers._chebyshev_filter(S, X.clone(), 9, 0.4)
    monkeypatch.setattr(eigensolvers, "LEAST_COLUMNS", 2)
    monkeypatch.setattr(eigensolvers, "_PART_ELEMENTS", {"cpu": 1})
    given = X.clone()
    parts = eigensolvers._chebyshev_filter(S, given, 9, 0.4)
    torch.testing.assert_close(parts, whole, atol=1e-13, rtol=1e-12)
    assert parts is given


@pytest.mark.parametrize("count", [3, 20, 60])
def test_a_lanczos_run_says_where_so_many_eigenvalues_lie_above(count):
    S = read_affinity(clouds(1500)).normalized(0.0)
    expected, _ = reference(S)
    edge = eigensolvers._edge(S, count, start(1500))
    assert count / 3 <= (expected > edge).sum() <= 3 * count


def test_ritz_values_of_dependent_columns():
    """A direction that is only rounding gets a value near 0, the others keep theirs."""
    S = read_affinity(clouds(500)).normalized(0.0)
    expected, basis = reference(S)
    mixed = basis[:, :6] @ np.random.default_rng(0).normal(size=(6, 6))
    X = torch.from_numpy(np.concatenate([mixed, mixed[:, :2] + mixed[:, 2:4]], axis=1)).float()
    theta = eigensolvers._rayleigh_ritz(S, X)
    np.testing.assert_allclose(theta[:6], expected[:6], atol=1e-6)
    assert (residuals(S, theta[:6], X[:, :6]) < 1e-5).all()


def test_first_blocks_depend_on_the_start_alone(monkeypatch):
    S = DenseAffinity(torch.empty(4000, 0))
    X = eigensolvers._scattered_block(start(4000), 5, S)
    assert (X.dtype, X.shape) == (torch.float32, (4000, 5))
    assert X.abs().max() <= 0.5
    np.testing.assert_allclose(X.mean(0), 0.0, atol=0.02)
    np.testing.assert_allclose(X.T @ X / 4000, np.eye(5) / 12, atol=0.006)
    monkeypatch.setattr(eigensolvers, "LEAST_COLUMNS", 2)
    monkeypatch.setattr(eigensolvers, "_PART_ELEMENTS", {"cpu": 1})
    assert torch.equal(X, eigensolvers._scattered_block(start(4000), 5, S))
    # The first ones are the seed.
    order = np.append(np.arange(8), 8 + np.random.default_rng(1).permutation(3992))
    assert torch.equal(X[order], eigensolvers._scattered_block(start(4000)[order], 5, S))
    assert not torch.equal(X, eigensolvers._scattered_block(start(4000, 1), 5, S))


@pytest.mark.parametrize("mkl", [True, False])
@pytest.mark.parametrize("tau", [0.0, 0.4])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_products_are_added_in_place(mkl, tau, kind, monkeypatch):
    monkeypatch.setattr(graphs.torch.backends.mkl, "is_available", lambda: mkl)
    S = read_affinity(clouds(500)).normalized(tau)
    rng = np.random.default_rng(0)
    X, out = (torch.from_numpy(rng.normal(size=(500, 3))).to(kind) for _ in range(2))
    expected = 1.7 * S.dense() @ X.double() - 0.3 * out.double()
    held = out.data_ptr()
    S.accumulate(out, X, 1.7, -0.3)
    assert out.data_ptr() == held
    close = 1e-5 if kind == torch.float32 else 1e-13
    np.testing.assert_allclose(out, expected, atol=close)
    dense = DenseAffinity(S.dense())
    again = torch.zeros(500, 3, dtype=torch.float64)
    dense.accumulate(again, X.double(), 2.0, 1.0)
    np.testing.assert_allclose(again, 2.0 * S.dense() @ X.double(), atol=1e-12)


@pytest.mark.parametrize("tol", [1e-7, 1e-9])
def test_float32_is_left_to_others_where_it_is_not_enough(tol):
    S = read_affinity(clouds(500)).normalized(0.0)
    assert subspace(S, 6, tol, start(500)) is None
    assert subspace(DenseAffinity(S.dense()), 6, TOL, start(500)) is None


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.2])
def test_large_graphs_get_the_labels_of_exact_eigenvectors(noise, monkeypatch, ring_of_clusters):
    A, _ = ring_of_clusters(4000, 8, noise=noise)
    exact = spectral.embed(A, 16, n_clusters=8, random_state=0)
    assert exact.vectors.dtype == np.float64
    labels = spectral.assign(exact, 8, method="filtered", random_state=0)
    monkeypatch.setattr(embedding, "LARGE", 1000)
    single = spectral.embed(A, 16, n_clusters=8, random_state=0)
    assert (single.solver, single.vectors.dtype) == ("subspace", np.float32)
    assert single.residual <= TOL
    theirs = spectral.assign(single, 8, method="filtered", random_state=0)
    assert adjusted_rand_score(labels, theirs) >= 0.999
    sure, same = (
        spectral.memberships(E, labels, 8, A, "filtered").confidence.mean() for E in (exact, single)
    )
    assert sure == pytest.approx(same, abs=1e-3)
