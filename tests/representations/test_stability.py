"""Partitions of random parts of the samples, by which the data choose."""

from itertools import islice

import numpy as np
import pytest
import torch
from samples import cut_affinity

from dcfsc import processes
from dcfsc.pipeline import Recipe, sampling
from dcfsc.representations.base import Part
from dcfsc.representations.given import Given
from dcfsc.selection import stability as module
from dcfsc.selection.stability import (
    LEAST_OF_FEW,
    LEAST_PARTS,
    MARGIN,
    PARTS_OF_FEW,
    SHARE,
    Agreements,
    Lead,
    Rival,
    decided,
    enough_samples,
    judged_rows,
    race,
    random_parts,
    stability_of,
)
from dcfsc.self_expression import solve

RECIPE = Recipe((12,), 3)


def unit(X):
    return torch.nn.functional.normalize(torch.from_numpy(X))


class Watched(Given):
    """The samples as they are, at a given ridge; remembers what it saw."""

    def __init__(self, name):
        super().__init__(RECIPE)
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
    pair = [Watched("one"), Watched("other")]
    assert race(pair, separate, RECIPE)[1]["one"] > 0.99
    assert -0.5 <= race(pair, noise, RECIPE)[1]["one"] < 0.7


def test_the_stability_of_one_candidate_is_measured_on_the_fewest_parts(separate):
    one = Watched("one")
    assert stability_of(one, separate, RECIPE) == pytest.approx(1.0)
    assert len(one.parts) == LEAST_PARTS


def test_every_candidate_sees_the_same_parts_and_nothing_else(separate):
    one, other = Watched("one"), Watched("other")
    X = separate * torch.linspace(0.5, 2.0, 90)[:, None].double()
    chosen, scores, rival = race([one, other], X, RECIPE)
    assert rival is None
    assert chosen is one  # the first of equals
    assert scores["one"] == scores["other"]
    assert len(one.parts) == LEAST_OF_FEW  # equal ones cannot be apart by the margin
    torch.testing.assert_close(one.prepared[0], separate, rtol=0, atol=1e-15)
    assert torch.equal(one.prepared[0], other.prepared[0])
    for a, b in zip(one.parts, other.parts, strict=True):
        assert a is b
        assert len(a.Z) == int(SHARE * 90)
        assert torch.equal(a.X, X[a.index])
        assert torch.equal(a.Z, one.prepared[0][a.index])
    assert not torch.equal(one.parts[0].index, one.parts[1].index)


@pytest.mark.parametrize("d", [71, 72, 200])  # a part has 72 rows
def test_parts_share_products_of_rows_where_they_have_no_more_than_columns(d):
    Z = unit(np.random.default_rng(0).normal(size=(90, d)))
    one, other = Watched("one"), Watched("other")
    race([one, other], Z, RECIPE)
    for part in one.parts:
        assert (part._gram is not None) == (d >= 72)
        expected = part.Z.double() @ part.Z.double().T if d >= 72 else part.Z.double().T @ part.Z
        torch.testing.assert_close(part.gram, expected, rtol=1e-12, atol=1e-14)
    alone = Watched("one")
    stability_of(alone, Z, RECIPE)
    assert all(part._gram is None for part in alone.parts)  # nobody asked


def test_the_stability_is_the_agreement_of_the_partitions_of_the_parts(separate):
    """Written out for one candidate: clusterings of the parts, compared pair by pair."""
    from sklearn.metrics import adjusted_rand_score

    from dcfsc.affinity import TopK

    noisy = unit((separate + 0.35 * torch.randn(90, 12, generator=seeded()).double()).numpy())
    labels = []
    for index in islice(random_parts(90), LEAST_PARTS):
        whole = np.full(90, -1)
        A = TopK()(solve(noisy[index], 0.1), 3)
        whole[index] = cut_affinity(A, 3, assign="filtered", random_state=0, n_init=3).labels
        labels.append(whole)
    agreements = []
    for i in range(LEAST_PARTS):
        for j in range(i):
            both = (labels[i] >= 0) & (labels[j] >= 0)
            agreements.append(adjusted_rand_score(labels[i][both], labels[j][both]))
    expected = np.mean(agreements)
    assert 0.05 < expected < 0.98
    assert stability_of(Watched("one"), noisy, RECIPE) == pytest.approx(expected)


class Scripted(Given):
    """A candidate whose partitions are given: how many samples of a part it moves at random."""

    def __init__(self, name, moved, Z):
        super().__init__(RECIPE)
        self.name, self.moved, self.seen = name, moved, 0
        self.random = np.random.default_rng(sum(map(ord, name)))

    def prepare(self, Z):
        pass

    def solve_part(self, part):
        return self


@pytest.fixture
def scripted(monkeypatch, separate):
    def clustered(candidate, part):
        candidate.seen += 1
        labels = part.index.numpy() // 30
        moved = candidate.random.random(len(labels)) < candidate.moved
        labels[moved] = candidate.random.integers(0, 3, moved.sum())
        return labels

    monkeypatch.setattr(module, "clustered", clustered)

    def run(margin=MARGIN, **moved):
        candidates = [Scripted(name, share, separate) for name, share in moved.items()]
        chosen, scores, rival = race(candidates, separate, RECIPE, margin)
        run.rival = rival
        return chosen.name, scores, [c.seen for c in candidates]

    return run


def test_the_first_is_taken_unless_another_is_stabler_by_the_margin(scripted):
    chosen, scores, seen = scripted(first=0.5, second=0.0)
    assert chosen == "second"
    assert seen == [LEAST_OF_FEW, LEAST_OF_FEW]  # it is clear at once
    assert scores["second"] == 1.0
    chosen, scores, _ = scripted(first=0.01, second=0.0)
    assert 0.0 < scores["second"] - scores["first"] < MARGIN
    assert chosen == "first"


def test_the_margin_is_the_preferred_ones_own(separate, scripted):
    assert scripted(first=0.01, second=0.0)[0] == "first"
    assert scripted(0.0, first=0.01, second=0.0)[0] == "second"
    assert scripted(0.0, first=0.0, second=0.0)[0] == "first"  # of equals


def test_a_candidate_that_cannot_win_is_dropped_and_a_close_race_goes_on(scripted):
    _, scores, seen = scripted(first=0.08, second=0.9, third=0.04)
    assert seen[1] == LEAST_OF_FEW
    assert scores["second"] < 0.2
    assert LEAST_OF_FEW < seen[0] == seen[2] <= PARTS_OF_FEW


def test_what_may_as_well_have_been_taken_is_a_rival(scripted):
    scripted(first=0.08, second=0.9, third=0.04)
    assert scripted.rival.representation == "third"
    assert np.array_equal(scripted.rival.index, next(random_parts(90)))
    truth = scripted.rival.index // 30
    assert 0.9 < (scripted.rival.labels == truth).mean() < 1.0
    scripted(first=0.5, second=0.0)
    assert scripted.rival is None
    assert scripted(first=0.06, second=0.0)[0] in ("first", "second")


def test_how_a_rival_differs():
    labels = np.repeat([0, 1, 2], 40)
    rows = np.arange(0, 120, 2)  # twenty of each
    theirs = np.concatenate([np.full(20, 5), np.full(18, 5), [7, 7], np.full(12, 8), np.full(8, 7)])
    difference = Rival("other", rows, theirs).difference(labels)
    assert difference == {
        "representation": "other",
        "changed": pytest.approx(1 - (20 + 2 + 12) / 60),
        "joins": [[0, 1]],
        "splits": [2],
    }


def test_of_those_that_lead_the_one_that_leads_most_is_taken(scripted):
    chosen, scores, _ = scripted(first=0.6, second=0.3, third=0.0, fourth=0.2)
    assert scores["first"] < scores["second"] < scores["fourth"] < scores["third"]
    assert chosen == "third"


def test_a_lead_is_the_mean_over_pairs_of_the_same_parts():
    ours, theirs = Agreements(3), Agreements(3)
    random = np.random.default_rng(0)
    for _ in range(4):
        ours.add(np.arange(30) // 10)
        theirs.add(random.integers(0, 3, 30))
    lead = Lead.of(ours, theirs)
    most, told = ours.information[0, 1], theirs.information
    assert lead.mean == pytest.approx(most - np.mean(list(told.values())), abs=1e-12)
    by_part = [np.mean([most - a for pair, a in told.items() if k in pair]) for k in range(4)]
    assert lead.doubt == pytest.approx(2.0 * (np.std(by_part, ddof=1) / 2.0 + 0.02))
    assert lead.highest == lead.mean + lead.doubt


def test_what_is_decided():
    assert decided([])
    assert not decided([Lead(0.06, 0.02)])
    assert decided([Lead(0.08, 0.02)])
    assert decided([Lead(0.06, 0.02)], margin=0.0)
    assert not decided([Lead(0.2, 0.02), Lead(0.19, 0.02)])
    assert decided([Lead(0.2, 0.02), Lead(0.1, 0.05)])
    assert decided([Lead(0.1, 0.05), Lead(0.25, 0.125)])
    assert not decided([Lead(0.125, 0.125), Lead(0.25, 0.125)])
    assert not decided([Lead(-0.25, 0.02), Lead(0.0, 0.02)])


def test_candidates_are_compared_on_some_samples_of_each_cluster():
    few, many = judged_rows(5000, 10), judged_rows(5000, 50)
    assert (len(few), len(many)) == (1000, 3000)
    assert (np.diff(few) > 0).all()
    assert few[-1] < 5000
    assert np.array_equal(judged_rows(900, 2), np.arange(900))


def seeded():
    return torch.Generator().manual_seed(0)


def test_parts_are_sorted_distinct_and_the_same_every_time():
    parts, again = (list(islice(random_parts(50), PARTS_OF_FEW)) for _ in range(2))
    for a, b in zip(parts, again, strict=True):
        assert np.array_equal(a, b)
        assert len(a) == int(SHARE * 50)
        assert (np.diff(a) > 0).all()


def test_a_parts_closed_form_is_that_of_its_rows_at_three_dimensions_a_cluster(separate):
    part = Part(separate, torch.arange(0, 90, 2), RECIPE)
    assert part.closed_form.n == 45
    assert part.closed_form.effective_dof == pytest.approx(9.0, rel=1e-6)
    assert part.closed_form is part.closed_form


def test_agreement_is_measured_where_parts_overlap():
    a = np.array([0, 0, 1, 1, -1, -1])
    b = np.array([1, 1, 0, 0, 0, -1])
    c = np.array([-1, 0, 0, 1, 1, 1])
    found = Agreements(4)
    for labels in (a, b, c):
        found.add(labels)
    assert found.pairs[0, 1] == 1.0
    assert found.pairs[0, 2] == pytest.approx(-0.5)
    assert found.mean == pytest.approx(sum(found.pairs.values()) / 3)
    # Four samples in two halves: log 2, less the third of it that random halves tell on average.
    assert found.information[0, 1] == pytest.approx((1 - 1 / 3) / 2)


def test_a_fine_partition_that_repeats_leads_a_coarse_one():
    fine, coarse = Agreements(4), Agreements(4)
    for _ in range(3):
        fine.add(np.arange(40) // 10)
        coarse.add(np.arange(40) // 30)
    assert fine.mean == coarse.mean == 1.0
    assert Lead.of(fine, coarse).mean > 0.5
    assert Agreements(1).largest == Agreements(2).largest == pytest.approx(np.log(2))


def test_parts_need_room_for_clusters_and_neighbors():
    assert not enough_samples(30, 2)  # 24 of them: three times the neighbors, and no more
    assert enough_samples(31, 2)
    assert not enough_samples(250, 100)
    assert enough_samples(251, 100)


def test_random_parts_stay_the_same_from_version_to_version():
    random = np.random.RandomState(0)
    for part in islice(random_parts(10), 20):
        assert part.tolist() == sorted(random.permutation(10)[:8].tolist())
    chosen = np.random.RandomState(0).permutation(1200)[:1000]
    assert np.array_equal(judged_rows(1200, 3), np.sort(chosen))


def test_each_process_brings_its_rows_of_the_common_sample(monkeypatch):
    """The second of two processes has twelve of twenty rows."""
    monkeypatch.setattr(sampling, "MOST_SAMPLES", 7)
    monkeypatch.setattr(processes, "total_count", lambda n: 8 + n)
    monkeypatch.setattr(processes, "row_counts", lambda n, device: [8, n])
    monkeypatch.setattr(processes, "rank", lambda: 1)
    chosen = np.sort(np.random.RandomState(0).permutation(20)[:7])
    own = sampling.common_sample(torch.arange(8.0, 20.0)[:, None])
    assert own[:, 0].tolist() == chosen[chosen >= 8].tolist()
    assert 0 < len(own) < 7
    monkeypatch.setattr(processes, "rank", lambda: 0)
    monkeypatch.setattr(processes, "row_counts", lambda n, device: [n, 12])
    monkeypatch.setattr(processes, "total_count", lambda n: n + 12)
    own = sampling.common_sample(torch.arange(8.0)[:, None])
    assert own[:, 0].tolist() == chosen[chosen < 8].tolist()


def test_three_thousand_samples_at_most_are_common():
    Z = torch.arange(3001.0)[:, None]
    assert len(sampling.common_sample(Z)) == 3000
    assert sampling.common_sample(Z[:3000]).shape == (3000, 1)


def test_what_is_compared_is_said(scripted, caplog):
    with caplog.at_level("INFO", "dcfsc.stage"):
        _, _, seen = scripted(first=0.08, second=0.9, third=0.04)
    assert caplog.messages == [
        "preparing the representation first",
        "preparing the representation second",
        "preparing the representation third",
        "comparing 3 representations: part 6 of 12",
        *(f"comparing 2 representations: part {part} of 12" for part in range(7, seen[0] + 1)),
    ]
    assert seen == [seen[0], 6, seen[0]]


def test_a_part_is_compared_on_the_judged_samples_alone(monkeypatch, separate):
    monkeypatch.setattr(module, "FEWEST_JUDGED", 50)
    monkeypatch.setattr(module, "JUDGED_PER_CLUSTER", 1)
    one = Watched("one")
    stability_of(one, separate, RECIPE)
    judged = set(np.random.RandomState(0).permutation(90)[:50].tolist())
    for part in one.parts:
        assert len(part.Z) == 40
        assert set(part.index.tolist()) < judged
