"""The vote of the nearest training samples, against sums done by hand."""

import numpy as np
import pytest
import torch

from dcfsc.estimators.prediction import probabilities, vote
from dcfsc.self_expression import solve
from dcfsc.spectral import Memberships, certain


class Codes:
    """An operator whose codes and leverages are given."""

    def __init__(self, codes, leverage):
        self.codes = torch.tensor(codes, dtype=torch.float64)
        self.leverage = torch.tensor(leverage, dtype=torch.float64)

    def code(self, z):
        return self.codes

    def topk_code(self, z, k):
        assert len(z) == len(self.codes)
        indices = self.codes.abs().topk(k, dim=1).indices
        return self.codes.gather(1, indices), indices


def voted(codes, leverage, labels, k):
    labels = np.array(labels)
    z = torch.zeros(len(codes), 1, dtype=torch.float64)
    return vote(Codes(codes, leverage), labels, int(labels.max()) + 1, z, k).tolist()


def test_votes_are_fourth_powers():
    # one vote of 1 against three of w: 3 w^4 is 0.990 for 0.758 and 1.011 for 0.762, while
    # 3 w^3 is above 1 for both and 3 w^5 below it
    codes = [[1.0, 0.758, 0.758, 0.758], [1.0, 0.762, 0.762, 0.762]]
    assert voted(codes, [1.0] * 4, [0, 1, 1, 1], 4) == [0, 1]


def test_votes_are_over_the_root_of_the_leverage():
    # 0.8 / sqrt(0.64) = 1 against 0.6 / sqrt(0.25) = 1.2 or 0.6 / sqrt(0.49) = 0.857: the larger
    # coefficient loses to the smaller leverage; over the leverage itself it would lose twice
    assert voted([[0.8, 0.6]], [0.64, 0.25], [0, 1], 2) == [1]
    assert voted([[0.8, 0.6]], [0.64, 0.49], [0, 1], 2) == [0]
    assert voted([[0.8, 0.6]], [0.36, 0.25], [0, 1], 2) == [0]  # 1.333 and 1.2; 2.222 and 2.4


def test_a_sign_does_not_matter():
    assert voted([[-0.9, 0.8], [0.8, -0.9]], [1.0, 1.0], [0, 1], 2) == [0, 1]


def test_only_the_k_largest_coefficients_vote():
    # 1 against 0.9^4 = 0.656 each: one vote, two, and three
    codes, labels = [[1.0, 0.9, 0.9, 0.05]], [0, 1, 1, 0]
    assert [voted(codes, [1.0] * 4, labels, k) for k in (1, 2, 3, 4)] == [[0], [0], [1], [1]]


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_neither_huge_nor_tiny_coefficients_are_lost(size):
    codes = size * np.array([[1.0, 0.758, 0.758, 0.758], [1.0, 0.762, 0.762, 0.762]])
    assert voted(codes.tolist(), [1.0] * 4, [0, 1, 1, 1], 4) == [0, 1]


def by_hand(Z, lam, labels, z, k, power=4.0, leverages=True):
    """argmax of the sums, each written out."""
    inverse = np.linalg.inv(Z.T @ Z + lam * np.eye(Z.shape[1]))
    leverage = np.einsum("ij,jk,ik->i", Z, inverse, Z)
    winners = []
    for code in z @ inverse @ Z.T:
        votes = np.zeros(labels.max() + 1)
        for j in np.argsort(-np.abs(code))[:k]:
            weight = np.abs(code[j]) / (np.sqrt(leverage[j]) if leverages else 1.0)
            votes[labels[j]] += weight**power
        winners.append(int(votes.argmax()))
    return np.array(winners)


@pytest.mark.parametrize("form", ["samples", "features"])
@pytest.mark.parametrize("k", [1, 5, 10])
def test_the_vote_over_the_closed_form_is_the_one_by_hand(form, k):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 8)) * rng.uniform(0.2, 3.0, (60, 1))  # leverages of all sizes
    labels = rng.integers(0, 4, 60)
    z = rng.normal(size=(300, 8))  # belongs to no cluster more than to another
    operator = solve(torch.from_numpy(Z), 0.7, form=form)
    found = vote(operator, labels, 4, torch.from_numpy(z), k)
    np.testing.assert_array_equal(found, by_hand(Z, 0.7, labels, z, k))
    if k > 1:  # and the points are such that any other rule is told apart
        others = ({"power": 3.0}, {"power": 5.0}, {"leverages": False})
        for other in others:
            assert (by_hand(Z, 0.7, labels, z, k, **other) != found).sum() >= 5, other
        assert (by_hand(Z, 0.7, labels, z, k - 1) != found).sum() >= 5


def proba(codes, labels, memberships, k):
    z = torch.zeros(len(codes), 1, dtype=torch.float64)
    return probabilities(Codes(codes, [1.0] * len(labels)), np.array(labels), memberships, z, k)


def test_probabilities_are_the_weighted_mean_of_those_of_the_voters():
    # weights 1 and 1/2 after the fourth power
    codes, labels = [[1.0, 0.5**0.25, 0.1]], [0, 1, 1]
    clusters = np.array([[0, 2], [1, 0], [1, 2]], np.int32)
    values = np.array([[0.8, 0.2], [0.6, 0.4], [1.0, 0.0]], np.float32)
    found = proba(codes, labels, Memberships(clusters, values, 3), 2)
    expected = [(0.8 + 0.5 * 0.4) / 1.5, 0.5 * 0.6 / 1.5, 0.2 / 1.5]
    np.testing.assert_allclose(found, [expected], rtol=1e-6)


def test_what_is_not_kept_of_many_clusters_is_spread_over_all():
    found = proba(
        [[1.0]], [0], Memberships(np.array([[0, 1]], np.int32), np.array([[0.5, 0.1]]), 8), 1
    )
    np.testing.assert_allclose(found, [[0.55, 0.15, *[0.05] * 6]])


def test_the_largest_probability_is_the_votes():
    # two weak votes for cluster 1 outweigh one for 0, whose voters are all but sure of 0
    codes, labels = [[1.0, 0.9, 0.9]], [0, 1, 1]
    clusters = np.array([[0, 1], [1, 0], [1, 0]], np.int32)
    values = np.array([[1.0, 0.0], [0.51, 0.49], [0.51, 0.49]], np.float32)
    found = proba(codes, labels, Memberships(clusters, values, 2), 3)
    assert voted(codes, [1.0] * 3, labels, 3) == [1]
    share = (1 + 2 * 0.49 * 0.9**4) / (1 + 2 * 0.9**4)  # of cluster 0, before they change places
    assert share > 0.5
    np.testing.assert_allclose(found, [[1 - share, share]], rtol=1e-6)


def test_without_a_vote_all_clusters_are_alike():
    found = proba([[0.0, 0.0]], [0, 1], certain(np.array([0, 1]), 2), 2)
    np.testing.assert_allclose(found, [[0.5, 0.5]])


def test_error_falls_with_confidence_on_digits():
    from sklearn.datasets import load_digits

    from dcfsc import ClosedFormSubspaceClustering
    from dcfsc.metrics import best_map

    bunch = load_digits()
    X, y = bunch.images[:600], bunch.target[:600]
    model = ClosedFormSubspaceClustering(10, random_state=0, device="cpu").fit(X)
    wrong = best_map(y, model.labels_) != y  # labels only tell the error
    order = np.argsort(model.confidence_, kind="stable")
    assert wrong.any()
    assert wrong[order[:150]].mean() > 4 * wrong[order[150:]].mean()
