"""What the sparse estimators hand to their solvers."""

from __future__ import annotations

import numpy as np
import torch

from dcfsc import SSCOMP
from dcfsc.self_expression import orthogonal_matching_pursuit


def test_a_pursuit_at_own_lengths_is_asked_for_by_the_scale() -> None:
    X = np.random.default_rng(0).normal(size=(60, 10)) * np.linspace(0.2, 3.0, 60)[:, None]
    own, divided, unit = (
        SSCOMP(2, scale=scale, random_state=0).fit(X).coefficients_.dense().numpy()
        for scale in ("none", "max", "unit")
    )
    Z = torch.from_numpy(X)
    expected = orthogonal_matching_pursuit(Z, unit=False).coefficients.toarray()
    np.testing.assert_allclose(own, expected, atol=1e-9)
    np.testing.assert_allclose(divided, own, atol=1e-9)
    expected = orthogonal_matching_pursuit(Z).coefficients.toarray()
    np.testing.assert_allclose(unit, expected, atol=1e-9)
    assert np.count_nonzero(own[:, 40:]) > 1.5 * np.count_nonzero(unit[:, 40:])
