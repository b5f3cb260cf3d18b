"""MATLAB files of version 5 to 7, against what SciPy reads of whole ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.io.mat5 import read_mat5

TYPES = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mat")


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), min_size=2, max_size=4),
    dtype=st.sampled_from(TYPES),
    compressed=st.booleans(),
    seed=st.integers(0, 99),
    name=st.text("abcXYZ_", min_size=1, max_size=12).filter(lambda n: n[0] != "_"),
)
def test_matrices_are_those_that_were_written(shape, dtype, compressed, seed, name, folder):
    values = np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)
    path = folder / "x.mat"
    scipy.io.savemat(path, {name: values, "after": np.eye(3)}, do_compression=compressed)
    found = dict(read_mat5(path))
    assert list(found) == [name, "after"]
    np.testing.assert_array_equal(found[name], values)
    assert found[name].dtype == scipy.io.loadmat(path)[name].dtype


@pytest.mark.parametrize("compressed", [False, True])
def test_sparse_matrices(folder, compressed):
    dense = np.random.default_rng(0).normal(size=(7, 5)) * (np.arange(5) % 2)
    path = folder / "sparse.mat"
    values = {"S": scipy.sparse.csc_array(dense), "L": scipy.sparse.csc_array(dense > 0)}
    scipy.io.savemat(path, values, do_compression=compressed)
    found = dict(read_mat5(path))
    np.testing.assert_array_equal(found["S"].toarray(), dense)
    np.testing.assert_array_equal(found["L"].toarray(), dense > 0)


def test_cells_structures_text_and_complex_numbers_are_passed_over(folder):
    path = folder / "mixed.mat"
    values = {
        "cell": np.array([np.eye(2), "a"], object),
        "text": "abc",
        "structure": {"X": np.eye(2)},
        "complex": np.eye(2) * 1j,
        "X": np.eye(2),
        "logical": np.eye(2) > 0,
    }
    scipy.io.savemat(path, values)
    assert sorted(dict(read_mat5(path))) == ["X", "logical"]


def test_big_endian(folder):
    path = folder / "big.mat"
    scipy.io.savemat(folder / "little.mat", {"X": np.arange(6.0).reshape(2, 3)})
    little = (folder / "little.mat").read_bytes()
    # the same elements by hand in the other order: 4-byte numbers but for the name and the entries
    body = little[128:]
    words = np.frombuffer(body, "<u4").astype(">u4").tobytes()
    name = body.index(b"X")
    entries = np.arange(6.0).reshape(2, 3).T.astype(">f8").tobytes()
    swapped = words[:name] + b"X\0\0\0" + words[name + 4 : -48] + entries
    path.write_bytes(little[:124] + b"\x01\x00MI" + swapped)
    found = dict(read_mat5(path))
    np.testing.assert_array_equal(found["X"], np.arange(6.0).reshape(2, 3))


def test_a_type_that_does_not_exist_is_an_exception(folder):
    path = folder / "hole.mat"
    scipy.io.savemat(path, {"X": np.eye(4)})
    content = bytearray(path.read_bytes())
    content[128 + 48 : 128 + 56] = bytes(8)  # the tag of the entries
    path.write_bytes(content)
    with pytest.raises(ValueError):
        dict(read_mat5(path))
