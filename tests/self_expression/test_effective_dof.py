import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.self_expression import (
    LambdaPath,
    choose_lam,
    effective_dof,
    gram,
    lam_for_dof,
    smaller_gram,
    solve,
    solve_for_dof,
)
from dcfsc.self_expression.gram import add_gram, outer_gram, squared_singular_values


def matrix(n, d, seed=0, dtype=torch.float64):
    return torch.randn(n, d, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.integers(1, 30), st.floats(0.01, 0.95), st.floats(-12, 12))
def test_lam_is_the_root_at_any_scale(n, d, share, exponent):
    Z = matrix(n, d) * 10.0**exponent
    squares = squared_singular_values(Z)
    target = share * min(n, d)
    assert effective_dof(squares, lam_for_dof(squares, target)) == pytest.approx(target, rel=1e-6)


def test_a_target_above_the_rank_is_clipped_below_it():
    Z = matrix(30, 4) @ matrix(4, 12, seed=1)
    lam = choose_lam(Z, 100.0)
    assert solve(Z, lam).effective_dof == pytest.approx(0.99 * 4, rel=1e-4)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (9, 9)])
def test_one_gram_matrix_gives_the_same_closed_form(shape):
    Z = matrix(*shape)
    expected = solve(Z, choose_lam(Z, 5.0))
    for found in (solve_for_dof(Z, 5.0), solve_for_dof(Z, 5.0, smaller_gram(Z))):
        assert (found.form, found.lam) == (expected.form, expected.lam)
        assert torch.equal(found.rows(0, len(Z)), expected.rows(0, len(Z)))


def test_zero_data_and_bad_targets_are_refused():
    for choose in (choose_lam, solve_for_dof):
        with pytest.raises(InputError, match="zero"):
            choose(torch.zeros(4, 3), 2.0)
    with pytest.raises(InputError, match="positive"):
        choose_lam(torch.ones(4, 3), 0.0)


@pytest.mark.parametrize("shape", [(300, 40), (30, 600)])
def test_gram_matrices_are_exact_sums(shape):
    Z = matrix(*shape, dtype=torch.float32)
    torch.testing.assert_close(gram(Z), Z.double().T @ Z.double())
    torch.testing.assert_close(outer_gram(Z), Z.double() @ Z.double().T)
    G = torch.zeros(shape[1], shape[1], dtype=torch.float64)
    for part in Z.split(7):
        add_gram(G, part)
    torch.testing.assert_close(G, gram(Z))


@pytest.mark.parametrize("shape", [(40, 10), (10, 40)])
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_the_path_gives_what_single_solves_give(shape, lam):
    Z = matrix(*shape)
    path, operator = LambdaPath(Z), solve(Z, lam)
    assert path.effective_dof(lam) == pytest.approx(operator.effective_dof, rel=1e-8)
    torch.testing.assert_close(path.leverage(lam), operator.leverage)
    error = float((Z - operator.apply(Z)).square().sum())
    assert path.leave_one_out_error(lam) == pytest.approx(error, rel=1e-6)
