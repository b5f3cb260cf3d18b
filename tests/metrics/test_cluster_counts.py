"""Evidence for a number of clusters, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.metrics.cluster_counts import (
    COUPLING_FLOOR,
    FLOOR,
    SIZE_FLOOR,
    evenness,
    separation,
    slopes,
    unevenness,
)


@given(st.floats(0.1, 3.0), st.floats(1e-4, 1e-2))
@settings(max_examples=30, deadline=None)
def test_weyls_law_has_the_same_slope_everywhere(power: float, scale: float) -> None:
    mu = scale * np.arange(1, 40) ** power
    found = slopes(1.0 - mu, floor=1e-12)
    K = np.arange(1, 39)
    np.testing.assert_allclose(found, power * K * np.log1p(1 / K), rtol=1e-6)
    assert (np.abs(found - power) <= 0.5 * power).all()


def test_a_drop_after_the_k_th_has_the_largest_slope_and_zeros_are_no_drop() -> None:
    mu = np.concatenate([np.linspace(0.0, 5 * FLOOR, 6), np.linspace(0.3, 0.6, 20)])
    assert slopes(1.0 - mu).argmax() + 1 == 6
    almost_apart = np.array([0.0, 1e-16, 1e-9, 1e-5, 0.5, 0.6])
    found = slopes(1.0 - almost_apart)
    assert (found[:3] == 0).all()
    assert found.argmax() + 1 == 4


def test_separation_compares_clusters_with_halves() -> None:
    couplings = np.array([[0.4, 0.05, 0.01], [0.05, 0.5, 0.0], [0.01, 0.0, 0.2]])
    expected = 3 * np.log((0.2 + COUPLING_FLOOR) / (0.05 + COUPLING_FLOOR))
    assert separation(couplings) == pytest.approx(expected)
    assert separation(np.full((2, 2), 0.3)) == 0.0


def test_unevenness_is_what_the_entropy_of_the_shares_lacks() -> None:
    assert unevenness(np.array([60, 60, 60])) == pytest.approx(0.0, abs=1e-12)
    # shares 1/3, 1/3, 1/6, 1/6: three equal classes, one of them in halves
    entropy = 2 / 3 * np.log(3) + 1 / 3 * np.log(6)
    assert unevenness(np.array([60, 60, 30, 30])) == pytest.approx(np.log(4) - entropy)
    assert unevenness(np.array([10, 10, 0])) == pytest.approx(np.log(3) - np.log(2))


def test_evenness_rewards_what_is_more_even_than_beside_it_and_blames_nothing() -> None:
    f = SIZE_FLOOR
    found = evenness({2: 0.3, 3: 0.0, 6: 0.1, 10: 0.05, 13: 0.07, 14: 0.04})
    assert found == pytest.approx(
        {
            2: 0.0,
            3: 3 * np.log((0.1 + f) / f),  # 2 and 6 are beside it
            6: 0.0,
            10: 10 * np.log((0.07 + f) / (0.05 + f)),  # 13, but neither 6 nor 14
            13: 0.0,
            14: 14 * np.log((0.07 + f) / (0.04 + f)),
        }
    )
    assert evenness({5: 0.0}) == {5: 0.0}  # with nothing to compare


def test_floors_by_value() -> None:
    np.testing.assert_allclose(slopes(1.0 - np.array([0.0, 5e-4, 2e-3])), [0.0, 2 * np.log(2)])
    apart = np.diag([0.06, 0.06])
    assert separation(apart) == pytest.approx(2 * np.log(0.09 / 0.03))
    assert evenness({4: 0.0, 5: 0.03}) == pytest.approx({4: 4 * np.log(4), 5: 0.0})
