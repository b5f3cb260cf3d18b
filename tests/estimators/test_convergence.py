"""What is said when a solver stops before it has converged: one sentence, each number once."""

from __future__ import annotations

import contextlib
import re
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from dcfsc import EDSC, LRR, SSC, KernelSSC
from dcfsc.errors import InputError
from dcfsc.io import synthetic

ITERATIVE = {
    "SSC": (SSC, "raise max_iter, or tol=0.0002."),
    "KernelSSC": (KernelSSC, "raise max_iter, or tol=0.0002."),
    "LRR": (LRR, "raise max_iter."),
    "EDSC": (EDSC, "raise max_iter."),
}


@pytest.mark.parametrize("max_iter", [1, 3])
@pytest.mark.parametrize("name", ITERATIVE)
def test_the_message_says_once_where_the_solver_stopped_and_what_to_do(name, max_iter):
    data = synthetic(40, 2, 2, 12, noise=0.1, random_state=0)
    make, advice = ITERATIVE[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make(2, max_iter=max_iter, random_state=0, device="cpu")
        seen: dict[str, float] = {}
        finish = model._stopped

        def watched() -> str:
            seen.update(residual=model.residual_, n_iter=model.n_iter_)
            return finish()

        model._stopped = watched
        with contextlib.suppress(InputError):  # after one step of LRR there are no coefficients yet
            model.fit(data.X)
    (message,) = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    count = "1 iteration" if max_iter == 1 else f"{max_iter} iterations"
    stopped = f"{name} stopped after {count} at a residual of {seen['residual']:.3g}; "
    assert message == stopped + advice
    assert "\n" not in message
    assert len(re.findall("residual", message)) == len(re.findall("iteration", message)) == 1
    assert seen["n_iter"] == max_iter


def test_a_solver_that_has_converged_says_nothing():
    data = synthetic(40, 2, 2, 12, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = EDSC(2, random_state=0, device="cpu").fit(data.X)
    assert [str(w.message) for w in caught if w.category is ConvergenceWarning] == []
    assert 1 < model.n_iter_ < model.max_iter
