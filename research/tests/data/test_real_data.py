"""The real image sets, where $DCFSC_DATA has them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from research.data import describe, load, weights_path

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("DCFSC_DATA" not in os.environ, reason="DCFSC_DATA is not set"),
]


def test_all_are_present():
    names = {info.name for info in describe() if info.location}
    assert {"orl", "eyaleb", "coil100", "mnist", "hopkins155"} <= names


def test_orl():
    data = load("orl")
    assert data.X.shape == (400, 32, 32)
    assert np.bincount(data.y).tolist() == [10] * 40


def test_eyaleb():
    data = load("eyaleb")
    assert data.X.shape == (2432, 48, 42)
    assert np.bincount(data.y).tolist() == [64] * 38
    assert np.all(np.diff(data.y) >= 0)
    assert "18 images" in data.notes


def test_coil100():
    data = load("coil100")
    assert data.X.shape == (7168, 32, 32)
    counts = np.bincount(data.y)
    assert len(counts) == 100
    assert counts.min() == 68
    assert (counts == 72).sum() == 83
    assert "32 of the 7,200 views are missing" in data.notes
    assert "object 1's views" in data.notes


def test_mnist():
    data = load("mnist")
    assert data.X.shape == (70000, 28, 28)
    assert data.X.dtype == np.uint8
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]  # the first training images
    assert data.y[60000:60005].tolist() == [7, 2, 1, 0, 4]  # and the first test images
    assert np.bincount(data.y).tolist() == [
        *(6903, 7877, 6990, 7141, 6824),
        *(6313, 6876, 7293, 6825, 6958),
    ]


def test_faces_are_upright():
    """A face is nearer to its mirror image than to itself upside down."""
    for name in ("orl", "eyaleb"):
        mean = load(name).X.mean(0)
        mirrored = np.abs(mean - mean[:, ::-1]).mean()
        turned = np.abs(mean - mean[::-1]).mean()
        assert mirrored < turned


@pytest.mark.parametrize("name", ["dsc_orl", "dsc_eyaleb", "dsc_coil100"])
def test_weights(name):
    assert weights_path(name).is_file()
