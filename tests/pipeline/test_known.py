"""What is known before a fit: the checks, the links, and labels that respect it."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.graphs import read_affinity
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Known


def known(n=6, K=3, labels=None, must=None, cannot=None):
    return Known.of(n, K, labels, must, cannot)


def graph(A):
    return read_affinity(sp.csr_array(np.asarray(A, float)), torch.device("cpu"))


def ring_graph(n):
    A = np.zeros((n, n))
    for i in range(n):
        A[i, (i + 1) % n] = A[(i + 1) % n, i] = 1.0
    return A


def test_nothing_is_known_where_nothing_is_given():
    assert known() is None


def test_a_label_holds_for_all_that_must_be_with_its_sample():
    found = known(labels=[2, -1, -1, 0, -1, -1], must=[[0, 4], [4, 5]])
    assert found.labels.tolist() == [2, -1, -1, 0, 2, 2]
    assert len({*found.groups[[0, 4, 5]].tolist()}) == 1
    assert len({*found.groups.tolist()}) == 4


def test_samples_of_one_label_are_a_group():
    found = known(labels=[1, -1, 1, 0, -1, 0])
    assert found.groups[0] == found.groups[2] != found.groups[3] == found.groups[5]


@pytest.mark.parametrize(
    ("labels", "must", "cannot", "told"),
    [
        (
            [0, 1, -1, -1, -1, -1],
            [[0, 1]],
            None,
            "must_link joins row 0, whose known label is 0, to a row",
        ),
        ([0, 0, -1, -1, -1, -1], None, [[0, 1]], "cannot_link keeps rows 0 and 1 apart"),
        (None, [[2, 3]], [[3, 2]], "cannot_link keeps rows 3 and 2 apart"),
        ([3, -1, -1, -1, -1, -1], None, None, "known_labels has 3 in row 0"),
        ([-2, -1, -1, -1, -1, -1], None, None, "known_labels has -2 in row 0"),
        ([0, 1], None, None, "must be 6 integers"),
        ([0.0] * 6, None, None, "must be 6 integers"),
        (None, [[0, 6]], None, "must_link names row 6"),
        (None, None, [[-1, 2]], "cannot_link names row -1"),
        (None, [0, 1], None, "must_link must be pairs of rows"),
        (None, None, [[0.5, 1]], "cannot_link must be pairs of rows"),
    ],
)
def test_what_contradicts_itself_is_one_line(labels, must, cannot, told):
    with pytest.raises(InputError, match=told):
        known(labels=labels, must=must, cannot=cannot)


def test_links_weigh_as_much_as_all_others_of_a_sample():
    A = ring_graph(6)
    linked = known(must=[[0, 3]]).linked(graph(A), np.random.RandomState(0))
    expected = A.copy()
    expected[0, 3] = expected[3, 0] = 2.0  # each has two links of weight 1
    np.testing.assert_allclose(linked.on_host.toarray(), expected)


def test_a_large_group_is_connected_by_few_links():
    n = 200
    labels = np.where(np.arange(n) < 150, 0, -1)
    ring = Known.of(n, 2, labels, None, None)._ring(np.random.RandomState(0))
    per_sample = np.bincount(np.concatenate(ring), minlength=n)
    assert (per_sample[:150] == 10).all()
    assert (per_sample[150:] == 0).all()
    pairs = sp.coo_array((np.ones(len(ring[0])), ring), shape=(n, n))
    assert sp.csgraph.connected_components(pairs, directed=False)[0] == 1 + 50


def test_links_between_known_clusters_are_cut():
    A = ring_graph(6)
    found = known(labels=[0, 1, -1, -1, -1, -1], cannot=[[3, 4]])
    cut = found.linked(graph(A), np.random.RandomState(0)).on_host.toarray()
    expected = A.copy()
    expected[[0, 1, 3, 4], [1, 0, 4, 3]] = 0.0
    np.testing.assert_allclose(cut, expected)


def test_a_dense_affinity_stays_dense():
    A = ring_graph(6) + 0.1 - 0.1 * np.eye(6)
    found = known(labels=[0, 1, -1, -1, -1, -1])
    cut = found.linked(read_affinity(A), np.random.RandomState(0)).on_host
    expected = A.copy()
    expected[0, 1] = expected[1, 0] = 0.0
    np.testing.assert_allclose(cut, expected)


def test_settled_labels_are_those_of_lloyds_algorithm_with_known_samples_held():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    labels = rng.integers(0, 3, 60)
    given = np.where(np.arange(60) < 12, np.arange(60) % 3, -1)
    found = Known.of(60, 3, given, None, None)
    settled = found.settled(labels, rows, 3)
    assert (settled[:12] == given[:12]).all()
    centers = np.stack([rows[settled == k].mean(axis=0) for k in range(3)])
    nearest = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(settled[12:], nearest[12:])


def test_few_known_samples_do_not_move_the_start_of_their_cluster():
    rows = np.array([[0.0], [0.2], [5.0], [9.8], [10.0], [5.1]])
    found = known(K=2, labels=[-1, -1, 1, -1, -1, -1])
    settled = found.settled(np.array([1, 1, 0, 0, 0, 0]), rows, 2)
    # its label goes to the cluster that was found around it, not to a cluster of its own
    assert settled.tolist() == [0, 0, 1, 1, 1, 1]


def test_a_group_goes_where_its_mean_is_nearest():
    rows = np.array([[0.0], [0.1], [4.0], [10.0], [9.9], [9.0]])
    found = known(K=2, must=[[2, 5]])
    settled = found.settled(np.array([0, 0, 0, 1, 1, 1]), rows, 2)
    assert settled.tolist() == [0, 0, 1, 1, 1, 1]


def test_samples_that_cannot_be_together_are_apart_at_the_least_cost():
    rows = np.array([[0.0], [0.1], [0.4], [10.0], [9.9], [9.8]])
    found = known(K=2, cannot=[[0, 2]])
    settled = found.settled(np.array([0, 0, 0, 1, 1, 1]), rows, 2)
    assert settled.tolist() == [0, 0, 1, 1, 1, 1]


def test_what_cannot_be_kept_apart_is_said():
    rows = np.array([[0.0], [0.1], [0.4], [10.0], [9.9], [9.8]])
    found = known(K=2, cannot=[[0, 1], [1, 2], [0, 2]])
    with pytest.warns(UserWarning, match="1 pairs of cannot_link are in one cluster"):
        settled = found.settled(np.array([0, 0, 0, 1, 1, 1]), rows, 2)
    assert len({*settled[:3].tolist()}) == 2


@pytest.fixture(scope="module")
def subspaces():
    return synthetic(n_samples=300, n_clusters=4, subspace_dim=3, noise=0.25, random_state=0)


def test_given_labels_hold_and_name_the_clusters(subspaces):
    X, y = subspaces.X, subspaces.y
    given = np.full(len(y), -1)
    rows = np.random.default_rng(7).permutation(len(y))[:20]
    given[rows] = (y[rows] + 1) % 4
    model = ClosedFormSubspaceClustering(4, random_state=0).fit(X, known_labels=given)
    np.testing.assert_array_equal(model.labels_[rows], given[rows])
    np.testing.assert_array_equal(model.confidence_[rows], 1.0)
    assert 100 * (model.labels_ != (y + 1) % 4).mean() == pytest.approx(
        clustering_error(y, model.labels_)
    )


def test_pairs_hold(subspaces):
    X = subspaces.X
    plain = ClosedFormSubspaceClustering(4, random_state=0).fit_predict(X)
    one, other = np.flatnonzero(plain == 0)[:6], np.flatnonzero(plain == 1)[:6]
    must, cannot = np.stack([one[:3], other[:3]], 1), np.stack([one[3:5], one[4:6]], 1)
    model = ClosedFormSubspaceClustering(4, random_state=0)
    labels = model.fit(X, must_link=must, cannot_link=cannot).labels_
    assert (labels[must[:, 0]] == labels[must[:, 1]]).all()
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()


def test_the_order_of_rows_does_not_matter_to_what_is_known(subspaces):
    X, y = subspaces.X, subspaces.y
    given = np.where(np.arange(len(y)) < 30, y, -1)
    order = np.random.default_rng(1).permutation(len(y))
    model = ClosedFormSubspaceClustering(4, random_state=0)
    here = model.fit(X, known_labels=given).labels_
    there = model.fit(X[order], known_labels=given[order]).labels_
    assert (here[:30] == y[:30]).all()
    assert (there != here[order]).mean() < 0.02


def test_y_is_ignored(subspaces):
    model = ClosedFormSubspaceClustering(4, random_state=0)
    plain = model.fit(subspaces.X).labels_
    np.testing.assert_array_equal(plain, model.fit(subspaces.X, subspaces.y).labels_)


def test_labels_of_everything_are_the_answer(subspaces):
    model = ClosedFormSubspaceClustering(4, random_state=0)
    labels = model.fit(subspaces.X, known_labels=subspaces.y).labels_
    np.testing.assert_array_equal(labels, subspaces.y)
