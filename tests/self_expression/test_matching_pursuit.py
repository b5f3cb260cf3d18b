"""SSC-OMP against scikit-learn's pursuit, sample by sample, and its corner cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.self_expression.matching_pursuit import (
    orthogonal_matching_pursuit,
    use_gram,
)


def unit_gaussian(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    rng = np.random.default_rng(seed)
    Z = torch.from_numpy(rng.standard_normal((n, d)))
    return torch.nn.functional.normalize(Z, dim=1).to(dtype)


def pursuit_of_scikit_learn(Z: Tensor, k: int) -> np.ndarray:
    """orthogonal_mp for each sample over the others, in double precision."""
    X = Z.double().numpy()
    C = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        C[i, others] = orthogonal_mp(X[others].T, X[i], n_nonzero_coefs=k)
    return C


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([(60, 12), (25, 40), (12, 12)]),
    k=st.integers(1, 6),
    gram=st.booleans(),
    block=st.sampled_from([7, 1024]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_supports_and_coefficients_are_those_of_scikit_learn(
    seed: int, shape: tuple[int, int], k: int, gram: bool, block: int, dtype: torch.dtype
) -> None:
    Z = unit_gaussian(*shape, seed)
    expected = pursuit_of_scikit_learn(Z, k)
    found = orthogonal_matching_pursuit(Z.to(dtype), k, gram=gram, block=block)
    C = found.coefficients
    assert isinstance(C, scipy.sparse.csr_array)
    assert C.has_sorted_indices
    np.testing.assert_array_equal(C.toarray() != 0, expected != 0)
    np.testing.assert_allclose(C.toarray(), expected, atol=1e-9 if dtype == torch.float64 else 2e-4)
    residual = ((Z.numpy() - expected @ Z.numpy()) ** 2).sum(1)
    assert found.residual == pytest.approx(residual.max(), rel=1e-5)
    assert found.objective == pytest.approx(residual.sum(), rel=1e-5)
    assert found.n_iter == k


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incoherent_subspaces_are_told_apart_and_codes_end_early(
    gram: bool, dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((30, 3)) @ rng.standard_normal((3, 200)) for _ in range(4)]
    Z = torch.from_numpy(np.concatenate(parts)).to(dtype)
    labels = np.repeat(np.arange(4), 30)
    found = orthogonal_matching_pursuit(Z, 8, gram=gram)
    C = found.coefficients.tocoo()
    assert found.converged
    assert found.residual < 1e-6
    assert found.n_iter == 3  # the dimension of the subspaces
    assert np.array_equal(labels[C.row], labels[C.col])


def test_rows_are_scaled_to_unit_norm_first() -> None:
    Z = unit_gaussian(30, 8, seed=2)
    scales = torch.linspace(0.1, 200, 30, dtype=torch.float64)[:, None]
    plain = orthogonal_matching_pursuit(Z, 4).coefficients
    scaled = orthogonal_matching_pursuit(Z * scales, 4).coefficients
    np.testing.assert_allclose(plain.toarray(), scaled.toarray(), atol=1e-12)


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("unit_of_length", [1e-12, 1.0, 1e12])
def test_samples_may_keep_their_lengths(gram: bool, unit_of_length: float) -> None:
    """Long samples are then chosen first, whatever the unit, and a stop is relative."""
    lengths = torch.linspace(0.2, 3.0, 40, dtype=torch.float64)[:, None]
    Z = lengths * unit_gaussian(40, 8, seed=9)
    expected = pursuit_of_scikit_learn(Z, 4)
    Z *= unit_of_length
    found = orthogonal_matching_pursuit(Z, 4, unit=False, gram=gram)
    np.testing.assert_allclose(found.coefficients.toarray(), expected, atol=1e-9)
    counts = np.count_nonzero(expected, axis=0)
    assert counts[20:].sum() > 2 * counts[:20].sum()
    shares = ((Z - torch.from_numpy(expected) @ Z) ** 2).sum(1) / (Z**2).sum(1)
    assert found.residual == pytest.approx(float(shares.max()))
    assert found.objective == pytest.approx(float(shares.sum()))
    early = orthogonal_matching_pursuit(Z, 8, 0.2, unit=False, gram=gram)
    assert 0.05 < early.residual < 0.2
    assert 1 < early.coefficients.nnz / 40 < 7


@pytest.mark.parametrize("gram", [False, True])
def test_short_samples_have_codes_too(gram: bool) -> None:
    """A long subspace and a short one that is orthogonal to it, in float32."""
    Z = torch.zeros(24, 12)
    Z[:12, :6] = unit_gaussian(12, 6, seed=10, dtype=torch.float32)
    Z[12:, 6:] = 1e-5 * unit_gaussian(12, 6, seed=11, dtype=torch.float32)
    C = orthogonal_matching_pursuit(Z, 3, unit=False, gram=gram).coefficients
    np.testing.assert_array_equal(np.diff(C.indptr), 3)
    assert C[:12].indices.max() < 12 <= C[12:].indices.min()


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_duplicate_is_the_whole_code(gram: bool, dtype: torch.dtype) -> None:
    Z = unit_gaussian(20, 6, seed=3, dtype=dtype)
    Z = torch.cat([Z, Z[[4]], -Z[[7]]])
    C = orthogonal_matching_pursuit(Z, 5, gram=gram).coefficients
    for i, j, value in ((4, 20, 1.0), (20, 4, 1.0), (7, 21, -1.0), (21, 7, -1.0)):
        assert C[[i]].indices.tolist() == [j]
        assert C[i, j] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("gram", [False, True])
def test_zero_rows_and_lonely_samples(gram: bool) -> None:
    Z = torch.zeros(8, 5)
    Z[:5, :4] = unit_gaussian(5, 4, seed=4, dtype=torch.float32)
    Z[6, 4] = 1.0  # orthogonal to all others; rows 5 and 7 are zero
    found = orthogonal_matching_pursuit(Z, 3, gram=gram)
    C = found.coefficients.toarray()
    assert np.isfinite(C).all()
    assert not C[5:].any()
    assert not C[:, 5:].any()
    assert (np.count_nonzero(C[:5], axis=1) == 3).all()
    assert found.residual == pytest.approx(1.0)


@pytest.mark.parametrize("gram", [False, True])
def test_a_code_never_holds_dependent_samples(gram: bool) -> None:
    """More choices than dimensions: once the span is full the residual is zero and codes end."""
    Z = unit_gaussian(30, 3, seed=5)
    found = orthogonal_matching_pursuit(Z, 10, tol=1e-30, gram=gram)
    counts = np.diff(found.coefficients.indptr)
    assert counts.max() <= 4
    assert np.abs(found.coefficients.toarray()).max() < 100
    np.testing.assert_allclose(found.coefficients @ Z.numpy(), Z.numpy(), atol=1e-10)


@pytest.mark.parametrize("Z", [torch.ones(1, 3), torch.zeros(4, 3)])
def test_nothing_to_choose_from(Z: Tensor) -> None:
    found = orthogonal_matching_pursuit(Z)
    assert found.coefficients.shape == (len(Z), len(Z))
    assert found.coefficients.nnz == 0
    assert found.n_iter == 0


def test_two_samples_code_each_other() -> None:
    Z = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    C = orthogonal_matching_pursuit(Z, 5).coefficients.toarray()
    np.testing.assert_allclose(C, [[0, 0.6], [0.6, 0]], atol=1e-6)


def test_equal_correlations_go_to_the_lower_index() -> None:
    Z = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.6, 0.0, 0.8], [0.6, 0.8, 0.0]])
    C = orthogonal_matching_pursuit(Z, 1).coefficients
    assert C[[0]].indices.tolist() == [1]


def test_gram_is_chosen_by_size() -> None:
    assert use_gram(10_000, 500, 4)
    assert not use_gram(70_000, 500, 4)
    assert not use_gram(1000, 10, 4)


def test_input_is_left_alone() -> None:
    Z = 3 * unit_gaussian(20, 70, seed=6)
    before = Z.clone()
    orthogonal_matching_pursuit(Z, gram=True)
    orthogonal_matching_pursuit(Z, gram=False)
    assert torch.equal(Z, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gpu_agrees_with_cpu(gram: bool, dtype: torch.dtype) -> None:
    Z = unit_gaussian(100, 20, seed=7, dtype=dtype)
    cpu = orthogonal_matching_pursuit(Z, gram=gram, block=30).coefficients
    gpu = orthogonal_matching_pursuit(Z.cuda(), gram=gram, block=30).coefficients
    np.testing.assert_array_equal(gpu.indices, cpu.indices)
    np.testing.assert_allclose(gpu.data, cpu.data, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k and block"),
        ({"block": 0}, "k and block"),
        ({"tol": 0.0}, "tol must be"),
        ({"Z": torch.zeros(3, 2, dtype=torch.int64)}, "float32 or float64"),
        ({"Z": torch.full((2, 2), torch.inf)}, "NaN or infinite"),
    ],
)
def test_bad_input_is_one_clear_line(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        orthogonal_matching_pursuit(**{"Z": unit_gaussian(5, 3)} | change)
