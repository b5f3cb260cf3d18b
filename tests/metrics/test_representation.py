"""Scores of coefficients and affinities against the classes."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import dcfsc.metrics.representation as representation
from dcfsc.errors import InputError
from dcfsc.metrics import connectivity, subspace_preserving_error


def test_subspace_preserving_error_by_hand():
    C = np.array([[9.0, 1.0, -3.0], [2.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    # Row shares outside the own class: 3/4, 0, 1; the diagonal is not a coefficient.
    expected = 100.0 * (0.75 + 0.0 + 1.0) / 3.0
    assert subspace_preserving_error(C, [0, 0, 1]) == pytest.approx(expected)
    assert subspace_preserving_error(sp.csr_matrix(C), ["a", "a", "b"]) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 25), st.floats(1e-3, 1e3))
def test_subspace_preserving_error_properties(seed, n, scale):
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.4)
    y = rng.integers(0, 3, n)
    value = subspace_preserving_error(C, y)
    assert 0.0 <= value <= 100.0
    assert subspace_preserving_error(scale * C, y) == pytest.approx(value, abs=1e-9)
    assert subspace_preserving_error(sp.coo_array(C), y) == pytest.approx(value, abs=1e-9)
    own = C * (y[:, None] == y[None, :])
    assert subspace_preserving_error(own, y) == 0.0


def test_rows_without_coefficients_count_zero():
    assert subspace_preserving_error(np.zeros((3, 3)), [0, 1, 2]) == 0.0
    assert subspace_preserving_error(sp.csr_array((3, 3)), [0, 1, 2]) == 0.0


def laplacian_second(A):
    d = A.sum(1)
    return np.linalg.eigvalsh(np.eye(len(A)) - A / np.sqrt(np.outer(d, d)))[1]


def test_connectivity_of_complete_and_path_graphs():
    complete = np.ones((4, 4))
    path = np.diag(np.ones(2), 1) + np.diag(np.ones(2), -1)
    A = np.zeros((8, 8))
    A[:4, :4], A[4:7, 4:7] = complete, path
    A[0, 5] = A[5, 0] = 3.0  # between classes: of no concern
    result = connectivity(A, [0] * 4 + [1] * 3 + [2])
    np.testing.assert_allclose(result.per_class, [4 / 3, 1.0, np.nan], atol=1e-12)
    assert result.minimum == pytest.approx(1.0)
    assert result.mean == pytest.approx((4 / 3 + 1.0) / 2)


def test_connectivity_of_a_class_that_falls_apart_is_zero():
    A = np.kron(np.eye(2), np.ones((3, 3)))
    assert connectivity(A, np.zeros(6)).minimum == 0.0
    A[0], A[:, 0] = 0.0, 0.0  # an isolated point
    assert connectivity(A[:3, :3], np.zeros(3)).minimum == 0.0


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_large_classes_agree_with_the_factorization(monkeypatch, as_matrix):
    rng = np.random.default_rng(0)
    A = rng.random((60, 60)) * (rng.random((60, 60)) < 0.2)
    A = A + A.T
    np.fill_diagonal(A, 0.0)
    expected = laplacian_second(A)
    assert connectivity(as_matrix(A), np.zeros(60)).minimum == pytest.approx(expected, abs=1e-10)
    monkeypatch.setattr(representation, "DENSE_CLASS", 10)
    assert connectivity(as_matrix(A), np.zeros(60)).minimum == pytest.approx(expected, abs=1e-10)


def test_an_even_class_by_lanczos(monkeypatch):
    """Its second eigenvalue is small, far below the leading one that has to be moved away."""
    rng = np.random.default_rng(1)
    A = rng.uniform(0.5, 1.5, (40, 40))
    A = A + A.T
    np.fill_diagonal(A, 0.0)
    expected = laplacian_second(A)
    monkeypatch.setattr(representation, "DENSE_CLASS", 10)
    monkeypatch.setattr(representation.scipy.linalg, "eigh", None)  # no factorization
    assert connectivity(A, np.zeros(40)).minimum == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_asymmetry_is_allowed_relative_to_the_largest_entry(scale):
    A = scale * (np.ones((4, 4)) - np.eye(4))
    for share, allowed in ((0.5e-5, True), (1.5e-5, False)):
        B = A.copy()
        B[0, 1] += share * scale
        if allowed:
            assert connectivity(B, np.zeros(4)).minimum == pytest.approx(4 / 3, rel=1e-4)
        else:
            with pytest.raises(InputError, match="not symmetric"):
                connectivity(B, np.zeros(4))


def test_duplicate_entries_are_added_before_their_magnitude_is_taken():
    rows, columns, values = [0, 0, 0, 1, 2], [1, 1, 2, 0, 0], [3.0, -2.0, 1.0, 1.0, 1.0]
    C = sp.coo_array((values, (rows, columns)), shape=(3, 3))
    # Row 0 is |3 - 2| = 1 in its class and 1 outside; row 2 is wholly outside.
    assert subspace_preserving_error(C, [0, 0, 1]) == pytest.approx(100 * (0.5 + 0 + 1) / 3)
    indptr = np.array([0, 3, 4, 5])
    csr = sp.csr_array((np.array(values), np.array(columns), indptr), shape=(3, 3))
    assert subspace_preserving_error(csr, [0, 0, 1]) == pytest.approx(50.0)
    assert csr.nnz == 5  # and the caller's matrix is as it was


def test_a_stored_zero_is_no_link():
    A = sp.csr_array(np.kron(np.eye(2), np.ones((2, 2))) + 5.0 * np.fliplr(np.eye(4)))
    assert connectivity(A, np.zeros(4)).minimum == pytest.approx(1 / 3)
    A.data[A.data == 5.0] = 0.0
    assert connectivity(A, np.zeros(4)).minimum == 0.0


def test_only_single_points_give_nan():
    result = connectivity(np.ones((2, 2)), [0, 1])
    assert np.isnan(result.minimum)
    assert np.isnan(result.mean)


def test_unusable_matrices():
    with pytest.raises(InputError, match="N x N"):
        subspace_preserving_error(np.zeros((3, 2)), [0, 1, 2])
    with pytest.raises(InputError, match="NaN"):
        subspace_preserving_error(np.full((2, 2), np.nan), [0, 1])
    with pytest.raises(InputError, match="not symmetric"):
        connectivity(np.array([[0.0, 1.0], [0.0, 0.0]]), [0, 0])
    with pytest.raises(InputError, match="real numbers"):
        connectivity([["a", "b"], ["c", "d"]], [0, 0])
    with pytest.raises(InputError, match="empty"):
        connectivity(np.zeros((0, 0)), [])


def test_scores_need_no_torch():
    for path in Path(representation.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "torch"], path
