from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from dcfsc import affinity
from dcfsc.affinity import LowRank, NearestCodes, RowSpace, Symmetric, TopK
from dcfsc.affinity.low_rank import keep_energy, principal_rows
from dcfsc.affinity.topk import _sparse_symmetric_by_sorting, sparse_symmetric
from dcfsc.errors import InputError
from dcfsc.self_expression import ExplicitCoefficients, SparseCoefficients, solve

ALL = [Symmetric(), Symmetric(scale=False), LowRank(), LowRank(0.5, 2, 3.5), TopK(), TopK(3, 2.0)]
ALL += [RowSpace(), Symmetric(share=0.6), NearestCodes()]


def coefficients(n=30, seed=0):
    C = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return ExplicitCoefficients(C.fill_diagonal_(0.0))


def as_array(A):
    return A.toarray() if sp.issparse(A) else A.numpy()


@pytest.mark.parametrize("make", ALL, ids=repr)
def test_every_affinity_is_symmetric_and_non_negative(make):
    A = as_array(make(coefficients(), 4))
    assert A.shape == (30, 30)
    assert (A >= 0).all()
    np.testing.assert_allclose(A, A.T, atol=1e-14)


@pytest.mark.parametrize("make", ALL, ids=repr)
def test_scaling_the_coefficients_changes_nothing_but_a_factor(make):
    one = as_array(make(coefficients(), 4))
    other = as_array(make(ExplicitCoefficients(7.0 * coefficients().C), 4))
    np.testing.assert_allclose(one / one.max(), other / other.max(), atol=1e-10)


@pytest.mark.parametrize("make", ALL, ids=repr)
def test_a_zero_row_gives_an_isolated_point_and_no_nan(make):
    C = coefficients().C.clone()
    C[4, :] = 0.0
    C[:, 4] = 0.0
    A = as_array(make(ExplicitCoefficients(C), 4))
    assert np.isfinite(A).all()
    assert np.abs(np.delete(A[4], 4)).max() < 1e-8


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.floats(0.05, 0.95), st.integers(0, 100))
def test_keep_energy_is_the_smallest_set_that_passes_the_share(n, share, seed):
    C = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    kept = keep_energy(C, share)
    for column, original in zip(kept.T, C.T, strict=True):
        magnitudes = sorted(original.abs().tolist(), reverse=True)
        total, running, count = sum(magnitudes), 0.0, 0
        for magnitude in magnitudes:
            running += magnitude
            count += 1
            if running > share * total:
                break
        assert int(torch.count_nonzero(column)) == count
        assert torch.equal(column[column != 0], original[column != 0])
        smallest = column.abs()[column != 0].min()
        assert (original.abs()[column == 0] <= smallest).all()


def test_low_rank_follows_the_published_steps():
    """An independent numpy rendering with a plain SVD gives the same matrix."""
    C = coefficients(25, seed=3).C
    ours = LowRank(share=0.3, dim=2, power=3.5)(ExplicitCoefficients(C), 3).numpy()
    T = keep_energy(C, 0.3).numpy()
    U, S, _ = np.linalg.svd(0.5 * (T + T.T))
    U = U[:, :7] * np.sqrt(S[:7])
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    L = np.maximum(U @ U.T, 0.0) ** 3.5
    np.testing.assert_allclose(ours, L / L.max(), atol=1e-10)


def test_principal_rows_have_unit_norm_and_the_rank_asked_for():
    C = coefficients(20).C
    rows = principal_rows(0.5 * (C + C.T), 5)
    assert rows.shape == (20, 5)
    torch.testing.assert_close(rows.square().sum(1), torch.ones(20, dtype=rows.dtype))


def test_the_dcfsc_protocol_divides_exactly():
    shares = {k: affinity.get("dcfsc-eyaleb", k).share for k in (10, 20, 38)}
    assert shares == pytest.approx({10: 0.31, 20: 0.21, 38: 0.1})


def test_the_eyaleb_protocol_uses_integer_division():
    shares = {k: affinity.get("dsc-eyaleb", k).share for k in (10, 11, 20, 21, 38)}
    assert shares == pytest.approx({10: 0.4, 11: 0.3, 20: 0.3, 21: 0.2, 38: 0.1})


def test_topk_of_the_closed_form_equals_topk_of_its_dense_matrix():
    Z = torch.randn(60, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    operator = solve(Z, 1.0)
    make = TopK(4, scale="maximum", grow=False)
    sparse, dense = make(operator, 3), make(ExplicitCoefficients(operator.dense()), 3)
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_allclose(sparse.toarray(), dense.toarray(), atol=1e-10)
    assert sparse.nnz <= 2 * 60 * 4


def test_the_cosine_scale_is_the_cosine_of_the_whitened_samples():
    Z = torch.randn(60, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    Z[3] = 0.0
    operator = solve(Z, 1.0)
    A = TopK(60, power=1.0, grow=False)(operator, 3).toarray() / 2
    unit = operator.Y / operator.Y.norm(dim=1, keepdim=True).clamp_min(1e-300)
    expected = (unit @ unit.T).abs().fill_diagonal_(0.0).numpy()
    np.testing.assert_allclose(A, expected, atol=1e-12)
    with pytest.raises(InputError, match="needs the closed form"):
        TopK(scale="cosine")(coefficients(), 3)


def test_k_grows_until_the_graph_has_no_more_pieces_than_clusters():
    """Two cliques of eight whose nearest neighbors pair up: k = 1 leaves eight pieces."""
    C = torch.zeros(16, 16, dtype=torch.float64)
    for start in (0, 8):
        C[start : start + 8, start : start + 8] = 0.5
    pairs = torch.arange(16)
    C[pairs, pairs ^ 1] = 1.0
    C.fill_diagonal_(0.0)
    pieces = connected_components(TopK(1, grow=False)(ExplicitCoefficients(C), 2))[0]
    grown = connected_components(TopK(1)(ExplicitCoefficients(C), 2))[0]
    assert (pieces, grown) == (8, 2)


def test_growing_asks_for_few_scans():
    """Neighbors found beyond k are used before another scan is made."""
    asked = []

    class Counting(ExplicitCoefficients):
        def topk(self, k):
            asked.append(k)
            return super().topk(k)

    C = torch.zeros(40, 40, dtype=torch.float64)
    C[:20, :20] = C[20:, 20:] = 0.5
    C[torch.arange(40), torch.arange(40) ^ 1] = 1.0
    A = TopK(1)(Counting(C.fill_diagonal_(0.0)), 2)
    assert connected_components(A)[0] == 2
    assert asked[0] == 2
    assert all(later > 2 * earlier for earlier, later in pairwise(asked))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 1000))
def test_sorting_gives_the_same_graph_as_scipy(n, k, seed):
    k = min(k, n - 1)
    generator = torch.Generator().manual_seed(seed)
    columns = torch.rand(n, n, generator=generator).fill_diagonal_(-1.0).topk(k, dim=1).indices
    weights = torch.rand(n, k, generator=generator, dtype=torch.float64)
    weights[weights < 0.2] = 0.0
    expected = sparse_symmetric(weights, columns, n)
    expected.sort_indices()
    got = _sparse_symmetric_by_sorting(weights, columns, n)
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data, expected.data)
    copied = sp.csr_array((got.data, got.indices, got.indptr), shape=got.shape)
    assert copied.has_canonical_format


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_graph_of_a_gpu_is_the_cpus():
    Z = torch.randn(900, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    one, other = (TopK()(solve(Z.to(device), 1.0), 3) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-10)


def test_names_and_objects():
    assert affinity.get("topk", 3) == TopK()
    own = TopK(7)
    assert affinity.get(own, 3) is own
    with pytest.raises(InputError, match="Did you mean 'symmetric'"):
        affinity.get("symetric", 3)
    with pytest.raises(InputError, match="callable"):
        affinity.get(3.0, 3)


@pytest.mark.parametrize(
    "make", [lambda: TopK(k=0), lambda: LowRank(share=0.0), lambda: LowRank(dim=0)]
)
def test_bad_options_are_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize(
    "make", [Symmetric(), Symmetric(scale=False), TopK(3), LowRank()], ids=repr
)
def test_sparse_coefficients_give_the_dense_affinity(make):
    C = coefficients(20).C
    C[C.abs() < 1.2] = 0.0
    C[7] = 0.0
    sparse = make(SparseCoefficients(sp.csr_array(C.numpy())), 3)
    np.testing.assert_allclose(
        as_array(sparse), as_array(make(ExplicitCoefficients(C), 3)), atol=1e-12
    )


def test_row_space_of_a_projector_sees_the_angles_within_it():
    """For C = V V' (LRR without noise) the affinity is the cosine of the rows of V to the 4th."""
    V = torch.linalg.qr(
        torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ).Q
    A = RowSpace()(ExplicitCoefficients(V @ V.T), 2)
    unit = V / V.norm(dim=1, keepdim=True)
    torch.testing.assert_close(A, (unit @ unit.T) ** 4)


@pytest.mark.parametrize("scale", [True, False])
def test_a_share_keeps_the_largest_of_each_row_dense_or_sparse(scale):
    C = torch.tensor([[0.0, -5, 3, 2], [4, 0, 0, 1], [1, 1, 0, 8], [0, 0, 0, 0]]).double()
    kept = torch.tensor([[0.0, 5, 3, 0], [4, 0, 0, 0], [0, 0, 0, 8], [0, 0, 0, 0]]).double()
    expected = Symmetric(scale=scale)(ExplicitCoefficients(kept), 2)
    make = Symmetric(scale=scale, share=0.7)
    torch.testing.assert_close(make(ExplicitCoefficients(C), 2), expected)
    sparse = make(SparseCoefficients(sp.csr_array(C.numpy())), 2)
    np.testing.assert_allclose(sparse.toarray(), expected.numpy(), rtol=1e-12)
    with pytest.raises(InputError, match=r"share=0\.0 is not allowed: a number of at least"):
        Symmetric(share=0.0)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("empty", [[0], [9], [0, 4, 5, 9]])
def test_sparse_rows_keep_what_dense_ones_do(share, empty):
    """Also where the first or the last row is empty, and rows are small or large."""
    rng = np.random.default_rng(0)
    C = rng.normal(size=(10, 10)) * 10.0 ** rng.integers(-4, 4, size=(10, 1))
    np.fill_diagonal(C, 0.0)
    C[empty] = 0.0
    make = Symmetric(share=share)
    with np.errstate(all="raise"):
        sparse = make(SparseCoefficients(sp.csr_array(C)), 2).toarray()
    np.testing.assert_allclose(
        sparse, make(ExplicitCoefficients(torch.from_numpy(C)), 2).numpy(), rtol=1e-12
    )
