"""A method that would need more memory than there is says so before it starts."""

import numpy as np
import pytest
import torch

from dcfsc import machine
from dcfsc.errors import InputError
from dcfsc.estimators.registry import METHODS

N_BY_N = sorted(set(METHODS) - {"dcfsc", "closed-form", "ssc-omp"})


@pytest.mark.parametrize("name", N_BY_N)
def test_a_fit_that_cannot_fit_is_refused_with_the_remedy(name, monkeypatch):
    monkeypatch.setattr(machine, "free_memory", lambda device: 1 << 20)
    X = np.random.default_rng(0).normal(size=(600, 5)).astype(np.float32)
    with pytest.raises(InputError, match=r"N=600 samples needs about .* GiB.*use ") as raised:
        METHODS[name](n_clusters=3, device="cpu").fit(X)
    assert "\n" not in str(raised.value)


def test_the_available_memory_is_a_plausible_number():
    assert 1 << 20 < machine.free_memory(torch.device("cpu")) < 1 << 63
