"""Partitions of random parts of the samples, by which the data choose."""

import numpy as np
import pytest
import torch

from dcfsc.representations.stability import (
    PARTS,
    SHARE,
    enough_samples,
    mean_agreement,
    stabilities,
)
from dcfsc.self_expression import solve


def unit(X):
    return torch.nn.functional.normalize(torch.from_numpy(X))


def plain(Z):
    yield "plain", solve(Z, 0.1)


@pytest.fixture
def separate():
    """Thirty samples in each of three orthogonal subspaces of four dimensions."""
    random = np.random.default_rng(0)
    Z = np.zeros((90, 12))
    for k in range(3):
        Z[30 * k : 30 * (k + 1), 4 * k : 4 * (k + 1)] = random.normal(size=(30, 4))
    return unit(Z)


def test_separate_subspaces_are_stable_and_noise_is_not(separate):
    noise = unit(np.random.default_rng(0).normal(size=(90, 12)))
    assert stabilities(separate, 3, plain)["plain"] > 0.99
    assert -0.5 <= stabilities(noise, 3, plain)["plain"] < 0.7


def test_every_way_sees_the_same_parts_and_nothing_else(separate):
    seen = {"one": [], "other": []}

    def ways(Z):
        for name, rows in seen.items():
            rows.append(Z.clone())
            yield name, solve(Z, 0.1)

    found = stabilities(separate, 3, ways)
    assert found["one"] == found["other"]
    assert len(seen["one"]) == PARTS
    for a, b in zip(seen["one"], seen["other"], strict=True):
        assert torch.equal(a, b)
        assert len(a) == int(SHARE * 90)
    assert not torch.equal(seen["one"][0], seen["one"][1])
    everything = {tuple(row) for row in separate.tolist()}
    assert {tuple(row) for part in seen["one"] for row in part.tolist()} <= everything


def test_agreement_is_measured_where_parts_overlap():
    a = np.array([0, 0, 1, 1, -1, -1])
    b = np.array([1, 1, 0, 0, 0, -1])
    c = np.array([-1, 0, 0, 1, 1, 1])
    assert mean_agreement([a, b]) == 1.0
    both = (1.0 + mean_agreement([a, c]) + mean_agreement([b, c])) / 3
    assert mean_agreement([a, b, c]) == pytest.approx(both)


def test_parts_need_room_for_clusters_and_neighbours():
    assert not enough_samples(30, 2)  # 24 of them: three times the neighbours, and no more
    assert enough_samples(31, 2)
    assert not enough_samples(250, 100)
    assert enough_samples(251, 100)
