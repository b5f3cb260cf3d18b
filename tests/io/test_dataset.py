from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.io import Dataset
from dcfsc.io.dataset import encode_labels


def test_short_repr_and_counts():
    data = Dataset("faces", np.zeros((6, 4, 3), np.uint8), np.array([0, 1, 2, 0, 1, 2]))
    assert repr(data) == "Dataset('faces', 6 x 4 x 3 uint8, 3 classes)"
    assert len(data) == 6
    assert data.n_classes == 3


def test_without_labels():
    data = Dataset("x", np.zeros((5, 2)))
    assert data.n_classes is None
    assert "no labels" in repr(data)


def test_frozen():
    data = Dataset("x", np.zeros((5, 2)))
    with pytest.raises(AttributeError):
        data.name = "y"  # type: ignore[misc]


@pytest.mark.parametrize("shape", [(5,), (0, 3), (5, 0), (2, 2, 2, 2, 2)])
def test_wrong_shapes(shape):
    with pytest.raises(InputError, match="shape"):
        Dataset("x", np.zeros(shape))


def test_labels_must_match():
    with pytest.raises(InputError, match=r"5 samples but labels of shape \(4,\)"):
        Dataset("x", np.zeros((5, 2)), np.zeros(4, np.int64))


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40))
def test_integers_keep_their_partition_and_order(values):
    y, names = encode_labels(np.array(values), "f")
    assert y.dtype == np.int64
    assert sorted(set(y.tolist())) == list(range(len(set(values))))
    original = values if names is None else [int(names[k]) for k in y]
    assert (y.tolist() if names is None else original) == values
    for a, b in zip(np.array(values)[:-1], np.array(values)[1:], strict=True):
        i, j = values.index(a), values.index(b)
        assert (a < b) == (y[i] < y[j])


@pytest.mark.parametrize(
    ("values", "y", "names"),
    [
        (np.array([[1], [2], [1]], np.uint8), [0, 1, 0], ["1", "2"]),
        (np.array([[3, 5]]), [0, 1], ["3", "5"]),
        (np.array([1.0, 0.0]), [1, 0], None),
        (np.array([True, False]), [1, 0], None),
        (np.array(["b", "a", "b"]), [1, 0, 1], ["a", "b"]),
        (np.array([b"b", b"a"]), [1, 0], ["a", "b"]),
    ],
)
def test_kinds_of_labels(values, y, names):
    got, got_names = encode_labels(values, "f")
    assert got.tolist() == y
    assert got_names == names


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.5, 1]),
        np.array([0, np.nan]),
        np.zeros((3, 2)),
        np.array([{}, {}]),
        np.array([1j]),
    ],
)
def test_unusable_labels(values):
    with pytest.raises(InputError, match=r"^f: label"):
        encode_labels(values, "f")
