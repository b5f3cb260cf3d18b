"""The reader for devices gives the CPU reader's graph; here it runs on the CPU itself."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import cut_affinity as cluster
from scipy.sparse.csgraph import connected_components

from dcfsc.errors import InputError
from dcfsc.graphs import device_graph
from dcfsc.graphs.device_graph import read_on_device, smallest_members
from dcfsc.graphs.reading import read_affinity
from dcfsc.spectral.eigensolvers import SOLVERS, residuals

CPU = torch.device("cpu")


def random_affinity(n=30, density=0.2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density))
    A[0, 1] = 1.0
    return sp.csr_array((A + A.T).astype(dtype))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.floats(0.01, 0.5), st.integers(0, 10_000), st.booleans())
def test_it_is_the_graph_of_the_cpu(n, density, seed, single):
    A = random_affinity(n, density, seed, np.float32 if single else np.float64)
    expected, got = read_affinity(A), read_on_device(A, CPU)
    assert got.n == n
    assert got.scale == expected.scale
    np.testing.assert_allclose(got.degrees, expected.degrees, rtol=1e-14, atol=1e-300)
    np.testing.assert_array_equal(got.components, expected.components)
    keep = got.degrees > 0
    for tau in (0.0, 0.3):
        one, other = (g.subgraph(keep).normalized(tau) for g in (expected, got))
        np.testing.assert_allclose(other.dense(), one.dense(), atol=1e-14)
        X = torch.from_numpy(np.random.default_rng(seed).normal(size=(one.n, 3)))
        torch.testing.assert_close(other.apply(X), one.apply(X), atol=1e-13, rtol=1e-12)
        torch.testing.assert_close(
            other.apply(X.float()), one.apply(X.float()), atol=1e-5, rtol=1e-5
        )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.floats(0.0, 2.0), st.integers(0, 10_000), st.booleans())
def test_components_by_falling_labels(n, degree, seed, path):
    rng = np.random.default_rng(seed)
    if path:  # the hardest for labels that fall along edges: one long line, points shuffled
        order = rng.permutation(n)
        i, j = order[:-1], order[1:]
    else:
        i, j = rng.integers(0, n, (2, int(degree * n)))
    A = sp.coo_array((np.ones(2 * len(i)), (np.append(i, j), np.append(j, i))), shape=(n, n))
    smallest = smallest_members(*(torch.from_numpy(a).long() for a in (A.row, A.col)), n).numpy()
    expected = connected_components(A, directed=False)[1]
    first = np.array([np.flatnonzero(expected == c)[0] for c in range(expected.max() + 1)])
    np.testing.assert_array_equal(smallest, first[expected])


def test_duplicates_loops_and_unsorted_entries_are_read():
    rows, columns = [2, 0, 1, 1, 0, 2, 2], [0, 2, 0, 0, 1, 2, 2]
    A = sp.csr_array((np.array([1.0, 1, 0.5, 0.5, 1, 9, 9]), (rows, columns)), shape=(3, 3))
    graph = read_on_device(A, CPU)
    np.testing.assert_allclose(graph.degrees, [2, 1, 1])
    one_sided = sp.csr_array(np.array([[0, 1.0, 1e-12], [1, 0, 0], [0, 0, 0]]))
    np.testing.assert_allclose(
        read_on_device(one_sided, CPU).degrees, read_affinity(one_sided).degrees
    )


@pytest.mark.parametrize("read", [read_affinity, lambda A: read_on_device(A, CPU)])
def test_entries_that_are_stored_twice_are_added_in_a_copy(read):
    data, columns = np.array([0.5, 1.5, 1.0, 1.5, 0.5, 1.0]), np.array([1, 1, 2, 0, 0, 0])
    A = sp.csr_array((data, columns, np.array([0, 3, 5, 6])), shape=(3, 3))
    graph = read(A)
    assert graph.scale == 2.0  # the largest sum, not the largest that is stored
    np.testing.assert_array_equal(graph.degrees, [1.5, 1.0, 0.5])
    assert A.nnz == 6


@pytest.mark.parametrize("read", [read_affinity, lambda A: read_on_device(A, CPU)])
def test_any_points_of_a_graph_are_a_graph(read):
    A = random_affinity(20, 0.4).toarray()
    np.fill_diagonal(A, 0.0)
    keep = np.arange(20) % 3 != 1  # links of kept points to others are cut
    for matrix in (sp.csr_array(A), sp.csr_array(A * (1 + 1e-12 * np.triu(A > 0.5)))):
        graph = read(matrix).subgraph(keep)
        W = A[np.ix_(keep, keep)] / A.max()
        np.testing.assert_allclose(graph.degrees, W.sum(1), rtol=1e-9)
        root = 1.0 / np.sqrt(W.sum(1) + 0.1)
        expected = root[:, None] * (W + 0.1 / len(W)) * root
        np.testing.assert_allclose(graph.normalized(0.1).dense(), expected, rtol=1e-9)


def test_products_of_a_graph_with_one_sided_entries():
    A = random_affinity(20, 0.4).toarray()
    np.fill_diagonal(A, 0.0)
    A[2, 5] = A[5, 2] = 0.0
    A[2, 5] = 1e-12  # has no mirror image, so the host reads it
    S = read_on_device(sp.csr_array(A), CPU).normalized(0.0)
    mean = (A + A.T) / 2
    root = 1.0 / np.sqrt(mean.sum(1))
    X = np.random.default_rng(0).normal(size=(20, 3))
    expected = root[:, None] * (mean @ (root[:, None] * X))
    np.testing.assert_allclose(S.apply(torch.from_numpy(X)), expected, atol=1e-13)


@pytest.mark.parametrize("read", [read_affinity, lambda A: read_on_device(A, CPU)])
@pytest.mark.parametrize(
    ("dtype", "gap", "accepted"),
    [
        (np.float32, 5e-6, True),
        (np.float32, 2e-5, False),
        (np.float64, 5e-9, True),
        (np.float64, 2e-8, False),
    ],
)
def test_asymmetry_is_judged_by_its_precision_and_the_largest_entry(read, dtype, gap, accepted):
    A = np.array([[0.0, 4.0, 2.0], [4.0, 0.0, 1.0], [2.0, 1.0, 0.0]], dtype=dtype)
    A[0, 2] += 4.0 * gap
    if accepted:
        np.testing.assert_allclose(read(sp.csr_array(A)).degrees, [1.5, 1.25, 0.75], rtol=1e-5)
    else:
        with pytest.raises(InputError, match="not symmetric"):
            read(sp.csr_array(A))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, np.nan], [np.nan, 0]], "2 NaN or infinite"),
        ([[0, -1.0], [-1.0, 0]], "negative"),
        ([[0, -1.0, 2.0], [-1.0, 0, 0], [2.0, 0, 0]], "negative"),
        ([[0, 1.0], [0.9, 0]], "not symmetric"),
        ([[0, 1.0], [0, 0]], "not symmetric"),
        ([[1.0, 0], [0, 1.0]], "all zero"),
        ([[0, 1j], [1j, 0]], "dtype"),
        ([[0, 1.0, 0], [1.0, 0, 0]], "shape"),
    ],
)
def test_unusable_affinities_get_the_same_words(matrix, message):
    A = sp.csr_array(np.array(matrix))
    for read in (read_affinity, lambda A: read_on_device(A, CPU)):
        with pytest.raises(InputError, match=message) as caught:
            read(A)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_every_solver_takes_it(name, tau, ring_of_clusters):
    A, _ = ring_of_clusters(240, 6, noise=0.3)
    S = read_on_device(A, CPU).normalized(tau)
    start = np.random.default_rng(0).uniform(-1, 1, 240)
    tol, rounding = (1e-6, 1e-8) if name == "subspace" else (1e-9, 1e-12)
    values, vectors = SOLVERS[name](S, 6, tol, start)
    assert residuals(S, values, vectors).max() <= tol
    expected = np.linalg.eigvalsh(read_affinity(A).normalized(tau).dense().numpy())[::-1][:6]
    np.testing.assert_allclose(values, expected, atol=rounding)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("strays", [0, 5])
def test_cuda_labels_are_the_cpus(strays, ring_of_clusters):
    A, _ = ring_of_clusters(3000, 6, noise=0.3, strays=strays)
    one, other = (cluster(A, 6, random_state=0, device=d) for d in ("cpu", "cuda"))
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.embedding.set_aside, other.embedding.set_aside)


def test_rounding_between_the_two_triangles_is_averaged(monkeypatch):
    """Entries that all have a mirror image are compared and averaged without the host."""

    def on_the_host(*given):
        raise AssertionError("the host was asked")

    monkeypatch.setattr(device_graph, "_symmetrized_on_the_host", on_the_host)
    A = random_affinity(12, 0.5).toarray()
    np.fill_diagonal(A, 0.0)
    upper = np.triu(np.ones_like(A), 1)
    A = A * (1.0 + 4e-12 * upper)
    graph = read_on_device(sp.csr_array(A), CPU)
    mean = (A + A.T) / 2
    np.testing.assert_allclose(graph.degrees * graph.scale, mean.sum(1), rtol=1e-14)
    weights = graph.normalized(0.0).dense().numpy()
    degrees = mean.sum(1)
    np.testing.assert_allclose(
        weights, mean / np.sqrt(degrees[:, None] * degrees), rtol=1e-14, atol=1e-300
    )
