"""The nearest doubly stochastic matrix against a general solver, dense and sparse."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dcfsc.affinity import DoublyStochastic, nearest_doubly_stochastic
from dcfsc.affinity import doubly_stochastic as steps
from dcfsc.affinity.doubly_stochastic import _dual, _thresholds
from dcfsc.errors import InputError
from dcfsc.self_expression import ExplicitCoefficients, SparseCoefficients


def coefficients(n, seed=0, density=1.0):
    random = np.random.default_rng(seed)
    C = random.normal(size=(n, n)) * (random.random((n, n)) < density)
    np.fill_diagonal(C, 0.0)
    return C


def by_a_general_solver(K, eta):
    """argmin |K - eta A|^2 over doubly stochastic A, by sequential quadratic programming."""
    n = len(K)

    def sums(x):
        A = x.reshape(n, n)
        return np.concatenate([A.sum(axis=0), A.sum(axis=1)[:-1]]) - 1.0

    return minimize(
        lambda x: 0.5 * np.square(K - eta * x.reshape(n, n)).sum(),
        np.full(n * n, 1.0 / n),
        jac=lambda x: -eta * (K - eta * x.reshape(n, n)).ravel(),
        bounds=[(0.0, None)] * (n * n),
        constraints=[{"type": "eq", "fun": sums}],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    ).x.reshape(n, n)


@pytest.mark.parametrize(("n", "eta"), [(5, 0.3), (6, 0.05), (6, 3.0)])
def test_it_is_the_nearest(n, eta):
    C = coefficients(n)
    A = nearest_doubly_stochastic(ExplicitCoefficients(torch.from_numpy(C)), eta, 1e-12).toarray()
    np.testing.assert_allclose(A, by_a_general_solver(np.abs(C), eta), atol=1e-7)


@pytest.mark.parametrize("eta", [0.01, 0.1, 2.0])
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_many_samples_meet_the_optimality_conditions(eta, density):
    """A = (K - a 1' - 1 b')_+ / eta for some a, b, over all entries, and sums of one."""
    C = coefficients(150, density=density)
    given = ExplicitCoefficients(torch.from_numpy(C))
    A = nearest_doubly_stochastic(given, eta, 1e-8)
    assert (A.data > 0).all()
    A = A.toarray()
    _, a, b = _dual(given, eta, 1e-8)
    expected = np.maximum(np.abs(C) - a[:, None] - b[None, :], 0.0) / eta
    np.testing.assert_allclose(A, expected, atol=1e-7)
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-7)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-7)


def test_the_tolerance_is_that_of_an_entry(monkeypatch):
    """What is left out would weigh no more than the tolerance, however small eta."""
    monkeypatch.setattr(steps, "START", 4)
    C, eta, tol = coefficients(40), 0.05, 1e-2
    given = ExplicitCoefficients(torch.from_numpy(C))
    A = nearest_doubly_stochastic(given, eta, tol).toarray()
    _, a, b = _dual(given, eta, tol)
    expected = np.maximum(np.abs(C) - a[:, None] - b[None, :], 0.0) / eta
    np.testing.assert_allclose(A, expected, atol=tol)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=tol)


def test_twice_as_many_entries_join_in_every_further_round(monkeypatch):
    monkeypatch.setattr(steps, "START", 2)
    given = ExplicitCoefficients(torch.from_numpy(coefficients(60)))
    missing, most = steps._missing, []

    def joining(*asked):
        most.append(asked[-1])
        return missing(*asked)

    monkeypatch.setattr(steps, "_missing", joining)
    nearest_doubly_stochastic(given, 2.0, 1e-8)
    assert most == [2 << number for number in range(len(most))]
    assert len(most) > 2


@pytest.mark.parametrize(
    ("largest", "smooth"), [(1.0, []), (1.5, [4.0]), (4.0, [4.0]), (5.0, [16.0, 4.0])]
)
def test_the_start_comes_from_smoother_problems(largest, smooth, monkeypatch):
    """Each a fourth of the one before, and the first not below the largest entry; eta is one."""
    solved = []

    def minimize(entries, eta, a, b, tol):
        solved.append((eta, tol))
        return a + 1.0, b + 2.0, 0.0

    monkeypatch.setattr(steps, "_minimize", minimize)
    entries = steps._Entries(np.array([0, 1]), np.array([1, 0]), np.array([largest, 0.1]), 2)
    a, b = steps._smooth_start(entries, 1.0)
    assert solved == [(eta, 0.1) for eta in smooth]
    assert (a.tolist(), b.tolist()) == ([len(smooth)] * 2, [2.0 * len(smooth)] * 2)


def test_sparse_and_dense_coefficients_give_the_same():
    C = coefficients(80, density=0.1)
    dense = DoublyStochastic()(ExplicitCoefficients(torch.from_numpy(C)), 3)
    sparse = DoublyStochastic()(SparseCoefficients(sp.csr_array(C)), 3)
    np.testing.assert_allclose(sparse.toarray(), dense.toarray(), atol=1e-5)
    assert abs(dense - dense.T).max() < 1e-12
    assert dense.min() >= 0
    assert dense.diagonal().max() == 0.0


def test_the_scale_of_the_coefficients_does_not_matter_unless_asked():
    C = torch.from_numpy(coefficients(40))
    one, other = (DoublyStochastic()(ExplicitCoefficients(s * C), 3).toarray() for s in (1.0, 9.0))
    np.testing.assert_allclose(one, other, atol=1e-5)
    absolute = DoublyStochastic(0.1, relative=False)
    two = absolute(ExplicitCoefficients(9.0 * C), 3).toarray()
    assert np.abs(two - absolute(ExplicitCoefficients(C), 3).toarray()).max() > 0.1


@pytest.mark.parametrize(("relative", "eta"), [(True, 0.1), (True, 0.4), (False, 0.4)])
def test_the_affinity_is_the_mean_of_both_directions(relative, eta):
    C = coefficients(30)
    given = ExplicitCoefficients(torch.from_numpy(C))
    scale = np.abs(C).max(axis=1).mean() if relative else 1.0
    nearest = nearest_doubly_stochastic(given, eta * scale, 1e-9).toarray()
    expected = 0.5 * (nearest + nearest.T)
    np.fill_diagonal(expected, 0.0)
    A = DoublyStochastic(eta, relative, tol=1e-9)(given, 3)
    np.testing.assert_allclose(A.toarray(), expected, atol=1e-8)
    assert (A.data != 0).all()
    if (relative, eta) == (True, 0.1):  # the defaults
        np.testing.assert_allclose(DoublyStochastic()(given, 3).toarray(), expected, atol=1e-5)


def test_no_coefficients_give_finite_affinities():
    A = DoublyStochastic()(ExplicitCoefficients(torch.zeros(6, 6)), 2).toarray()
    assert np.isfinite(A).all()
    assert (A.sum(axis=1) <= 1.0 + 1e-6).all()


class Blocks(ExplicitCoefficients):
    """Coefficients that know how many of them were asked for at a time, since last looked at."""

    most = 0

    def rows(self, start, stop):
        part = super().rows(start, stop)
        self.most = max(self.most, part.numel())
        return part

    @property
    def largest(self):
        largest, self.most = self.most, 0
        return largest


@pytest.mark.parametrize("n", [5, 40])
def test_the_first_entries_are_the_largest_and_the_diagonal(n):
    C = coefficients(n, seed=2)
    C[np.diag_indices(n)] = -np.arange(1.0, n + 1)
    expected = np.zeros((n, n))
    for i in range(n):
        others = np.abs(np.delete(C[i], i))
        bound = np.sort(others)[::-1][: steps.START].min()
        expected[i] = np.where(np.abs(C[i]) >= bound, np.abs(C[i]), 0.0)
        expected[i, i] = i + 1.0
    off = C - np.diag(np.diag(C))  # sparse coefficients have a zero diagonal
    for given, kept in (
        (ExplicitCoefficients(torch.from_numpy(C)), expected),
        (SparseCoefficients(sp.csr_array(off)), expected - np.diag(np.diag(expected))),
    ):
        found = steps._first_entries(given)
        dense = sp.coo_array((found.k, (found.i, found.j)), shape=(n, n)).toarray()
        np.testing.assert_array_equal(dense, kept)
        order = np.lexsort((found.j, found.i))
        np.testing.assert_array_equal(order, np.arange(len(order)))
        assert (np.diff(found.j[found.by_column]) >= 0).all()


@pytest.mark.parametrize("rows", [0.5, 1, 3, 7, 40])
@pytest.mark.parametrize("most", [1, 4, 100])
def test_missing_entries_are_the_largest_beyond_the_bound(rows, most, monkeypatch):
    """By loops over all entries, in blocks of any number of rows."""
    n = 20
    monkeypatch.setattr(steps, "BLOCK", int(rows * n))
    random = np.random.default_rng(1)
    C, a, b = coefficients(n, seed=4), random.normal(size=n) / 4, random.normal(size=n) / 4
    inside = random.random((n, n)) < 0.2
    known = steps._Entries(*np.nonzero(inside), np.abs(C)[inside], n)
    excess = np.where(inside, 0.0, np.abs(C) - a[:, None] - b)
    expected = {
        (i, int(j))
        for i in range(n)
        for j in np.argsort(-excess[i])[:most]
        if excess[i, j] > 0.3 and not inside[i, j]
    }
    given = Blocks(torch.from_numpy(C))
    i, j, k = steps._missing(given, known, a, b, 0.3, most)
    assert given.largest == n * min(max(rows, 1), n)  # as many as fit, or one
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == expected
    np.testing.assert_array_equal(k, np.abs(C)[i, j])
    assert steps._missing(ExplicitCoefficients(torch.from_numpy(C)), known, a, b, 9.0, 1) is None


@pytest.mark.parametrize("rows", [1, 4, 11])
def test_blocks_of_any_size_give_the_same_matrix(rows, monkeypatch):
    C = coefficients(44, seed=3)
    C[np.diag_indices(44)] = np.linspace(0.0, 2.0, 44)
    given = ExplicitCoefficients(torch.from_numpy(C))
    whole = nearest_doubly_stochastic(given, 0.2, 1e-9).toarray()
    monkeypatch.setattr(steps, "BLOCK", rows * 44)
    parts = nearest_doubly_stochastic(given, 0.2, 1e-9).toarray()
    np.testing.assert_allclose(parts, whole, atol=1e-8)


def test_a_newton_step_solves_the_system():
    """Against a least-squares solution; both are known up to (1, -1)."""
    random = np.random.default_rng(0)
    M = random.uniform(0.5, 2.0, (6, 6))
    H = np.block([[np.diag(M.sum(1)), M], [M.T, np.diag(M.sum(0))]])
    g = H @ random.normal(size=12)
    g *= 1e-9 / np.abs(g).max()  # the smaller, the more exact is the step
    step = steps._newton_step(sp.csr_array(M), g)
    expected = -np.linalg.lstsq(H, g, rcond=None)[0]
    apart = step - expected
    null = np.repeat([1.0, -1.0], 6) / np.sqrt(12)
    np.testing.assert_allclose(
        apart - null * (null @ apart), 0.0, atol=1e-6 * np.abs(expected).max()
    )


STEPS = [(0.5, 0.5), (6.0, 3.0), (19.0, 4.75), (-1.0, 0.0)]
STEPS += [(2000.0, 2000.0 / 512), (4000.0, 0.0)]  # nine times at most
# enough is a ten thousandth of what the slope of 9 promises
STEPS += [(5.0, 2.5), (4.994, 4.994), (2 * 4.994, 4.994), (4.9965, 2.49825)]


@pytest.mark.parametrize(("step", "taken"), STEPS)
def test_a_step_is_halved_until_the_dual_falls_enough(step, taken):
    """One entry 1, eta = 0.1: the dual a + b + (1 - a - b)_+^2 / 0.2 is 5 at 0, and a beyond 1."""
    one, zero = np.array([1.0]), np.array([0])
    at = np.zeros(1)
    gradient = np.array([1.0 - 10.0, 1.0 - 10.0])
    a, b = steps._shorter(one, zero, zero, 0.1, at, at, np.array([step, 0.0]), gradient)
    assert (a.tolist(), b.tolist()) == ([taken], [0.0])
    a, b = steps._shorter(one, zero, zero, 0.1, at, at, np.array([0.0, step]), gradient)
    assert (a.tolist(), b.tolist()) == ([0.0], [taken])


def test_the_minimum_over_some_entries_has_sums_of_one(monkeypatch):
    C = np.abs(coefficients(12, seed=5))
    C[np.diag_indices(12)] = 0.5
    inside = np.random.default_rng(2).random((12, 12)) < 0.5
    inside |= np.eye(12, dtype=bool)
    entries = steps._Entries(*np.nonzero(inside), C[inside], 12)
    a, b, error = steps._minimize(entries, 0.3, np.zeros(12), np.zeros(12), 1e-10)
    A = np.where(inside, np.maximum(C - a[:, None] - b, 0.0), 0.0) / 0.3
    sums = np.concatenate([A.sum(axis=0), A.sum(axis=1)])
    np.testing.assert_allclose(sums, 1.0, atol=1e-10)
    assert error == pytest.approx(np.abs(1.0 - sums).max(), abs=1e-15)
    with monkeypatch.context() as patched:  # at the minimum no step is made
        patched.delattr(steps, "_newton_step")
        again = steps._minimize(entries, 0.3, a, b, 1e-9)
    np.testing.assert_allclose(again[0], a, atol=1e-9)
    np.testing.assert_allclose(again[1], b, atol=1e-9)
    a, b, error = steps._minimize(entries, 0.3, np.zeros(12), np.zeros(12), 0.5)
    A = np.where(inside, np.maximum(C - a[:, None] - b, 0.0), 0.0) / 0.3
    rough = np.abs(1.0 - np.concatenate([A.sum(axis=0), A.sum(axis=1)])).max()
    assert error == pytest.approx(rough)
    assert 1e-10 < error <= 0.5


def test_thresholds_leave_each_row_a_sum_of_eta():
    random = np.random.default_rng(0)
    row = np.repeat(np.arange(7), random.integers(1, 9, size=7))
    v = random.normal(size=len(row))
    t = _thresholds(row, v, 0.4, 7)
    np.testing.assert_allclose(np.bincount(row, np.maximum(v - t[row], 0.0)), 0.4, atol=1e-12)


def test_what_does_not_converge_is_said(monkeypatch):
    monkeypatch.setattr("dcfsc.affinity.doubly_stochastic.STEPS", 1)
    given = ExplicitCoefficients(torch.from_numpy(coefficients(60)))
    with pytest.warns(ConvergenceWarning, match="raise eta"):
        DoublyStochastic(0.001)(given, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DoublyStochastic(2.0, tol=0.1)(given, 3)


@pytest.mark.parametrize(("error", "said"), [(9e-3, False), (1e-2, False), (1.5e-2, True)])
def test_ten_times_the_tolerance_is_too_much(error, said, monkeypatch):
    minimize = steps._minimize
    monkeypatch.setattr(steps, "_minimize", lambda *given: (*minimize(*given)[:2], error))
    given = ExplicitCoefficients(torch.from_numpy(coefficients(10)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nearest_doubly_stochastic(given, 0.5, 1e-3)
    assert len(caught) == said


def test_the_defaults_are_those_of_the_documentation():
    assert DoublyStochastic() == DoublyStochastic(eta=0.1, relative=True, tol=1e-6)
    assert inspect.signature(nearest_doubly_stochastic).parameters["tol"].default == 1e-6


@pytest.mark.parametrize(
    "options", [{"eta": 0.0}, {"eta": -1.0}, {"tol": 0.0}, {"eta": np.inf}, {"tol": np.nan}]
)
def test_bad_parameters_are_refused(options):
    with pytest.raises(InputError, match="is not allowed: a number of at least"):
        DoublyStochastic(**options)
