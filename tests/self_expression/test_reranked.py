"""Neighbors in several kinds of rows, against all pairs written out."""

import numpy as np
import pytest
import torch
from samples import unit

from dcfsc.self_expression import FeatureForm, NearestForm, RankedByCosine, RerankedForm
from dcfsc.self_expression.reranked import cosines_of, nearest_of

N, WIDTHS, LAM = 100, (6, 5), 0.7


@pytest.fixture(scope="module")
def operator():
    others = [unit(N, d, seed=d) for d in WIDTHS]
    others[0][3] = 0.0
    return RerankedForm(FeatureForm(unit(N, 8), LAM), others)


def whitened_cosines(Z):
    """|H_ij| / sqrt(h_i h_j) of the hat matrix, without the diagonal."""
    Z = Z.numpy()
    H = Z @ np.linalg.solve(Z.T @ Z + LAM * np.eye(Z.shape[1]), Z.T)
    h = np.sqrt(np.diag(H))
    cosine = np.abs(H / np.outer(h, h))
    np.fill_diagonal(cosine, -1.0)
    return cosine


@pytest.mark.parametrize("k", [1, 8, 70])
def test_lists_are_the_nearest_of_the_pool(operator, k):
    first, *others = operator.neighbors(k, by_cosine=True)
    by_pool = np.argsort(-whitened_cosines(unit(N, 8)), axis=1)
    assert np.array_equal(first[1].numpy(), by_pool[:, :k])
    candidates = by_pool[:, : max(k, 64)]
    for (values, columns), R in zip(others, operator.others, strict=True):
        cosine = (R @ R.mT).numpy()
        for i in range(N):
            positive = sorted((max(cosine[i, j], 0.0) for j in candidates[i]), reverse=True)
            np.testing.assert_allclose(values[i], positive[:k], rtol=0, atol=1e-14)
            assert set(columns[i].tolist()) <= set(candidates[i].tolist()) - {i}
            assert len(set(columns[i].tolist())) == k
            expected = np.maximum(cosine[i, columns[i]], 0.0)
            np.testing.assert_allclose(values[i], expected, rtol=0, atol=1e-14)


def test_no_cosine_in_other_rows_is_negative(operator):
    lists = operator.neighbors(N - 1, by_cosine=True)
    assert len(lists) == 3
    for (values, columns), R in zip(lists[1:], operator.others, strict=True):
        assert float(values.min()) == 0.0
        positive = (R @ R.mT).fill_diagonal_(0.0) > 1e-12
        assert torch.equal((values > 1e-12).sum(dim=1), positive.sum(dim=1))
        assert columns.shape == (N, N - 1)


def test_by_magnitude_the_pool_answers_alone(operator):
    (only,) = operator.neighbors(5)
    values, columns = operator.pool.topk(5)
    assert torch.equal(only[0], values)
    assert torch.equal(only[1], columns)


class Shuffled(RankedByCosine):
    """Neighbors that come in no order."""

    def __init__(self, Z):
        self.form = NearestForm(Z)
        self.n, self.dtype, self.device = self.form.n, Z.dtype, Z.device

    def rows(self, start, stop):
        return self.form.rows(start, stop)

    def topk(self, k):
        return self.topk_cosine(k)

    def topk_cosine(self, k):
        values, columns = self.form.topk(k)
        order = torch.randperm(k, generator=torch.Generator().manual_seed(0))
        return values[:, order], columns[:, order]


def test_a_pool_need_not_come_in_order():
    Z, other = unit(N, 8), unit(N, 5, seed=1)
    ordered = RerankedForm(NearestForm(Z), [other]).neighbors(7, by_cosine=True)
    shuffled = RerankedForm(Shuffled(Z), [other]).neighbors(7, by_cosine=True)
    cosine = (Z @ Z.mT).fill_diagonal_(0.0)
    torch.testing.assert_close(shuffled[0][0].abs(), cosine.abs().topk(7).values)
    for (values, columns), (sorted_values, _) in zip(shuffled, ordered, strict=True):
        torch.testing.assert_close(values.abs(), sorted_values.abs().sort(descending=True).values)
        assert columns.shape == (N, 7)


@pytest.mark.parametrize("k", [1, 10, 60])
def test_votes_are_the_mean_cosines_in_other_rows_of_the_pools_candidates(operator, k):
    new = [unit(9, d, seed=50 + d) for d in (8, *WIDTHS)]
    Z = unit(N, 8)
    codes = new[0] @ torch.linalg.inv(Z.mT @ Z + LAM * torch.eye(8).double()) @ Z.mT
    z = torch.cat(new, dim=1)
    torch.testing.assert_close(operator.code(z), codes)
    values, columns = operator.topk_code(z, k)
    means = (new[1] @ operator.others[0].mT + new[2] @ operator.others[1].mT) / 2
    for i in range(9):
        candidates = np.argsort(-codes[i].abs().numpy())[:64]
        best = sorted(candidates, key=lambda j: -means[i, j])[:k]
        positive = int((means[i, best] > 0).sum())
        assert columns[i, :positive].tolist() == best[:positive]
        assert set(columns[i].tolist()) <= set(candidates.tolist())
        torch.testing.assert_close(values[i], means[i, best].clamp_min(0.0))


def test_cosines_of_candidates_are_taken_in_parts(monkeypatch):
    import dcfsc.self_expression.reranked as module

    R, z = unit(40, 6), unit(17, 6, seed=1)
    columns = torch.from_numpy(np.random.default_rng(0).integers(0, 40, (17, 11)))
    expected = (z @ R.mT).gather(1, columns)
    monkeypatch.setattr(
        module, "row_chunks", lambda n, *_: [slice(i, min(i + 5, n)) for i in range(0, n, 5)]
    )
    torch.testing.assert_close(cosines_of(columns, z, R), expected, rtol=0, atol=1e-15)
    values, chosen = nearest_of(columns, z, R, 3)
    torch.testing.assert_close(values, expected.clamp_min(0.0).topk(3, dim=1).values)
    torch.testing.assert_close((z @ R.mT).gather(1, chosen).clamp_min(0.0), values)
