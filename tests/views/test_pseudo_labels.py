"""What the closed form teaches: positives by their weights, and clusters that two of them share."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from dcfsc import processes
from dcfsc.views.pseudo_labels import OWN, PseudoLabels, agreed, strongest

GRAPH = csr_array(
    np.array(
        [
            [9.0, 4.0, 1.0, 3.0, 0.0],
            [4.0, 0.0, 2.0, 0.0, 0.0],
            [1.0, 2.0, 0.0, 0.0, 0.0],
            [3.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
)
LABELS = np.array([0, 0, 1, 1, 2])


def test_positives_are_the_strongest_neighbors_with_shares_by_weight():
    positives, shares = strongest(GRAPH, 2)
    np.testing.assert_array_equal(positives[0], [0, 1, 3])
    np.testing.assert_array_equal(positives[1], [1, 0, 2])
    np.testing.assert_array_equal(positives[3], [3, 0, 3])
    np.testing.assert_array_equal(positives[4], [4, 4, 4])
    rest = 1 - OWN
    np.testing.assert_allclose(shares[0], np.cumsum([OWN, rest * 4 / 7, rest * 3 / 7]), rtol=1e-6)
    np.testing.assert_allclose(shares[3], [OWN, 1, 1], rtol=1e-6)
    _, others = strongest(GRAPH, 2, own=0.0)
    np.testing.assert_allclose(others[0], [0, 4 / 7, 1], rtol=1e-6)
    np.testing.assert_allclose(shares[4], [1, 1, 1], rtol=1e-6)


def test_positives_are_drawn_as_often_as_their_shares_say():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"), k=2)
    pseudo_labels.learn(GRAPH, LABELS)
    uniform = torch.rand(20000, generator=torch.Generator().manual_seed(0))
    drawn = pseudo_labels.positive_of(torch.zeros(20000, dtype=torch.int64), uniform)
    counts = torch.bincount(drawn, minlength=5) / 20000
    expected = torch.tensor([OWN, (1 - OWN) * 4 / 7, 0.0, (1 - OWN) * 3 / 7, 0.0])
    torch.testing.assert_close(counts, expected, atol=0.02, rtol=0)


def test_a_sample_is_its_own_positive_at_first():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"))
    rows = torch.arange(5)
    assert torch.equal(pseudo_labels.positive_of(rows, torch.rand(5)), rows)


def test_a_number_beyond_all_shares_takes_the_last_positive():
    """Shares are rounded, and may add up to a little less than one."""
    pseudo_labels = PseudoLabels(5, torch.device("cpu"), k=2)
    pseudo_labels.learn(GRAPH, LABELS)
    pseudo_labels.shares.copy_(torch.tensor([0.25, 0.5, 0.75]))
    rows = torch.tensor([0, 0, 0, 0, 1])
    uniform = torch.tensor([0.24, 0.25, 0.5, 0.9, 0.9])
    assert pseudo_labels.positive_of(rows, uniform).tolist() == [0, 1, 3, 3, 2]


def test_the_first_clusters_set_no_targets_and_later_ones_those_that_agree_with_it():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"))
    pseudo_labels.learn(GRAPH, LABELS)
    assert (pseudo_labels.targets == -1).all()
    assert pseudo_labels.first.tolist() == LABELS.tolist()
    later = np.array([2, 2, 0, 1, 1])  # clusters 0 -> 2, 1 -> 0, 2 -> 1 but for sample 3
    pseudo_labels.learn(GRAPH, later)
    assert pseudo_labels.targets.tolist() == [2, 2, 0, -1, 1]
    assert pseudo_labels.first.tolist() == LABELS.tolist()


def test_without_positives_a_sample_stays_alone():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"), k=0)
    pseudo_labels.learn(GRAPH, LABELS)
    rows = torch.arange(5)
    assert torch.equal(pseudo_labels.positive_of(rows, torch.rand(5)), rows)


def test_agreement_does_not_depend_on_the_names_of_clusters():
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 200)
    others = np.where(random.random(200) < 0.2, random.integers(0, 6, 200), labels)
    kept = agreed(labels, others)
    np.testing.assert_array_equal(kept, np.where(labels == others, labels, -1))
    renamed = random.permutation(6)[others]
    np.testing.assert_array_equal(agreed(labels, renamed), kept)


def test_a_cluster_that_the_others_do_not_have_keeps_its_labels_where_it_may():
    """The others join the clusters 1 and 2, and one sample of cluster 0 is elsewhere."""
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    others = np.array([0, 0, 0, 2, 1, 1, 1, 1, 1])
    assert agreed(labels, others).tolist() == [0, 0, 0, -1, 1, 1, 1, -1, -1]
    assert agreed(labels, others, 0.5).tolist() == [0, 0, 0, -1, 1, 1, 1, 2, 2]
    # three of four agree in cluster 0, all of the three in cluster 1, none of the two in cluster 2
    assert agreed(labels, others, 0.75).tolist() == [0, 0, 0, -1, 1, 1, 1, 2, 2]
    assert agreed(labels, others, 0.76).tolist() == labels.tolist()


def test_clusterings_of_unlike_numbers_of_clusters_are_compared():
    few, many = np.array([0, 0, 0, 1, 1]), np.array([4, 4, 2, 0, 3])
    assert agreed(few, many).tolist() in ([0, 0, -1, 1, -1], [0, 0, -1, -1, 1])
    assert agreed(many, few).tolist() in ([4, 4, -1, 0, -1], [4, 4, -1, -1, 3])


def test_pseudo_labels_survive_a_state_dict():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"), k=2)
    pseudo_labels.learn(GRAPH, LABELS)
    again = PseudoLabels(5, torch.device("cpu"), k=2)
    again.load_state_dict(pseudo_labels.state_dict())
    for name, buffer in pseudo_labels.named_buffers():
        assert torch.equal(buffer, again.get_buffer(name)), name
    with pytest.raises(RuntimeError):
        PseudoLabels(6, torch.device("cpu"), k=2).load_state_dict(pseudo_labels.state_dict())


def test_a_sample_is_its_own_positive_half_of_the_time_and_has_three_others():
    weights = np.array([[0.0, 1, 2, 3, 4]])
    graph = csr_array(np.concatenate([weights, np.zeros((4, 5))]))
    pseudo_labels = PseudoLabels(5, torch.device("cpu"))
    pseudo_labels.learn(graph, LABELS)
    assert pseudo_labels.positives[0].tolist() == [0, 4, 3, 2]
    expected = torch.tensor([0.5, 0.5 + 2 / 9, 0.5 + 7 / 18, 1.0])
    torch.testing.assert_close(pseudo_labels.shares[0], expected)
    uniform = torch.tensor([0.0, 0.4999, 0.5, 0.72, 0.73, 0.8888, 0.8889, 0.9999])
    drawn = pseudo_labels.positive_of(torch.zeros(8, dtype=torch.int64), uniform)
    assert drawn.tolist() == [0, 0, 4, 4, 3, 3, 2, 2]


def test_what_rounding_leaves_belongs_to_the_last_positive():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"), k=2)
    pseudo_labels.learn(GRAPH, LABELS)
    pseudo_labels.shares[:, -1] = 0.9
    drawn = pseudo_labels.positive_of(torch.tensor([0, 1]), torch.tensor([0.95, 0.9]))
    assert drawn.tolist() == [3, 2]


def test_of_equal_neighbors_the_first_is_stronger_and_nothing_counts_that_is_not_positive():
    dense = np.array([[0, 1.0, 1, 1], [-2, 0, 1, 0], [0, 0, 0, 0], [0, 0, 5.0, 0]])
    graph = csr_array(dense)
    graph.data[graph.data == 5.0] = 0.0  # an edge without weight
    positives, shares = strongest(graph, 2)
    assert positives.tolist() == [[0, 1, 2], [1, 2, 1], [2, 2, 2], [3, 3, 3]]
    np.testing.assert_allclose(shares, [[0.5, 0.75, 1], [0.5, 1, 1], [1, 1, 1], [1, 1, 1]])
    assert shares.dtype == np.float32


def test_clusterings_may_have_different_numbers_of_clusters():
    few, many = np.array([0, 0, 0, 1, 1]), np.array([3, 3, 2, 0, 0])
    assert agreed(few, many).tolist() == [0, 0, -1, 1, 1]
    assert agreed(many, few).tolist() == [3, 3, -1, 0, 0]


def test_a_cluster_is_doubtful_by_its_own_share_below_the_limit():
    """Cluster 0 is matched in two of four samples, and cluster 1 in all of two of its own."""
    labels = np.array([0, 0, 0, 0, 1, 1, 2])
    others = np.array([0, 0, 1, 2, 1, 1, 2])
    assert agreed(labels, others).tolist() == [0, 0, -1, -1, 1, 1, 2]
    assert agreed(labels, others, 0.5).tolist() == [0, 0, -1, -1, 1, 1, 2]
    assert agreed(labels, others, 0.51).tolist() == [0, 0, 0, 0, 1, 1, 2]


def test_later_clusters_bring_positives_and_may_be_doubted():
    pseudo_labels = PseudoLabels(9, torch.device("cpu"), k=1)
    first = np.array([0, 0, 0, 2, 1, 1, 1, 1, 1])
    later = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    nothing, ring = csr_array((9, 9)), csr_array(np.roll(np.eye(9), 1, axis=1))
    pseudo_labels.learn(nothing, first)
    pseudo_labels.learn(ring, later, 0.5)
    assert pseudo_labels.targets.tolist() == [0, 0, 0, -1, 1, 1, 1, 2, 2]
    assert pseudo_labels.positives[:, 1].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 0]
    pseudo_labels.learn(nothing, later)
    assert pseudo_labels.targets.tolist() == [0, 0, 0, -1, 1, 1, 1, -1, -1]
    for graph, labels in ((None, later), (ring, None), (None, None)):  # another process brings them
        pseudo_labels.learn(graph, labels)
        assert pseudo_labels.positives[:, 1].tolist() == list(range(9))


def test_shares_do_not_depend_on_the_scale_of_the_weights():
    for scale in (1e-3, 1e3):
        for one, other in zip(strongest(scale * GRAPH, 2), strongest(GRAPH, 2), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_first_clustering_may_have_one_cluster():
    pseudo_labels = PseudoLabels(5, torch.device("cpu"))
    for _ in range(2):
        pseudo_labels.learn(GRAPH, np.zeros(5, dtype=np.int64))
    assert pseudo_labels.targets.tolist() == [0] * 5


def test_every_process_learns_what_the_first_brings(monkeypatch):
    told = []
    monkeypatch.setattr(processes, "broadcast", lambda *given: told.append(given))
    pseudo_labels = PseudoLabels(5, torch.device("cpu"))
    pseudo_labels.learn(None, None)
    assert [source for _, source in told] == [0] * 4
    assert all(a is b for (a, _), b in zip(told, pseudo_labels.buffers(), strict=True))
