"""Hopkins-155 in its two forms: one archive, or the release's folders of MATLAB files."""

from collections import Counter

import numpy as np
import pytest
import scipy.io

from dcfsc.errors import InputError
from research.data import load, sequences


@pytest.fixture
def trajectories():
    """Coordinates (points, frames, 2) and labels from 0."""
    return np.random.default_rng(0).normal(size=(6, 5, 2)).astype(np.float32), np.arange(6) % 2


def test_the_benchmark_has_155_sequences():
    assert Counter(sequences().values()) == {2: 120, 3: 35}
    assert sequences()["cars1"] == 2
    assert sequences()["1R2RC"] == 3
    assert sequences()["1R2RC_g23"] == 2


def test_a_sequence_is_a_matrix_of_trajectories(root, trajectories):
    x, s = trajectories
    np.savez(root / "hopkins155.npz", **{"cars1/x": x, "cars1/s": s})
    data = load("hopkins155/cars1")
    assert data.name == "hopkins155/cars1"
    assert data.X.shape == (6, 10)
    np.testing.assert_array_equal(data.X[4], x[4].ravel())
    np.testing.assert_array_equal(data.y, s)


def test_the_release_gives_the_same(root, trajectories):
    x, s = trajectories
    np.savez(root / "hopkins155.npz", **{"cars1/x": x, "cars1/s": s})
    one = load("hopkins155/cars1")
    (root / "hopkins155.npz").unlink()
    folder = root / "Hopkins155" / "cars1"
    folder.mkdir(parents=True)
    homogeneous = np.ones((3, 6, 5))
    homogeneous[:2] = x.transpose(2, 0, 1)
    scipy.io.savemat(folder / "cars1_truth.mat", {"x": homogeneous, "s": s[:, None] + 1})
    other = load("hopkins155/cars1")
    np.testing.assert_allclose(other.X, one.X)
    np.testing.assert_array_equal(other.y, one.y)


def test_what_cannot_be_loaded_is_one_line(root, trajectories):
    with pytest.raises(InputError, match=r"put one of hopkins155\.npz"):
        load("hopkins155/cars1")
    x, s = trajectories
    np.savez(root / "hopkins155.npz", **{"cars1/x": x, "cars1/s": s, "flat/x": x[0], "flat/s": s})
    for spec, said in (
        ("hopkins155", "name one, as in hopkins155/cars1"),
        ("hopkins155/cars7", "unknown sequence of hopkins155 'cars7'"),
        ("hopkins155/flat", r"expected \(points, frames, 2\)"),
    ):
        with pytest.raises(InputError, match=said) as raised:
            load(spec)
        assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match="unknown option 'labels'; it takes download"):
        load("hopkins155/cars1", labels="s")
