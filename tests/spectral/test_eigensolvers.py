"""One contract for every eigensolver: the k largest pairs, orthonormal, within tolerance."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.neighbors import kneighbors_graph

from dcfsc.graphs.reading import read_affinity
from dcfsc.spectral import eigensolvers
from dcfsc.spectral.eigensolvers import SOLVERS, residuals

N, K = 240, 6
DOUBLE = [name for name in SOLVERS if name != "subspace"]  # which has tests of its own


def start(n=N, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, n)


def reference(S, k):
    values, vectors = np.linalg.eigh(S.dense().numpy())
    return values[::-1][:k], vectors[:, ::-1][:, :k]


@pytest.mark.parametrize("name", DOUBLE)
@pytest.mark.parametrize("tau", [0.0, 0.5])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_array.toarray])
def test_largest_pairs(name, tau, kind, ring_of_clusters):
    A, _ = ring_of_clusters(N, K, noise=0.3)
    S = read_affinity(kind(A)).normalized(tau)
    values, vectors = SOLVERS[name](S, K, 1e-9, start())
    expected, basis = reference(S, K)
    np.testing.assert_allclose(values.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(K), atol=1e-10)
    np.testing.assert_allclose(vectors @ vectors.T, basis @ basis.T, atol=1e-6)
    assert residuals(S, values, vectors).max() <= 1e-9


@pytest.mark.parametrize("name", DOUBLE)
def test_every_copy_of_a_multiple_eigenvalue_is_found_or_none_is_claimed(name, blocks):
    A, y = blocks([20] * 12)
    S = read_affinity(A).normalized(0.0)
    pairs = SOLVERS[name](S, 12, 1e-9, start())
    if pairs is None:
        # One Lanczos vector may miss copies; it must then not pass off what it has as the answer.
        assert name == "arpack"
        return
    np.testing.assert_allclose(pairs[0].numpy(), 1.0, atol=1e-10)
    projector = (pairs[1] @ pairs[1].T).numpy()
    # The space of the value 1 is spanned by D^1/2 times the indicators of the blocks.
    root = np.sqrt(S_degrees(A))
    indicator = root[:, None] * (y[:, None] == np.arange(12))
    indicator /= np.linalg.norm(indicator, axis=0)
    np.testing.assert_allclose(projector, indicator @ indicator.T, atol=1e-7)


def S_degrees(A):
    A = A.toarray()
    np.fill_diagonal(A, 0.0)
    return A.sum(1)


def test_a_missed_copy_is_noticed(blocks):
    A, _ = blocks([20] * 12)
    S = read_affinity(A).normalized(0.0)
    values, vectors = map(torch.from_numpy, (a.copy() for a in reference(S, 13)))
    whole = eigensolvers._overlooked(S, values[:12], vectors[:, :12], start())
    keep = [i for i in range(13) if i != 4]
    missed = eigensolvers._overlooked(S, values[keep], vectors[:, keep], start())
    assert not whole
    assert missed


@pytest.mark.parametrize("name", ["arpack", "block", "subspace"])
def test_a_solver_that_does_not_apply_says_so(name):
    S = read_affinity(np.ones((5, 5))).normalized(0.0)
    assert SOLVERS[name](S, 5, 1e-9, start(5)) is None


@pytest.mark.parametrize(("k", "least"), [(2, 18), (18, 66), (20, 75)])
def test_a_block_has_room_for_three_of_itself(k, least):
    """A block is a quarter wider than k, and by four vectors at least."""
    A = np.random.default_rng(0).random((least, least))
    for n in (least - 1, least):
        S = read_affinity(A[:n, :n] + A[:n, :n].T).normalized(0.0)
        pairs = SOLVERS["block"](S, k, 1e-9, start(n))
        assert (pairs is not None) == (n == least)
    np.testing.assert_allclose(pairs[0], reference(S, k)[0], atol=1e-9)
    assert residuals(S, *pairs).max() <= 1e-9


def test_the_start_fixes_the_result(ring_of_clusters):
    A, _ = ring_of_clusters(N, K)
    S = read_affinity(A).normalized(0.0)
    for name, solver in SOLVERS.items():
        tol = 1e-8 if name in DOUBLE else 1e-6
        first, second = solver(S, K, tol, start()), solver(S, K, tol, start())
        assert torch.equal(first[1], second[1])


@pytest.fixture
def neighbor_graph():
    """Seven nearest neighbors of six overlapping clouds: a spectrum without gaps close to 1."""
    rng = np.random.default_rng(0)
    X = 2.2 * np.eye(6)[rng.integers(0, 6, 900)][:, :4] + rng.normal(scale=0.5, size=(900, 4))
    A = kneighbors_graph(X, 7)
    return sp.csr_array(A + A.T)


def filters_used(monkeypatch):
    used = []
    whole = eigensolvers._chebyshev_filter

    def record(S, X, degree, a):
        used.append((X.dtype, X.shape[1]))
        return whole(S, X, degree, a)

    monkeypatch.setattr(eigensolvers, "_chebyshev_filter", record)
    return used


@pytest.mark.parametrize("tau", [0.0, 0.05])
@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-10])
def test_the_filter_is_single_at_first_and_double_for_the_last_digits(
    tau, tol, monkeypatch, neighbor_graph
):
    filters = filters_used(monkeypatch)
    S = read_affinity(neighbor_graph).normalized(tau)
    values, vectors = SOLVERS["block"](S, K, tol, start(900))
    used = [dtype for dtype, _ in filters]
    assert torch.float32 in used
    assert used[-1] == (torch.float64 if tol < eigensolvers.SINGLE_RESIDUAL else torch.float32)
    assert values.dtype == vectors.dtype == torch.float64
    assert residuals(S, values, vectors).max() <= tol
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(K), atol=1e-12)
    # The eigenvalues' error is of second order in the residual, over the gap.
    np.testing.assert_allclose(values, reference(S, K)[0], atol=max(tol**2 / 1e-3, 1e-12))


def test_a_filter_that_lifts_too_much_is_double_from_the_start(monkeypatch, blocks):
    """Beside two eigenvalues 1 the third lies far inside: single precision never found it."""
    used = filters_used(monkeypatch)
    S = read_affinity(blocks([300, 300])[0]).normalized(0.0)
    values, vectors = SOLVERS["block"](S, 3, 1e-8, start(600))
    assert residuals(S, values, vectors).max() <= 1e-8
    np.testing.assert_allclose(values, reference(S, 3)[0], atol=1e-12)
    assert {dtype for dtype, _ in used} == {torch.float64}


@pytest.mark.parametrize(("tol", "filters"), [(1e-6, 5), (1e-10, 7)])
def test_few_filters_are_enough_and_the_last_leave_out_what_has_converged(
    tol, filters, monkeypatch, neighbor_graph
):
    """Each takes a block of ten vectors at most: nearly all of the time goes into them.

    It is one less, unless another BLAS rounds otherwise.
    """
    used = filters_used(monkeypatch)
    S = read_affinity(neighbor_graph).normalized(0.0)
    SOLVERS["block"](S, K, tol, start(900))
    assert len(used) <= filters
    assert sum(columns for _, columns in used) < 9 * filters


@pytest.mark.parametrize("n", [40, 5000])
def test_orthonormal_bases_of_dependent_columns(n):
    rng = np.random.default_rng(0)
    V = torch.linalg.qr(torch.from_numpy(rng.normal(size=(n, 4)))).Q
    independent = torch.from_numpy(rng.normal(size=(n, 6)))
    nearly = independent.clone()
    nearly[:, 3] = nearly[:, 2] + 1e-9 * nearly[:, 3]
    dependent = independent.clone()
    dependent[:, 5] = dependent[:, 0]
    inside = torch.cat([V[:, :2], independent], dim=1)
    for W in (independent, nearly, dependent, inside, 1e-200 * independent):
        Q = eigensolvers._orthonormal_against(V, W)
        np.testing.assert_allclose(Q.T @ Q, np.eye(W.shape[1]), atol=1e-12)
        np.testing.assert_allclose(V.T @ Q, 0.0, atol=1e-12)
        if W is not dependent and W is not inside:
            left = W - V @ (V.T @ W)
            left /= left.abs().amax(dim=0)
            np.testing.assert_allclose(Q @ (Q.T @ left), left, atol=1e-7)


def test_random_blocks_are_centered_and_depend_on_the_start_alone():
    W = eigensolvers._random_block(start(5000), 3, torch.device("cpu"))
    assert W.shape == (5000, 3)
    assert W.dtype == torch.float64
    assert W.min() >= -0.5
    assert W.max() < 0.5
    np.testing.assert_allclose(W.mean(0), 0.0, atol=0.02)
    assert torch.equal(W, eigensolvers._random_block(start(5000), 3, torch.device("cpu")))
    other = eigensolvers._random_block(start(5000, seed=1), 3, torch.device("cpu"))
    assert not (other == W).any()


def test_filter_grows_above_its_interval_and_is_small_inside():
    spectrum = torch.linspace(-1, 1, 41, dtype=torch.float64)
    S = eigensolvers.DenseAffinity(torch.diag(spectrum))
    gain = eigensolvers._chebyshev_filter(S, torch.eye(41, dtype=torch.float64), 20, 0.5).diagonal()
    assert gain[-1] == pytest.approx(1.0)
    assert gain[spectrum <= 0.5].abs().max() < 1e-6
    assert (gain[spectrum > 0.5].diff() > 0).all()


def test_a_residual_that_is_not_finite_is_infinite():
    S = read_affinity(np.ones((3, 3))).normalized(0.0)
    bad = torch.full((3, 1), float("nan"), dtype=torch.float64)
    assert residuals(S, torch.ones(1, dtype=torch.float64), bad).tolist() == [np.inf]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", DOUBLE)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_array.toarray])
def test_cuda_agrees_with_the_cpu(name, kind, ring_of_clusters):
    A, _ = ring_of_clusters(N, K, noise=0.3)
    for tau in (0.0, 0.5):
        S = read_affinity(kind(A), "cuda").normalized(tau)
        values, vectors = SOLVERS[name](S, K, 1e-9, start())
        assert vectors.device.type == "cuda"
        expected, basis = reference(read_affinity(kind(A)).normalized(tau), K)
        np.testing.assert_allclose(values.cpu().numpy(), expected, atol=1e-12)
        projector = (vectors @ vectors.T).cpu().numpy()
        np.testing.assert_allclose(projector, basis @ basis.T, atol=1e-6)


@pytest.mark.parametrize("a", [-2.0, -0.9, 0.3, 0.95, 1.0])
@pytest.mark.parametrize("degree", [1, 2, 3, 9])
def test_the_filter_is_a_chebyshev_polynomial_scaled_to_one_at_one(a, degree):
    spectrum = torch.linspace(-1, 1, 21, dtype=torch.float64)
    S = eigensolvers.DenseAffinity(torch.diag(spectrum))
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(21, 2)))
    inside = min(max(a, -0.9), 1.0 - 1e-8)
    power = np.polynomial.chebyshev.Chebyshev.basis(degree)
    at = (2.0 * spectrum.numpy() + 1.0 - inside) / (1.0 + inside)  # [-1, a] becomes [-1, 1]
    expected = (power(at) / power((3.0 - inside) / (1.0 + inside)))[:, None] * X.numpy()
    found = eigensolvers._chebyshev_filter(S, X.clone(), degree, a)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_sparse_matrix_is_written_out_up_to_a_size(monkeypatch, ring_of_clusters):
    A, _ = ring_of_clusters(40, 2)
    S = read_affinity(A).normalized(0.0)
    for limit, written in ((40, True), (39, False)):
        monkeypatch.setattr(eigensolvers, "DENSE_LIMIT", limit)
        assert (eigensolvers.eigh(S, 2, 1e-9, start(40)) is not None) == written
    dense = read_affinity(A.toarray()).normalized(0.0)
    assert eigensolvers.eigh(dense, 2, 1e-9, start(40)) is not None
