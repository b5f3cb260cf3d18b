"""Reading affinities: what is refused and in which words; components; the normalized operator."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from dcfsc.errors import InputError
from dcfsc.graphs import reading
from dcfsc.graphs.reading import read_affinity
from dcfsc.spectral import embed

KINDS = {
    "numpy": np.asarray,
    "csr": sp.csr_array,
    "coo_matrix": sp.coo_matrix,
    "torch": lambda A: torch.tensor(np.asarray(A)),
    "torch_sparse": lambda A: torch.tensor(np.asarray(A)).to_sparse_coo(),
}


def random_affinity(n=12, density=0.5, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) * (rng.random((n, n)) < density)
    return A + A.T


def changed(**entries):
    A = random_affinity()
    for value in entries.values():
        A[2, 3] = A[3, 2] = value
    return A


def asymmetric():
    A = random_affinity()
    A[0, 1] += 0.01
    return A


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (changed(value=np.nan), "2 NaN or infinite"),
        (changed(value=np.inf), "2 NaN or infinite"),
        (changed(value=-0.5), "negative entries"),
        (asymmetric(), "not symmetric"),
        (np.zeros((4, 4)), "all zero"),
        (np.eye(4), "all zero"),
        (np.ones((3, 4)), r"shape \(3, 4\)"),
        (np.ones((3, 3)) * 1j, "dtype"),
    ],
)
def test_unusable_affinities_are_one_line_errors(kind, matrix, message):
    with pytest.raises(InputError, match=message) as caught:
        embed(KINDS[kind](matrix), 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "matrix", [np.ones(3), np.zeros((0, 0)), [[1, 2], [3]], np.array([["a", "b"], ["c", "d"]])]
)
def test_things_that_are_no_matrix(matrix):
    with pytest.raises(InputError) as caught:
        embed(matrix, 2)
    assert "\n" not in str(caught.value)


def test_an_affinity_is_read_where_it_lives():
    assert reading._device_of(torch.empty(2, 2, device="meta")).type == "meta"
    assert reading._device_of(np.eye(2)).type == "cpu"


class Metal(torch.Tensor):
    device = property(lambda self: torch.device("mps"))


def test_metal_has_no_double_precision():
    assert reading._device_of(torch.eye(2).as_subclass(Metal)) == torch.device("cpu")


@pytest.mark.parametrize("kind", KINDS)
def test_one_point_has_no_neighbor(kind):
    with pytest.raises(InputError, match="all zero"):
        read_affinity(KINDS[kind](np.ones((1, 1))))
    with pytest.raises(InputError, match="empty"):
        read_affinity(KINDS[kind](np.ones((0, 0))))


def test_asymmetry_of_rounding_is_accepted_and_removed():
    A = random_affinity().astype(np.float32)
    A[0, 1] = np.nextafter(A[0, 1], np.float32(2), dtype=np.float32)
    for kind in KINDS.values():
        W = read_affinity(kind(A)).weights
        dense = W.numpy() if isinstance(W, torch.Tensor) else W.toarray()
        np.testing.assert_array_equal(dense, dense.T)


def test_the_input_is_left_alone():
    A = random_affinity()
    for kind in KINDS.values():
        given_matrix = kind(A)
        embed(given_matrix, 3, random_state=0)
        after = given_matrix.to_dense() if isinstance(given_matrix, torch.Tensor) else given_matrix
        after = after.toarray() if sp.issparse(after) else np.asarray(after)
        np.testing.assert_array_equal(after, A)


def test_read_only_lists_and_integers_are_read():
    A = random_affinity()
    frozen = A.copy()
    frozen.setflags(write=False)
    expected = embed(A, 2, random_state=0).values
    np.testing.assert_array_equal(embed(frozen, 2, random_state=0).values, expected)
    np.testing.assert_array_equal(embed(A.tolist(), 2, random_state=0).values, expected)
    counts = (A > 0).astype(int)
    for kind in KINDS.values():
        np.testing.assert_allclose(
            embed(kind(counts), 2, random_state=0).values,
            embed(counts.astype(float), 2, random_state=0).values,
            atol=1e-12,
        )


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 40), st.floats(0.01, 0.3), st.integers(0, 10_000))
def test_components_agree_with_a_graph_search(n, density, seed):
    A = random_affinity(n, density, seed)
    A[0, 1] = A[1, 0] = 1.0
    np.fill_diagonal(A, 0.0)
    expected = connected_components(sp.csr_array(A), directed=False)[1]
    for kind in (np.asarray, sp.csr_array):
        np.testing.assert_array_equal(read_affinity(kind(A)).components, expected)


def test_links_below_rounding_do_not_connect():
    A = np.kron(np.eye(3), np.ones((5, 5))) + 1e-20
    for kind in KINDS.values():
        assert read_affinity(kind(A)).components.max() + 1 == 3
        assert embed(kind(A), 3, random_state=0).n_connected == 3


@pytest.mark.parametrize("mkl", [True, False])
@pytest.mark.parametrize("tau", [0.0, 0.7])
def test_sparse_and_dense_operators_are_the_regularized_matrix(tau, mkl, monkeypatch):
    if not mkl:
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    A = random_affinity(20, 0.3, 1)
    np.fill_diagonal(A, 0.0)
    A /= A.max()
    root = 1.0 / np.sqrt(A.sum(1) + tau)
    expected = root[:, None] * (A + tau / 20) * root[None, :]
    X = np.random.default_rng(0).normal(size=(20, 3))
    for kind in (np.asarray, sp.csr_array):
        S = read_affinity(kind(A)).normalized(tau)
        np.testing.assert_allclose(S.dense().numpy(), expected, atol=1e-14)
        np.testing.assert_allclose(S.apply(torch.from_numpy(X)).numpy(), expected @ X, atol=1e-13)
        np.testing.assert_allclose(S.matvec(X[:, 0]), expected @ X[:, 0], atol=1e-13)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_the_scale_of_the_affinity_does_not_matter(scale):
    A = random_affinity(30)
    expected = embed(A, 3, random_state=0)
    got = embed(A * scale, 3, random_state=0)
    np.testing.assert_allclose(got.values, expected.values, atol=1e-12)
    np.testing.assert_allclose(got.degrees, expected.degrees * scale, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_rounding_that_is_accepted_is_averaged_entry_by_entry(kind, scale):
    rng = np.random.default_rng(3)
    A = rng.uniform(0.1, 1.0, (9, 9))
    A = scale * (A + A.T)
    np.fill_diagonal(A, 5.0 * scale)
    for dtype, share, allowed in (
        (np.float64, 5e-9, True),
        (np.float64, 5e-8, False),
        (np.float32, 5e-6, True),
        (np.float32, 5e-5, False),
    ):
        B = A.copy()
        B[2, 6] += share * A[np.triu_indices(9, 1)].max()
        B = B.astype(dtype)
        given = B if kind == "dense" else sp.csr_array(B)
        if not allowed:
            with pytest.raises(InputError, match="not symmetric"):
                read_affinity(given)
            continue
        expected = (B.astype(float) + B.T.astype(float)) / 2
        np.fill_diagonal(expected, 0.0)
        graph = read_affinity(given)
        weights = graph.weights.numpy() if kind == "dense" else graph.weights.toarray()
        np.testing.assert_allclose(weights * graph.scale, expected, rtol=1e-12)
        np.testing.assert_allclose(graph.degrees * graph.scale, expected.sum(1), rtol=1e-12)


def test_every_row_of_a_large_frontier_is_read():
    """The first point reaches 300 at once, and the last of them alone leads on."""
    A = np.zeros((303, 303))
    A[0, 1:301] = A[300, 301] = 1.0
    A[302, 302] = 1.0
    found = read_affinity(torch.from_numpy(A + A.T)).components
    np.testing.assert_array_equal(found, [0] * 302 + [1])
