"""Defaults, refusals and tolerances of the solvers, whatever they solve."""

import inspect
import math

import pytest
import scipy.sparse as sp
import torch
from samples import normal

from dcfsc.errors import InputError
from dcfsc.self_expression import (
    dense_self_expression,
    elastic_net_self_expression,
    kernel_matrix,
    kernel_sparse_self_expression,
    low_rank_representation,
    low_rank_subspace,
    orthogonal_matching_pursuit,
    sparse_self_expression,
)

NO_NUMBERS = [0, -1.0, math.nan, math.inf]


def kernel_code(Z, **options):
    return kernel_sparse_self_expression(kernel_matrix(Z, "linear"), **options)


# What the documentation says of parameters that are not given, and options under which they count.
DEFAULTS = [
    (dense_self_expression, {}, {"l1": 100.0, "outliers": True, "rho": 3.0, "mu": 1e-6}),
    (dense_self_expression, {"tol": 1e-300, "max_iter": 60}, {"max_mu": 1e10}),
    (dense_self_expression, {"rho": 1.1}, {"tol": 1e-8}),
    (sparse_self_expression, {"max_iter": 9000}, {"alpha": 20.0, "affine": False, "tol": 2e-4}),
    (
        sparse_self_expression,
        {"outliers": False, "max_iter": 9000},
        {"alpha": 20.0, "tol": 2e-4},
    ),
    (
        kernel_code,
        {"max_iter": 9000},
        {"alpha": 20.0, "affine": False, "tol": 2e-4},
    ),
    (elastic_net_self_expression, {}, {"alpha": 50.0, "l1_ratio": 0.95, "tol": 1e-3}),
    (low_rank_representation, {}, {"lam": 0.18, "norm": "l21", "gap": 1e-4}),
]


@pytest.mark.parametrize(("solver", "options", "defaults"), DEFAULTS)
def test_what_is_not_said_is_as_documented(solver, options, defaults):
    """The same result to the last bit, and another one if any number were twice as large."""
    shape = (80, 15) if solver is elastic_net_self_expression else (30, 5)
    Z = torch.nn.functional.normalize(normal(*shape, seed=3) + 0.5)

    def result(**changes):
        found = solver(Z, **options, **changes)
        C = found.coefficients
        C = C.toarray() if sp.issparse(C) else C.numpy()
        return C.tobytes(), found.n_iter, found.residual

    plain = result()
    assert plain == result(**defaults)
    for name, value in defaults.items():
        if isinstance(value, float) and name != "l1_ratio":  # which is below one
            assert plain != result(**{name: 2 * value}), name


@pytest.mark.parametrize(
    ("solver", "options", "most"),
    [
        (dense_self_expression, {"rho": 1.001}, 1000),
        (low_rank_representation, {"gap": 1e-300}, 2000),
    ],
)
def test_there_are_as_many_steps_as_documented(solver, options, most):
    Z = torch.nn.functional.normalize(normal(12, 5, seed=3) + 0.5)
    found = solver(Z, **options)
    assert (found.n_iter, found.converged) == (most, False)


POSITIVE = {
    dense_self_expression: ["l1", "l2", "rho", "mu", "max_mu", "tol", "max_iter"],
    elastic_net_self_expression: ["alpha", "weight", "tol", "max_iter", "block_rows"],
    sparse_self_expression: ["alpha", "weight", "penalty", "gamma", "tol", "max_iter"],
    kernel_sparse_self_expression: ["alpha", "weight", "penalty", "tol", "max_iter"],
    kernel_matrix: ["gamma", "degree"],
    low_rank_representation: ["gap", "max_iter"],
    low_rank_subspace: ["tau"],
    orthogonal_matching_pursuit: ["tol"],
}
CASES = [(solver, name) for solver, names in POSITIVE.items() for name in names]


@pytest.mark.parametrize(("solver", "name"), CASES)
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_parameter_that_is_no_positive_number_is_refused_by_name(solver, name, value):
    with pytest.raises(InputError, match=f"^{name} must be a positive number, got"):
        solver(torch.eye(4, dtype=torch.float64) + 0.2, **{name: value})


@pytest.mark.parametrize("value", NO_NUMBERS[:3])
def test_prices_may_be_infinite_but_not_zero(value):
    Z = normal(4, 3)
    with pytest.raises(InputError, match=r"^lam must be a positive number"):
        low_rank_representation(Z, value)
    with pytest.raises(InputError, match=r"^alpha must be a positive number"):
        low_rank_subspace(Z, alpha=value)


@pytest.mark.parametrize("solver", POSITIVE)
@pytest.mark.parametrize(
    ("Z", "word"),
    [
        (torch.ones(3), "non-empty matrix"),
        (torch.ones(1, 3, 3), "non-empty matrix"),
        (torch.ones(0, 3), "non-empty matrix"),
        (torch.ones(3, 3, dtype=torch.int64), "float32 or float64"),
        (torch.tensor([[1.0, math.inf], [math.inf, 1.0]]), "NaN or infinite"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused_by_name(solver, Z, word):
    name = next(iter(inspect.signature(solver).parameters))
    with pytest.raises(InputError, match=rf"^{name} .*{word}"):
        solver(Z)


@pytest.mark.parametrize("code", [sparse_self_expression, kernel_sparse_self_expression])
@pytest.mark.parametrize("name", ["tol", "max_iter"])
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_bad_options_are_refused_also_where_there_is_nothing_to_code(code, name, value):
    with pytest.raises(InputError, match=name):
        code(torch.eye(4, dtype=torch.float64), **{name: value})


def outlier_code(Z, **options):
    return sparse_self_expression(Z, max_iter=5000, **options)


def lasso_code(Z, **options):
    return sparse_self_expression(Z, outliers=False, max_iter=5000, **options)


@pytest.mark.parametrize(
    ("solver", "tol"),
    [(outlier_code, 1e-3), (lasso_code, 1e-3), (dense_self_expression, 1e-4)],
)
def test_a_tolerance_that_is_just_met_is_met(solver, tol):
    Z = normal(12, 5)
    first = solver(Z, tol=tol)
    again = solver(Z, tol=first.residual)
    assert first.n_iter > 2
    assert (again.n_iter, again.residual, again.converged) == (first.n_iter, first.residual, True)
