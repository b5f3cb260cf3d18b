"""Partitions of random parts of the samples, by which the data choose."""

import numpy as np
import pytest
import torch

from dcfsc.representations.base import Part, Setting
from dcfsc.representations.given import Given
from dcfsc.representations.stability import (
    PARTS,
    SHARE,
    enough_samples,
    mean_agreement,
    random_parts,
    stabilities,
)
from dcfsc.self_expression import solve

SETTING = Setting((12,), 3)


def unit(X):
    return torch.nn.functional.normalize(torch.from_numpy(X))


class Watched(Given):
    """The samples as they are, at a given ridge; remembers what it saw."""

    def __init__(self, name):
        super().__init__(SETTING)
        self.name, self.parts, self.prepared = name, [], []

    def prepare(self, Z):
        self.prepared.append(Z)

    def solve_part(self, part):
        self.parts.append(part)
        return solve(part.Z, 0.1)


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
    assert stabilities([Watched("plain")], separate, SETTING)["plain"] > 0.99
    assert -0.5 <= stabilities([Watched("plain")], noise, SETTING)["plain"] < 0.7


def test_every_candidate_sees_the_same_parts_and_nothing_else(separate):
    one, other = Watched("one"), Watched("other")
    scores = stabilities([one, other], separate, SETTING)
    assert scores["one"] == scores["other"]
    assert len(one.parts) == PARTS
    assert one.prepared[0] is separate
    for a, b in zip(one.parts, other.parts, strict=True):
        assert a is b
        assert len(a.Z) == int(SHARE * 90)
        assert torch.equal(a.Z, separate[a.index])
    assert not torch.equal(one.parts[0].index, one.parts[1].index)


def test_the_stability_is_the_agreement_of_the_partitions_of_the_parts(separate):
    """Written out for one candidate: clusterings of the six parts, compared pair by pair."""
    from sklearn.metrics import adjusted_rand_score

    from dcfsc import spectral
    from dcfsc.affinity import TopK

    noisy = unit((separate + 0.35 * torch.randn(90, 12, generator=seeded()).double()).numpy())
    labels = []
    for index in random_parts(90):
        whole = np.full(90, -1)
        A = TopK()(solve(noisy[index], 0.1), 3)
        whole[index] = spectral.cluster(A, 3, assign="filtered", random_state=0, n_init=10).labels
        labels.append(whole)
    agreements = []
    for i in range(PARTS):
        for j in range(i):
            both = (labels[i] >= 0) & (labels[j] >= 0)
            agreements.append(adjusted_rand_score(labels[i][both], labels[j][both]))
    expected = np.mean(agreements)
    assert 0.05 < expected < 0.98
    assert stabilities([Watched("plain")], noisy, SETTING)["plain"] == pytest.approx(expected)


def seeded():
    return torch.Generator().manual_seed(0)


def test_parts_are_sorted_distinct_and_the_same_every_time():
    parts, again = list(random_parts(50)), list(random_parts(50))
    assert len(parts) == PARTS
    for a, b in zip(parts, again, strict=True):
        assert np.array_equal(a, b)
        assert len(a) == int(SHARE * 50)
        assert (np.diff(a) > 0).all()


def test_a_parts_closed_form_is_that_of_its_rows_at_three_dimensions_a_cluster(separate):
    part = Part(separate, torch.arange(0, 90, 2), SETTING)
    assert part.closed_form.n == 45
    assert part.closed_form.effective_dof == pytest.approx(9.0, rel=1e-6)
    assert part.closed_form is part.closed_form


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
