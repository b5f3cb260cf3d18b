"""The closed form at its edges: one sample, long ones, single precision, the numerical rank."""

import math

import pytest
import torch
from samples import normal

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.self_expression import FeatureForm, lam_for_dof, solve, solve_for_dof
from dcfsc.self_expression.effective_dof import numerical_rank
from dcfsc.self_expression.gram import fewer_samples, row_chunks

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("d", [1, 3])
def test_one_sample_alone_has_its_leverage_and_no_coefficient(form, d):
    operator = solve(torch.full((1, d), 2.0, dtype=torch.float64), 0.5, form=form)
    assert float(operator.leverage) == pytest.approx(4 * d / (4 * d + 0.5))
    assert operator.dense().tolist() == [[0.0]]


def test_as_many_samples_as_features_are_solved_by_samples(monkeypatch):
    Z = normal(4, 4)
    assert solve(Z, 1.0).form == solve_for_dof(Z, 2.0).form == "samples"
    assert solve(normal(5, 4), 1.0).form == "features"
    monkeypatch.setattr(processes, "active", lambda: True)
    assert not fewer_samples(Z)


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("shape", [(4,), (3, 2), (5, 4), (4, 2, 2)])
def test_products_are_with_matrices_of_as_many_rows(form, shape):
    operator = solve(normal(4, 3), 1.0, form=form)
    for product in (operator.matmul, operator.rmatmul):
        with pytest.raises(InputError, match="B has 4 columns"):
            product(torch.ones(shape, dtype=torch.float64))


def test_whole_numbers_have_no_closed_form():
    with pytest.raises(InputError, match="float32 or float64"):
        solve_for_dof(torch.eye(3, dtype=torch.int64), 2.0)


@pytest.mark.parametrize(("complement", "dtype"), [(0.015, torch.float32), (0.008, torch.float64)])
def test_single_precision_ends_where_two_digits_would_be_lost(complement, dtype):
    """A sample alone in its direction has 1 - h = lam / (lam + |z|^2)."""
    Z = torch.zeros(6, 4)
    Z[:5, :3] = 0.1 * normal(5, 3).float()
    Z[5, 3] = (1 / complement - 1) ** 0.5
    operator = FeatureForm(Z, 1.0)
    assert float(operator.complement.min()) == pytest.approx(complement, rel=1e-5)
    assert operator.Y.dtype == dtype
    assert operator.dense().dtype == torch.float32


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("value", [1e200, math.inf, math.nan])
def test_one_number_whose_square_overflows_is_named(form, value):
    Z = normal(4, 4)
    Z[1, 2] = value
    with pytest.raises(InputError, match="NaN or infinite values"):
        solve(Z, 1.0, form=form)


def test_a_leverage_is_below_one_by_what_the_samples_length_says():
    """Orthogonal samples, where 1 - |y|^2 is nothing but rounding."""
    lengths = torch.linspace(1e7, 6e7, 40, dtype=torch.float64)
    floor = 1.0 / (1.0 + lengths.square())
    found = FeatureForm(torch.diag(lengths), 1.0).complement
    assert (found >= floor * (1 - 1e-12)).all()
    assert (found <= floor + 4 * EPS).all()
    assert (found == floor).any()  # rounding alone would be negative or zero


def test_the_rank_counts_what_is_above_the_rounding_of_the_largest():
    for scale in (1.0, 2.0**-60, 2.0**60):
        for small, rank in ((1.9e-15, 1), (2e-15, 1), (2.1e-15, 2), (3.9e-15, 2)):
            squares = scale * torch.tensor([small, 1.0], dtype=torch.float64)
            assert numerical_rank(squares) == rank
    assert lam_for_dof(torch.tensor([7.0], dtype=torch.float64), 0.5) == pytest.approx(7.0)


def test_a_device_that_is_not_known_holds_as_many_numbers_as_a_cpu():
    chunks = list(row_chunks(3, 1 << 21, torch.device("meta")))
    assert chunks == list(row_chunks(3, 1 << 21, torch.device("cpu")))
    assert [(s.start, s.stop) for s in chunks] == [(0, 2), (2, 3)]
