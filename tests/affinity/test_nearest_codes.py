"""The graph of the nearest codes against scikit-learn's, and where it has to decide by itself."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize

from dcfsc import EnSC, affinity
from dcfsc.affinity import NearestCodes, nearest_codes
from dcfsc.affinity.nearest_codes import unit_codes
from dcfsc.errors import InputError
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import ExplicitCoefficients, SparseCoefficients, solve


def random_codes(n=80, density=0.3, seed=0):
    random = np.random.default_rng(seed)
    C = random.normal(size=(n, n)) * (random.random((n, n)) < density)
    np.fill_diagonal(C, 0.0)
    return C


def by_scikit_learn(C, k, n_nonzero):
    """The published construction: truncated codes at unit length, their k nearest, symmetric."""
    kept = C.copy()
    for row in kept:
        row[np.argsort(-np.abs(row))[n_nonzero:]] = 0.0
    W = kneighbors_graph(normalize(kept), k, mode="connectivity", include_self=False).toarray()
    return 0.5 * (W + W.T)


def explicit(C):
    return ExplicitCoefficients(torch.from_numpy(C))


def sparse(C):
    return SparseCoefficients(sp.csr_array(C))


@pytest.mark.parametrize("make", [explicit, sparse])
@pytest.mark.parametrize(("k", "n_nonzero"), [(3, 50), (1, 10), (7, 6)])
def test_it_is_the_published_graph(make, k, n_nonzero):
    C = random_codes()
    A = NearestCodes(k, n_nonzero)(make(C), 2)
    np.testing.assert_array_equal(A.toarray(), by_scikit_learn(C, k, n_nonzero))


def test_blocks_of_rows_change_nothing(monkeypatch):
    C = random_codes()
    whole = NearestCodes()(sparse(C), 2).toarray()
    codes = unit_codes(*sparse(C).topk(50))
    for block, number in ((7 * len(C), 12), (1, len(C))):
        monkeypatch.setattr(nearest_codes, "BLOCK", block)
        assert len(list(nearest_codes._nearest(codes, 3))) == number
        np.testing.assert_array_equal(NearestCodes()(sparse(C), 2).toarray(), whole)


@pytest.mark.parametrize(("k", "least"), [(1, [5, 5, 5, 2]), (2, [3, 3, 3, 1]), (3, [1, 1, 1, 0])])
def test_few_cosines_are_sorted(k, least):
    """Those from the k-th largest of a row on, equal ones counted once; an empty row has none."""
    row, values = np.array([0, 0, 0, 2, 2]), np.array([1.0, 5.0, 3.0, 2.0, 1.0])
    expected = np.array([*least, least[-1]], dtype=float)
    np.testing.assert_array_equal(nearest_codes._thresholds(row, values, k), expected)
    row, values = np.array([0, 0, 0, 0, 2, 2]), np.array([5.0, 1.0, 5.0, 3.0, 2.0, 1.0])
    expected = np.array([least[0], *expected])
    np.testing.assert_array_equal(nearest_codes._thresholds(row, values, k), expected)
    np.testing.assert_array_equal(nearest_codes._thresholds(row + 1, values, k), expected)


def test_the_scale_of_a_code_does_not_count():
    C = random_codes()
    lengths = 10.0 ** np.random.default_rng(1).integers(-200, 200, size=(len(C), 1))
    scaled = NearestCodes()(explicit(lengths * C), 2).toarray()
    np.testing.assert_array_equal(scaled, NearestCodes()(explicit(C), 2).toarray())


def test_codes_of_opposite_sign_are_no_neighbors():
    C = np.zeros((5, 5))
    C[0, 3:], C[1, 3:], C[2, 3:] = (1.0, 2.0), (1.0, 1.0), (-1.0, -2.0)
    A = NearestCodes(1)(explicit(C), 2).toarray()
    assert A[0, 1] == 1.0
    assert A[0, 2] == A[1, 2] == 0.0
    assert A[2, 4] == 0.5  # nothing points the way of sample 2: its largest coefficient does


def test_equal_cosines_go_by_the_coefficient_and_then_by_the_index():
    C = np.zeros((6, 6))
    C[:4, 5] = 1.0  # four equal codes
    links = NearestCodes(2)(explicit(C), 2).toarray()
    assert set(np.flatnonzero(links[3])) == {0, 1}
    C = np.zeros((5, 5))
    C[0, [2, 4]] = C[1, 4] = C[2, 4] = 1.0  # 1 and 2 are as near to 0, which has a coefficient on 2
    assert np.flatnonzero(NearestCodes(1)(explicit(C), 2).toarray()[0]).tolist() == [2]


def test_two_copies_are_linked_though_their_codes_are_orthogonal():
    C = np.zeros((6, 6))
    C[0, 1] = C[1, 0] = 1.0
    C[2, 3], C[3, 4], C[4, 2] = 0.5, -0.5, 0.5
    A = NearestCodes()(sparse(C), 2).toarray()
    assert A[0, 1] == 1.0
    assert A[3, 4] == A[2, 3] == A[2, 4] == 0.5
    assert not A[5].any()


def test_zero_codes_have_no_neighbors():
    assert NearestCodes()(sparse(np.zeros((4, 4))), 2).nnz == 0
    C = random_codes(20)
    C[4], C[:, 4] = 0.0, 0.0
    A = NearestCodes()(explicit(C), 2).toarray()
    assert np.isfinite(A).all()
    assert not A[4].any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples_have_as_many_neighbors_as_there_are(n):
    C = 1.0 - np.eye(n)
    A = NearestCodes()(explicit(C), 1).toarray()
    np.testing.assert_array_equal(A, C)


def test_a_code_leaves_its_own_sample_out():
    C = random_codes(20) + 5.0 * np.eye(20)
    codes = unit_codes(*sparse(C).topk(50))
    assert not codes.diagonal().any()
    np.testing.assert_allclose(np.linalg.norm(codes.toarray(), axis=1), 1.0)


def test_the_graphs_of_several_neighbor_lists_are_added():
    Z = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    operators = [solve(Z, 0.1), solve(Z[:, :4], 0.1)]

    class Both:
        n = 40

        def neighbors(self, k):
            return [operator.topk(k) for operator in operators]

    together = NearestCodes()(Both(), 2).toarray()
    alone = [NearestCodes()(operator, 2).toarray() for operator in operators]
    np.testing.assert_array_equal(together, alone[0] + alone[1])


@pytest.mark.parametrize("options", [{"k": 0}, {"n_nonzero": 0}])
def test_nothing_to_link_is_refused(options):
    with pytest.raises(InputError, match="=0 is not allowed: an integer of at least 1"):
        NearestCodes(**options)


def test_it_has_a_name_and_clusters():
    assert affinity.get("nearest_codes", 4) == NearestCodes(k=3, n_nonzero=50)
    data = synthetic(n_samples=200, n_clusters=4, subspace_dim=3, ambient_dim=30, random_state=0)
    labels = EnSC(4, affinity="nearest_codes", random_state=0).fit_predict(data.X)
    assert clustering_error(data.y, labels) == 0.0
