"""One contract for every eigensolver: the k largest pairs, orthonormal, within tolerance."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc.spectral import eigensolvers
from dcfsc.spectral.eigensolvers import SOLVERS, residual
from dcfsc.spectral.graph import read_affinity

N, K = 240, 6


def start(n=N, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, n)


def reference(S, k):
    values, vectors = np.linalg.eigh(S.dense().numpy())
    return values[::-1][:k], vectors[:, ::-1][:, :k]


@pytest.mark.parametrize("name", SOLVERS)
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
    assert residual(S, values, vectors) <= 1e-9


@pytest.mark.parametrize("name", SOLVERS)
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


@pytest.mark.parametrize("name", ["arpack", "block"])
def test_a_solver_that_does_not_apply_says_so(name):
    S = read_affinity(np.ones((5, 5))).normalized(0.0)
    assert SOLVERS[name](S, 5, 1e-9, start(5)) is None


def test_the_start_fixes_the_result(ring_of_clusters):
    A, _ = ring_of_clusters(N, K)
    S = read_affinity(A).normalized(0.0)
    for solver in SOLVERS.values():
        first, second = solver(S, K, 1e-8, start()), solver(S, K, 1e-8, start())
        assert torch.equal(first[1], second[1])


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
    assert residual(S, torch.ones(1, dtype=torch.float64), bad) == float("inf")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", SOLVERS)
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
