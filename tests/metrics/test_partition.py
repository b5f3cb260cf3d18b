"""Scores of a partition: hand examples, brute force over matchings, and properties."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.metrics import (
    accuracy,
    ari,
    best_map,
    clustering_error,
    confusion,
    nmi,
    score,
    shared_information,
)


@st.composite
def two_labelings(draw, max_labels=5):
    n = draw(st.integers(1, 30))
    labels = st.lists(st.integers(0, max_labels - 1), min_size=n, max_size=n)
    return np.array(draw(labels)), np.array(draw(labels))


def brute_force_error(y_true, y_pred):
    """Percent wrong under the best of all one-to-one matchings, tried one by one."""
    classes, clusters = np.unique(y_true), np.unique(y_pred)
    targets = [*classes, *[None] * max(0, len(clusters) - len(classes))]
    right = max(
        sum(
            int(np.sum((y_pred == cluster) & (y_true == target)))
            for cluster, target in zip(clusters, chosen, strict=True)
            if target is not None
        )
        for chosen in permutations(targets, len(clusters))
    )
    return 100.0 * (len(y_true) - right) / len(y_true)


@settings(max_examples=60, deadline=None)
@given(two_labelings())
def test_error_equals_brute_force_over_matchings(pair):
    y_true, y_pred = pair
    assert clustering_error(y_true, y_pred) == pytest.approx(brute_force_error(y_true, y_pred))


@settings(max_examples=60, deadline=None)
@given(two_labelings(), st.permutations(range(5)), st.permutations(range(5)))
def test_scores_do_not_see_the_names_of_labels(pair, rename_true, rename_pred):
    y_true, y_pred = pair
    renamed = np.array(rename_true)[y_true], np.array(rename_pred)[y_pred]
    assert score(*renamed) == pytest.approx(score(y_true, y_pred), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(two_labelings())
def test_bounds_and_agreement_between_scores(pair):
    y_true, y_pred = pair
    result = score(y_true, y_pred)
    assert 0.0 <= result["error"] < 100.0
    assert result["error"] == pytest.approx(100.0 * (1.0 - result["accuracy"]))
    assert -1e-12 <= result["nmi"] <= 1.0 + 1e-12
    assert -1.0 <= result["ari"] <= 1.0
    assert result["n_clusters"] == len(set(y_pred.tolist()))
    # The largest class can always be matched to some cluster of it: never all wrong.
    assert result["accuracy"] >= 1.0 / len(y_true)


@settings(max_examples=40, deadline=None)
@given(two_labelings())
def test_error_is_symmetric_in_its_arguments(pair):
    y_true, y_pred = pair
    assert clustering_error(y_true, y_pred) == clustering_error(y_pred, y_true)


@settings(max_examples=40, deadline=None)
@given(two_labelings(), st.permutations(range(5)))
def test_a_renamed_truth_is_perfect(pair, rename):
    y = pair[0]
    y_pred = np.array(rename)[y]
    assert clustering_error(y, y_pred) == 0.0
    assert accuracy(y, y_pred) == 1.0
    assert nmi(y, y_pred) == pytest.approx(1.0)
    assert ari(y, y_pred) == pytest.approx(1.0)
    np.testing.assert_array_equal(best_map(y, y_pred), y)


@settings(max_examples=40, deadline=None)
@given(two_labelings())
def test_best_map_attains_the_error_without_matching(pair):
    y_true, y_pred = pair
    mapped = best_map(y_true, y_pred)
    assert 100.0 * np.mean(mapped != y_true) == pytest.approx(clustering_error(y_true, y_pred))
    # Renaming keeps the partition.
    assert ari(y_pred, mapped) == pytest.approx(1.0)


def test_hand_example():
    y_true = [0, 0, 0, 1, 1, 1, 2, 2]
    y_pred = [7, 7, 5, 5, 5, 5, 9, 7]
    np.testing.assert_array_equal(confusion(y_true, y_pred), [[1, 2, 0], [3, 0, 0], [0, 1, 1]])
    assert clustering_error(y_true, y_pred) == pytest.approx(25.0)
    np.testing.assert_array_equal(best_map(y_true, y_pred), [0, 0, 1, 1, 1, 1, 2, 0])


def test_greedy_matching_would_be_wrong():
    # Class 0 prefers cluster 0 (3 points) but only cluster 1 makes the sum largest.
    y_true = np.repeat([0, 1], [5, 3])
    y_pred = np.array([0, 0, 0, 1, 1, 0, 0, 0])
    assert clustering_error(y_true, y_pred) == pytest.approx(37.5)


def test_more_clusters_than_classes():
    y_true = [0, 0, 0, 0, 1, 1]
    y_pred = [0, 0, 2, 3, 1, 1]
    assert clustering_error(y_true, y_pred) == pytest.approx(100 * 2 / 6)
    mapped = best_map(y_true, y_pred)
    assert mapped.tolist() == [0, 0, 2, 3, 1, 1]
    assert best_map(["a", "a", "b"], [0, 1, 2]).tolist().count("unmatched 1") == 1


def test_fewer_clusters_than_classes():
    assert clustering_error([0, 1, 2, 2], [5, 5, 5, 5]) == pytest.approx(50.0)
    assert best_map([0, 1, 2, 2], [5, 5, 5, 5]).tolist() == [2, 2, 2, 2]


def test_labels_of_any_kind():
    y_true = np.array(["cat", "dog", "cat", "emu"])
    assert clustering_error(y_true, [3, -1, 3, 8]) == 0.0
    assert best_map(y_true, [3, -1, 3, 8]).tolist() == y_true.tolist()
    assert clustering_error([1.5, 2.5], [True, False]) == 0.0
    assert clustering_error(np.array(["x", 1, "x"], dtype=object), [0, 1, 0]) == 0.0
    assert clustering_error(np.array([[1], [2]]), [0, 1]) == 0.0
    assert clustering_error(np.array([0, 255], dtype=np.uint8), [0, 1]) == 0.0


@pytest.mark.parametrize("function", [clustering_error, accuracy, nmi, ari, best_map, score])
@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([0, 1], [0, 1, 1], "y_true has 2 labels and y_pred 3"),
        ([], [], "empty"),
        (None, [0, 1], "y_true is None"),
        ([0, 1], [0.0, np.nan], "NaN"),
        (np.zeros((2, 2)), [0, 1], "one-dimensional"),
        ([[1], [2, 3]], [0, 1], "one-dimensional"),
    ],
)
def test_unusable_labels_are_one_line_errors(function, y_true, y_pred, message):
    with pytest.raises(InputError, match=message) as caught:
        function(y_true, y_pred)
    assert "\n" not in str(caught.value)


def entropy(counts):
    p = np.asarray(counts, dtype=float).ravel() / np.sum(counts)
    return -float(sum(q * np.log(q) for q in p if q > 0))


def test_nmi_divides_by_the_arithmetic_mean_of_unequal_entropies():
    y_true, y_pred = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 3, 2]
    table = [[2, 2, 0, 0], [0, 0, 3, 1]]
    h_true, h_pred, joint = entropy([4, 4]), entropy([2, 2, 3, 1]), entropy(table)
    shared = h_true + h_pred - joint
    assert nmi(y_true, y_pred) == pytest.approx(2 * shared / (h_true + h_pred), rel=1e-12)
    geometric = shared / np.sqrt(h_true * h_pred)
    assert abs(nmi(y_true, y_pred) - geometric) > 0.01  # these labels tell the two means apart


def test_shared_information_is_less_what_shuffled_labels_share():
    y_true, y_pred = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 1]

    def shared(a, b):
        M = confusion(a, b)
        return entropy(M.sum(axis=1)) + entropy(M.sum(axis=0)) - entropy(M)

    chance = np.mean([shared(y_true, list(p)) for p in permutations(y_pred)])
    expected = shared(y_true, y_pred) - chance
    assert shared_information(y_true, y_pred) == pytest.approx(expected, rel=1e-9)
    assert shared_information(y_pred, y_true) == pytest.approx(expected, rel=1e-9)


def test_ari_is_the_count_of_pairs_adjusted_for_chance():
    y_true, y_pred = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 1])
    i, j = np.triu_indices(6, 1)
    a, b = y_true[i] == y_true[j], y_pred[i] == y_pred[j]
    expected = a.sum() * b.sum() / len(i)
    adjusted = ((a & b).sum() - expected) / ((a.sum() + b.sum()) / 2 - expected)
    assert ari(y_true, y_pred) == pytest.approx(adjusted, rel=1e-12)
    assert score(y_true, y_pred)["ari"] == ari(y_true, y_pred)


def test_names_of_unmatched_clusters_avoid_those_of_classes():
    assert best_map(["unmatched 1"] * 3, [0, 0, 1]).tolist() == [
        "unmatched 1",
        "unmatched 1",
        "unmatched 2",
    ]
    assert best_map([4, 4, 4, 4, 4, 4], [0, 0, 0, 1, 1, 2]).tolist() == [4, 4, 4, 5, 5, 6]
