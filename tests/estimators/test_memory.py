"""A method that would need more memory than there is says so before it starts."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import machine
from dcfsc.errors import InputError
from dcfsc.estimators import ADSSC, SSC, SSCOMP, EnSC, KernelSSC
from dcfsc.estimators.registry import METHODS
from dcfsc.self_expression import elastic_net, elastic_net_self_expression

N_BY_N = sorted(set(METHODS) - {"dcfsc", "views", "closed-form", "ssc-omp"})


@pytest.mark.parametrize("name", N_BY_N)
def test_a_fit_that_cannot_fit_is_refused_with_the_remedy(name, monkeypatch):
    monkeypatch.setattr(machine, "free_memory", lambda device: 1 << 20)
    X = np.random.default_rng(0).normal(size=(600, 5)).astype(np.float32)
    with pytest.raises(InputError, match=r"N=600 samples needs about .* GiB.*use ") as raised:
        METHODS[name](n_clusters=3, device="cpu").fit(X)
    assert "\n" not in str(raised.value)


def test_the_available_memory_is_a_plausible_number():
    assert 1 << 20 < machine.free_memory(torch.device("cpu")) < 1 << 63


def test_the_memory_asked_for_is_that_of_the_solver_in_use():
    closed_form = ADSSC(5)._memory(5_000, 8_000, 4)
    assert 8 * 5_000**2 < closed_form < 1.2 * 2**30
    with_l1 = ADSSC(5, eta3=0.1)._memory(5_000, 8_000, 4)
    assert with_l1 == EnSC(5)._memory(5_000, 8_000, 4) != closed_form


@pytest.mark.parametrize(("n", "d"), [(300, 112 * 92), (40, 10), (3_000, 4)])
def test_a_block_of_codes_is_bounded_for_wide_samples_too(n, d, monkeypatch):
    rows = []

    def solved(Z, part, *rest):
        rows.append(len(part))
        return elastic_net._Part(sp.csr_matrix((len(part), n)), 1, 0.0)

    monkeypatch.setattr(elastic_net, "_solve_rows", solved)
    elastic_net_self_expression(torch.ones(n, d))
    assert sum(rows) == n
    assert rows[0] == min(n, 2**23 // n, 2**26 // (64 * d))
    assert EnSC(3)._memory(1_000, 112 * 92, 4) < 2**30


def test_the_memory_grows_as_the_arrays_do():
    small = SSC()._memory(1000, 100, 4)
    assert 3 * 4e6 < small < 8 * 4e6
    assert SSC()._memory(2000, 100, 4) > 3.5 * small
    assert SSC()._memory(1000, 100, 8) > 1.8 * small


def test_the_memory_of_a_kernel_is_that_of_its_eigendecomposition():
    assert 5 * 8e6 <= KernelSSC()._memory(1000, 5, 4) <= KernelSSC()._memory(1000, 5, 8)


def test_a_pursuit_needs_no_square_of_the_samples_where_they_are_many():
    assert SSCOMP()._memory(70_000, 500, 4) < 70_000**2
    assert SSCOMP()._memory(10_000, 500, 4) > 4 * 10_000**2
