"""The closed form over orbits: one view is the plain form, several are the best of them."""

import pytest
import torch

from dcfsc.errors import InputError
from dcfsc.neighbors.views import _merged
from dcfsc.self_expression import solve
from dcfsc.self_expression.orbit import OrbitForm, orbit_gram

N, D, LAM = 40, 12, 0.7


def samples(seed=0, n=N):
    return torch.randn(n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def views(Z, count=3):
    orders = [torch.arange(D)]
    generator = torch.Generator().manual_seed(9)
    orders += [torch.randperm(D, generator=generator) for _ in range(count - 1)]
    return [lambda o=o: Z[:, o] for o in orders]


def test_one_view_is_the_closed_form():
    Z = samples()
    one, plain = OrbitForm(views(Z, 1), LAM), solve(Z, LAM, form="features")
    torch.testing.assert_close(one.dense(), plain.dense().abs())
    assert one.effective_dof == pytest.approx(plain.effective_dof)
    torch.testing.assert_close(one.topk_cosine(5)[0], plain.topk_cosine(5)[0].abs())


def test_coefficients_are_the_best_of_the_ridge_over_all_rows():
    """Written out: H over the N A stacked rows, the maximum over each sample's copies."""
    Z = samples()
    stacked = torch.cat([view() for view in views(Z)])
    H = stacked @ torch.linalg.inv(stacked.T @ stacked + LAM * torch.eye(D).double()) @ stacked.T
    best = H[:N].abs().view(N, 3, N).amax(1)
    h = H.diagonal()[:N]
    expected = (best / (1.0 - h)[:, None]).fill_diagonal_(0.0)
    orbit = OrbitForm(views(Z), LAM)
    torch.testing.assert_close(orbit.dense(), expected)
    torch.testing.assert_close(orbit.leverage, h)
    assert orbit.effective_dof == pytest.approx(float(H.trace()))


@pytest.mark.parametrize("k", [1, 4, N - 1, N + 5])
def test_topk_is_that_of_the_dense_matrix(k):
    orbit = OrbitForm(views(samples()), LAM)
    values, indices = orbit.topk(k)
    expected = orbit.dense().topk(min(k, N - 1), dim=1)
    torch.testing.assert_close(values, expected.values)
    assert all(len(set(row.tolist())) == len(row) for row in indices)
    assert not (indices == torch.arange(N)[:, None]).any()


def test_a_sample_finds_what_it_turned_into():
    Z = samples()
    order = torch.randperm(D, generator=torch.Generator().manual_seed(9))
    Z[1] = Z[0, torch.argsort(order)]  # sample 1, changed by the second view, is sample 0
    values, indices = OrbitForm(views(Z, 2), 1e-3).topk_cosine(1)
    assert int(indices[0, 0]) == 1
    assert float(values[0, 0]) == pytest.approx(1.0)


def test_unseen_samples_are_coded_over_the_orbits():
    Z, new = samples(), samples(5, 7)
    orbit = OrbitForm(views(Z), LAM)
    G = orbit_gram(views(Z)) + LAM * torch.eye(D).double()
    codes = torch.stack([(new @ torch.linalg.inv(G) @ view().T).abs() for view in views(Z)]).amax(0)
    values, indices = orbit.topk_code(new, 3)
    torch.testing.assert_close(values, codes.topk(3, dim=1).values)
    torch.testing.assert_close(codes.gather(1, indices), values)


def test_zero_rows_have_no_neighbors_of_weight():
    Z = samples()
    Z[3] = 0.0
    values, _ = OrbitForm(views(Z), LAM).topk_cosine(4)
    assert torch.isfinite(values).all()
    assert (values[3] == 0).all()


def test_a_leverage_of_one_leaves_finite_coefficients():
    """Orthogonal samples with hardly any ridge: leverages of one, but for rounding."""
    operator = OrbitForm([lambda: torch.eye(4, dtype=torch.float64)], 1e-14)
    torch.testing.assert_close(
        operator.leverage, torch.full((4,), 1.0 - 1e-9, dtype=torch.float64), rtol=0, atol=0
    )
    assert not operator.rows(0, 4).any()


def test_merging_keeps_the_larger_of_a_repeated_column():
    values = torch.tensor([[0.9, 0.5, 0.7, 0.6]])
    indices = torch.tensor([[4, 2, 2, 8]])
    kept, columns = _merged(values, indices, 3)
    assert kept[0].tolist() == pytest.approx([0.9, 0.7, 0.6])
    assert columns.tolist() == [[4, 2, 8]]


def test_no_view_is_refused():
    with pytest.raises(InputError, match="at least"):
        orbit_gram([])
