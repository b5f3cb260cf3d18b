"""The vote of the nearest training samples, against sums done by hand."""

import numpy as np
import pytest
import torch

from dcfsc.self_expression import solve
from dcfsc.self_expression.voting import vote


class Codes:
    """An operator whose codes and leverages are given."""

    def __init__(self, codes, leverage):
        self.codes = torch.tensor(codes, dtype=torch.float64)
        self.leverage = torch.tensor(leverage, dtype=torch.float64)

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
