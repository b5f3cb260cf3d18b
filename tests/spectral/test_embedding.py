"""The embedding: equal for every kind of affinity and solver; disconnected graphs; choices."""

import logging
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import cut_affinity as cluster

from dcfsc.errors import InputError
from dcfsc.spectral import eigengap, eigensolvers, embed, embedding
from dcfsc.spectral.eigensolvers import SOLVERS

KINDS = {
    "numpy": sp.csr_array.toarray,
    "csr": sp.csr_array,
    "torch": lambda A: torch.from_numpy(A.toarray()),
    "torch_coo": lambda A: torch.from_numpy(A.toarray()).to_sparse_coo(),
}


def projector(result):
    return result.vectors @ result.vectors.T


@pytest.mark.parametrize("regularization", [0.0, 0.5])
def test_kinds_and_solvers_give_one_embedding(regularization, ring_of_clusters):
    A, _ = ring_of_clusters(300, 6, noise=0.3)
    reference = embed(A.toarray(), 6, solver="eigh", regularization=regularization)
    for kind in KINDS.values():
        for solver in ("eigh", "arpack", "block"):
            result = embed(kind(A), 6, solver=solver, regularization=regularization, random_state=0)
            assert result.solver == solver
            assert result.residual <= 1e-8
            assert result.vectors.dtype == np.float64
            np.testing.assert_allclose(result.values, reference.values, atol=1e-12)
            np.testing.assert_allclose(projector(result), projector(reference), atol=1e-6)
            np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(6), atol=1e-9)


def test_values_and_vectors_are_those_of_the_definition(ring_of_clusters):
    A = ring_of_clusters(80, 4, noise=0.3)[0].toarray()
    A += np.diag(np.arange(80.0))  # self-loops, which are ignored
    result = embed(A, 4, regularization=0.0)
    np.fill_diagonal(A, 0.0)
    d = A.sum(1)
    S = A / np.sqrt(np.outer(d, d))
    values = np.linalg.eigvalsh(S)[::-1][:4]
    np.testing.assert_allclose(result.values, values, atol=1e-13)
    np.testing.assert_allclose(S @ result.vectors, result.vectors * values, atol=1e-12)
    np.testing.assert_allclose(result.degrees, d, rtol=1e-13)
    walk = A / d[:, None]
    U = result.random_walk_vectors()
    np.testing.assert_allclose(walk @ U, U * values, atol=1e-12)


def test_tau_is_the_share_of_the_mean_degree(ring_of_clusters):
    A = ring_of_clusters(80, 4)[0].toarray()
    np.fill_diagonal(A, 0.0)
    result = embed(A, 4, regularization=0.25)
    d = A.sum(1)
    assert result.tau == pytest.approx(0.25 * d.mean())
    tau = result.tau
    root = np.sqrt(d + tau)
    S = (A + tau / 80) / np.outer(root, root)
    np.testing.assert_allclose(S @ result.vectors, result.vectors * result.values, atol=1e-12)


def test_isolated_points_have_zero_rows_and_disturb_nothing(ring_of_clusters):
    A, _ = ring_of_clusters(200, 4, noise=0.3)
    lonely = np.zeros(204, dtype=bool)
    lonely[[0, 50, 51, 203]] = True
    larger = np.zeros((204, 204))
    larger[np.ix_(~lonely, ~lonely)] = A.toarray()
    alone = embed(A, 4, random_state=0)
    for kind in (np.asarray, sp.csr_array):
        result = embed(kind(larger), 4, random_state=0)
        np.testing.assert_array_equal(result.isolated, lonely)
        np.testing.assert_array_equal(result.set_aside, lonely)
        assert result.n_connected == 5
        assert result.regularization == 0.0
        assert not result.vectors[lonely].any()
        np.testing.assert_allclose(result.values, alone.values, atol=1e-12)
        kept = result.vectors[~lonely]
        np.testing.assert_allclose(kept @ kept.T, projector(alone), atol=1e-6)


def test_stray_components_are_set_aside_only_by_auto(ring_of_clusters):
    A, y = ring_of_clusters(600, 4, strays=3)
    result = embed(A, 4, random_state=0)
    np.testing.assert_array_equal(result.set_aside, y < 0)
    assert result.n_connected == 4
    assert not result.isolated.any()
    plain = embed(A, 4, regularization=0.0, random_state=0)
    assert not plain.set_aside.any()
    # Without the choice the strays own the multiple eigenvalue 1.
    np.testing.assert_allclose(plain.values, 1.0, atol=1e-9)


def test_as_many_components_as_clusters_are_taken_as_they_are(blocks):
    A, _ = blocks([40, 40, 5])
    result = embed(A, 3)
    assert result.regularization == 0.0
    assert not result.set_aside.any()
    np.testing.assert_allclose(result.values, 1.0, atol=1e-12)


def test_more_large_components_than_clusters_are_regularized(blocks):
    A, _ = blocks([30] * 5)
    result = embed(A, 3, random_state=0)
    assert result.regularization == 1.0
    assert not result.set_aside.any()
    assert result.n_connected == 5
    assert (result.values[1:] < 0.9).all()


def test_a_graph_of_fragments_keeps_all_its_points(blocks):
    A, _ = blocks([2] * 100)
    result = embed(A, 3, random_state=0)
    assert not result.set_aside.any()
    assert result.regularization == 1.0


def test_disconnected_graphs_beyond_the_dense_size_find_every_copy(blocks):
    A, _ = blocks([60] * 10)
    for kind in (sp.csr_array, sp.csr_array.toarray):
        for solver in ("auto", "arpack", "block"):
            result = embed(kind(A), 10, solver=solver, random_state=0)
            np.testing.assert_allclose(result.values, 1.0, atol=1e-10)


def test_more_components_than_connected_points():
    A = np.zeros((7, 7))
    A[1, 2] = A[2, 1] = 1.0
    result = embed(A, 5)
    np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(result.values, [1, 0, 0, 0, -1], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.floats(0.02, 1.0), st.integers(0, 10_000), st.data())
def test_every_graph_has_an_orthonormal_embedding(n, density, seed, data):
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) * (rng.random((n, n)) < density)
    A[0, 1] = 0.5
    A = A + A.T
    k = data.draw(st.integers(1, n))
    for regularization in ("auto", 0.0, 1.0):
        result = embed(sp.csr_array(A), k, regularization=regularization, random_state=0)
        assert np.isfinite(result.vectors).all()
        np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(k), atol=1e-9)
        assert (np.diff(result.values) <= 1e-12).all()
        assert (np.abs(result.values) <= 1 + 1e-12).all()


def test_all_ones_affinity():
    result = embed(np.ones((600, 600)), 3, random_state=0)
    np.testing.assert_allclose(result.values, [1.0, -1 / 599, -1 / 599], atol=1e-10)


@pytest.mark.parametrize("n_components", [0, -1, 11, 2.5, "3", True, None])
def test_unusable_n_components(n_components):
    with pytest.raises(InputError, match="n_components"):
        embed(np.ones((10, 10)), n_components)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "lobpcg"}, "unknown solver"),
        ({"regularization": -0.1}, "regularization"),
        ({"regularization": "some"}, "regularization"),
        ({"regularization": np.nan}, "regularization"),
        ({"regularization": np.inf}, "regularization"),
        ({"tol": -1}, "tol"),
        ({"tol": "coarse"}, "tol"),
        ({"device": "nowhere"}, "device"),
        ({"device": "meta"}, "device"),
        ({"random_state": "seed"}, "random_state"),
        ({"random_state": -3}, "random_state"),
    ],
)
def test_unusable_options_are_one_line_errors(options, message):
    with pytest.raises(InputError, match=message) as caught:
        embed(np.ones((10, 10)), 2, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("solver", SOLVERS)
def test_seeds_fix_the_result_and_leave_global_state_alone(solver, ring_of_clusters):
    A, _ = ring_of_clusters(300, 5)
    numpy_state, torch_state = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    runs = [
        embed(A, 5, solver=solver, random_state=seed).vectors
        for seed in (3, 3, np.random.RandomState(3), None)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    twice = [
        embed(A, 5, solver=solver, random_state=np.random.default_rng(3)).vectors for _ in range(2)
    ]
    np.testing.assert_array_equal(*twice)
    for now, before in zip(np.random.get_state(), numpy_state, strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(now, before)
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_a_solver_that_fails_hands_over_to_the_next(monkeypatch, caplog, ring_of_clusters):
    A, _ = ring_of_clusters(600, 5)

    def coarse(S, k, tol, start):
        values, vectors = eigensolvers.eigh(S, k, tol, start)
        return values, vectors + 1e-3

    monkeypatch.setitem(SOLVERS, "arpack", coarse)
    monkeypatch.setitem(SOLVERS, "block", lambda *_: None)
    with caplog.at_level(logging.INFO, logger="dcfsc"), warnings.catch_warnings():
        warnings.simplefilter("error")
        result = embed(A, 5, random_state=0)
    assert result.solver == "eigh"
    assert result.residual <= 1e-8
    assert "arpack" in caplog.text
    assert "block" in caplog.text


def test_an_unreached_tolerance_is_said(monkeypatch, ring_of_clusters):
    A, _ = ring_of_clusters(600, 5)

    def noisy(size):
        def solve(S, k, tol, start):
            values, vectors = eigensolvers.eigh(S, k, tol, start)
            return values + size, vectors

        return solve

    for name, size in (("eigh", 1e-2), ("arpack", 1e-4), ("block", 1e-3)):
        monkeypatch.setitem(SOLVERS, name, noisy(size))
    with pytest.warns(RuntimeWarning, match="arpack, has residual"):
        result = embed(A, 5, random_state=0)
    assert result.solver == "arpack"
    assert result.residual == pytest.approx(1e-4, rel=1e-6)


def test_no_solver_at_all_is_one_line(monkeypatch, ring_of_clusters):
    for name in SOLVERS:
        monkeypatch.setitem(SOLVERS, name, lambda *_: None)
    with pytest.raises(InputError, match="no eigensolver"):
        embed(ring_of_clusters(60, 3)[0], 3)


def test_auto_chooses_by_size_and_connection(ring_of_clusters, blocks):
    assert embed(ring_of_clusters(embedding.SMALL, 5)[0], 5).solver == "eigh"
    assert embed(ring_of_clusters(800, 5)[0], 5).solver == "arpack"
    assert embed(ring_of_clusters(800, 5)[0].toarray(), 5).solver == "arpack"
    assert embed(ring_of_clusters(800, 5)[0], 300).solver == "eigh"
    # Two components hold the two vectors asked for, but not three.
    assert embed(blocks([300, 300])[0], 2).solver == "components"
    assert embed(blocks([300, 300])[0], 3).solver == "block"


@pytest.mark.parametrize("sizes", [[40, 25, 30], [300, 280, 260, 5, 7], [2, 2]])
def test_vectors_of_components_are_those_a_solver_finds(sizes, blocks):
    A, _ = blocks(sizes)
    big = [size for size in sizes if size * 10 * len(sizes) >= sum(sizes)]
    k = len(big)
    written = embed(A, k, random_state=0)
    assert written.solver == "components"
    assert written.residual < 1e-14
    np.testing.assert_array_equal(written.values, 1.0)
    np.testing.assert_allclose(written.vectors.T @ written.vectors, np.eye(k), atol=1e-14)
    found = embed(A, k, solver="eigh", random_state=0)
    np.testing.assert_allclose(projector(written), projector(found), atol=1e-8)
    np.testing.assert_array_equal(written.set_aside, found.set_aside)


def test_tol_auto_goes_with_the_number_of_points(monkeypatch, caplog, ring_of_clusters):
    A, _ = ring_of_clusters(900, 5, noise=0.3)
    asked = []

    def record(S, k, tol, start):
        asked.append(tol)
        return eigensolvers.block(S, k, tol, start)

    for name in SOLVERS:
        monkeypatch.setitem(SOLVERS, name, record)
    assert embed(A, 5, random_state=0).residual <= 1e-8
    monkeypatch.setattr(embedding, "LARGE", 500)
    with caplog.at_level(logging.INFO, logger="dcfsc"):
        assert embed(A, 5, random_state=0).residual <= 1e-6
        embed(A, 7, n_clusters=5, random_state=0)
    assert [tol.tolist() for tol in asked[:2]] == [[1e-8] * 5, [1e-6] * 5]
    assert asked[2].tolist() == [1e-6] * 5 + [1e-2] * 2
    assert "residual of 1e-06" in caplog.text


@pytest.mark.parametrize("noise", [0.1, 0.4, 0.7])
def test_the_coarse_tolerance_changes_no_labels(noise, ring_of_clusters):
    A, _ = ring_of_clusters(4000, 8, noise=noise)
    fine = cluster(A, 8, solver="block", tol=1e-10, random_state=0)
    coarse = cluster(A, 8, solver="block", tol=embedding.AUTO_TOL_LARGE, random_state=0)
    assert fine.embedding.residual <= 1e-10
    assert coarse.embedding.residual <= embedding.AUTO_TOL_LARGE
    np.testing.assert_array_equal(fine.labels, coarse.labels)


def test_eigengap_ranks_the_planted_number_first(ring_of_clusters):
    A, _ = ring_of_clusters(400, 7)
    ranked = eigengap(embed(A, 12).values)
    assert ranked[0][0] == 7
    assert sorted(K for K, _ in ranked) == list(range(2, 12))
    assert [gap for _, gap in ranked] == sorted((gap for _, gap in ranked), reverse=True)


def test_eigengap_by_hand_and_its_errors():
    ranked = eigengap([1.0, 0.9, 0.5, 0.45], minimum=1)
    assert [K for K, _ in ranked] == [2, 1, 3]
    np.testing.assert_allclose([gap for _, gap in ranked], [0.4, 0.1, 0.05])
    with pytest.raises(InputError, match="at least 3"):
        eigengap([1.0, 0.5])
    with pytest.raises(InputError, match="descending"):
        eigengap([0.1, 0.5, 1.0])
    with pytest.raises(InputError, match="at least 2"):
        eigengap([1.0], minimum=0)
    with pytest.raises(InputError, match="finite"):
        eigengap([1.0, np.nan, 0.5])
    assert [K for K, _ in eigengap([1.0, 0.5, 0.4], minimum=0)] == [1, 2]
    assert [K for K, _ in eigengap([1.0, 0.75, 0.5, 0.25], minimum=1)] == [1, 2, 3]  # all alike
    assert [K for K, _ in eigengap([1.0, 0.5, 0.5 + 1e-9])] == [2]  # rounding is no rise
    with pytest.raises(InputError, match="descending"):
        eigengap([1.0, 0.5, 0.5 + 1.5e-8])


def strays(sizes, isolated, k):
    """The sizes of the components that `_stray` names, and whether any isolated point is kept."""
    component = np.repeat(np.arange(len(sizes) + isolated), [*sizes, *[1] * isolated])
    lonely = np.arange(len(component)) >= sum(sizes)
    stray = embedding._stray(component, lonely, k)
    return sorted({sizes[c] for c in component[stray & ~lonely]})


@pytest.mark.parametrize(
    ("sizes", "isolated", "k", "expected"),
    [
        # Two components for two clusters: a stray has fewer than N / 20 points, here 100 / 20.
        ([95, 5], 0, 2, []),
        ([96, 4], 0, 2, [4]),
        # Three for two, which is crowded: fewer than N / 10, here 100 / 10.
        ([80, 10, 10], 0, 2, []),
        ([81, 10, 9], 0, 2, [9]),
        # N counts the isolated points too, the crowd does not.
        ([60, 4], 36, 2, [4]),
        ([60, 5], 35, 2, []),
        # Strays that hold half of the linked points or more are no strays.
        ([50, *[5] * 10], 0, 2, []),
        ([51, *[5] * 9, 4], 0, 2, [4, 5]),
        ([50, *[5] * 10], 200, 2, []),
        # Nor is anything where fewer than k points would be left.
        ([3, 1], 0, 4, []),
        ([4, 2], 100, 4, [2]),
        ([4, 2], 100, 5, []),
        # Just as many large components as clusters are the clusters, and the others may be strays.
        ([9000, 200], 0, 2, []),
        ([9000, 199], 0, 2, [199]),
        ([9000, 200, 30], 0, 2, [30]),
        ([9000, 210, 200], 0, 2, [200, 210]),
        ([9000, 200], 0, 3, [200]),
    ],
)
def test_strays_at_their_bounds(sizes, isolated, k, expected):
    assert strays(sizes, isolated, k) == expected


def test_the_coarse_tolerance_begins_beyond_its_number(caplog):
    with caplog.at_level(logging.INFO, logger="dcfsc"):
        assert embedding._tolerances("auto", 50_000, 3, 2).tolist() == [1e-8] * 3
        assert not caplog.records
        assert embedding._tolerances("auto", 50_001, 3, 2).tolist() == [1e-6, 1e-6, 1e-2]
        assert len(caplog.records) == 1
    assert embedding._tolerances(0.0, 5, 1, 1).tolist() == [1e-12]
    assert embedding._tolerances(0.5, 50_001, 2, 1).tolist() == [0.5, 0.5]
    for bad in (1.0, -1e-9, "fine"):
        with pytest.raises(InputError, match=r"^tol="):
            embedding._tolerances(bad, 5, 2, 1)


@pytest.mark.parametrize("kept", [2, 3, 6])
def test_missing_columns_are_indicators_of_points_set_aside(kept):
    keep = np.zeros(6, dtype=bool)
    keep[[1, 3, 4, 0, 2, 5][:kept]] = True
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(kept, kept)))[0]
    given = np.linspace(1.0, -0.5, kept)
    values, full = embedding._at_all_points(given, vectors, keep, 6 if kept < 6 else kept)
    np.testing.assert_allclose(full.T @ full, np.eye(6), atol=1e-12)
    np.testing.assert_array_equal(values, np.sort(np.append(given, np.zeros(6 - kept)))[::-1])
    S = np.zeros((6, 6))
    S[np.ix_(keep, keep)] = vectors * given @ vectors.T
    np.testing.assert_allclose(S @ full, full * values, atol=1e-12)


def test_signs_repeat_by_the_entry_of_largest_magnitude():
    V = torch.tensor([[0.1, -0.9, 0.4], [-0.8, 0.3, 0.7], [0.2, 0.5, -0.6]])
    expected = torch.tensor([[-0.1, 0.9, 0.4], [0.8, -0.3, 0.7], [-0.2, -0.5, -0.6]])
    torch.testing.assert_close(embedding._signed(V), expected)


@pytest.mark.parametrize(
    ("device", "n", "k", "multiple", "expected"),
    [
        # a dense factorization up to 500 points, 2,000 on a GPU, or for a quarter of the spectrum
        ("cpu", 500, 5, False, ["eigh", "arpack", "block"]),
        ("cpu", 501, 5, False, ["arpack", "block", "eigh"]),
        ("cpu", 501, 5, True, ["block", "arpack", "eigh"]),
        ("cpu", 4000, 29, False, ["arpack", "block", "eigh"]),
        ("cpu", 4000, 30, False, ["block", "arpack", "eigh"]),
        ("cpu", 4000, 999, False, ["block", "arpack", "eigh"]),
        ("cpu", 4000, 1000, False, ["eigh", "block", "arpack"]),
        ("cpu", 15_000, 3750, False, ["eigh", "block", "arpack"]),
        ("cpu", 15_001, 3751, False, ["block", "arpack", "eigh"]),
        ("cpu", 50_000, 5, False, ["arpack", "block", "eigh"]),
        ("cpu", 50_001, 5, False, ["subspace", "block", "arpack", "eigh"]),
        ("cuda", 50_001, 5, False, ["subspace", "block", "eigh", "arpack"]),
        ("cuda", 2000, 5, False, ["eigh", "block", "arpack"]),
        ("cuda", 2001, 5, False, ["block", "eigh", "arpack"]),
        ("cuda", 2001, 5, True, ["block", "eigh", "arpack"]),
    ],
)
def test_the_order_of_solvers(device, n, k, multiple, expected):
    S = SimpleNamespace(n=n, device=torch.device(device))
    assert embedding._preference(S, k, "auto", multiple) == expected
    for solver in SOLVERS:
        order = embedding._preference(S, k, solver, multiple)
        assert order[0] == solver
        assert sorted(order) == sorted({*expected, solver})


def test_random_walk_vectors_divide_by_the_root_of_the_degrees_and_tau(ring_of_clusters):
    A = 7.0 * ring_of_clusters(60, 3, noise=0.4)[0].toarray()
    np.fill_diagonal(A, 0.0)
    degrees = A.sum(axis=1)
    for share in (0.0, 0.7):
        result = embed(A, 3, regularization=share, random_state=0)
        tau = share * degrees.mean()
        np.testing.assert_allclose(result.tau, tau, rtol=1e-12)
        W = result.random_walk_vectors()
        np.testing.assert_allclose(W, result.vectors / np.sqrt(degrees + tau)[:, None], rtol=1e-12)
        walk = (A + tau / 60) / (degrees + tau)[:, None]
        np.testing.assert_allclose(walk @ W, W * result.values, atol=1e-8)


def test_a_generator_gives_a_seed_of_32_bits():
    for seed in range(5):
        expected = np.random.default_rng(seed).integers(2**32)
        found = embedding.random_from(np.random.default_rng(seed)).get_state()[1]
        np.testing.assert_array_equal(found, np.random.RandomState(expected).get_state()[1])


def test_strays_go_by_the_clusters_and_not_by_the_eigenvectors(blocks):
    """Six of 100 points are fewer than a tenth of the mean of one cluster, not of four."""
    A, _ = blocks([94, 6])
    assert embed(A, 4, n_clusters=1, random_state=0).set_aside.sum() == 6
    assert not embed(A, 4, random_state=0).set_aside.any()
    assert not embed(A, 1, n_clusters=4, random_state=0).set_aside.any()
