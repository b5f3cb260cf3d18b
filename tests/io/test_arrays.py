from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from dcfsc.errors import InputError
from dcfsc.io import load

X = np.arange(24, dtype=np.float32).reshape(6, 4)
Y = np.array([1, 1, 2, 2, 3, 3])


def test_npy_is_memory_mapped(tmp_path):
    np.save(tmp_path / "x.npy", X)
    data = load(tmp_path / "x.npy")
    assert isinstance(data.X, np.memmap)
    np.testing.assert_array_equal(data.X, X)
    assert data.y is None
    assert data.name == "x"


def test_npy_with_labels_beside_it(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    (tmp_path / "y.csv").write_text(
        "animal\n" + "\n".join(["cat", "cat", "dog", "dog", "a b", "a b"])
    )
    data = load(tmp_path / "x.npy", labels=str(tmp_path / "y.npy"))
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.label_names == ["1", "2", "3"]
    data = load(str(tmp_path / "x.npy"), labels=str(tmp_path / "y.csv"))
    assert data.y.tolist() == [1, 1, 2, 2, 0, 0]
    assert data.label_names == ["a b", "cat", "dog"]


@pytest.mark.parametrize("text", ["cat\ncat\ndog\ndog\nox\nox\n", '"cat"\ncat\ndog\ndog\nox\nox'])
def test_label_file_without_header(tmp_path, text):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.csv").write_text(text)
    data = load(tmp_path / "x.npy", labels=str(tmp_path / "y.csv"))
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2]


def test_label_file_with_several_columns(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.csv").write_text("id,label\n" + "\n".join(f"{i},{i // 2}" for i in range(6)))
    data = load(tmp_path / "x.npy", labels=str(tmp_path / "y.csv"))
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2]
    (tmp_path / "y.csv").write_text("a,b\n" + "\n".join(f"{i},{i // 2}" for i in range(6)))
    with pytest.raises(InputError, match="columns a, b"):
        load(tmp_path / "x.npy", labels=str(tmp_path / "y.csv"))


def test_npy_labels_that_do_not_fit(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y[:-1])
    with pytest.raises(InputError, match="6 samples but labels of shape"):
        load(tmp_path / "x.npy", labels=str(tmp_path / "y.npy"))
    with pytest.raises(InputError, match="is not a file"):
        load(tmp_path / "x.npy", labels="y")


def test_booleans_become_bytes(tmp_path):
    np.save(tmp_path / "x.npy", X > 3)
    assert load(tmp_path / "x.npy").X.dtype == np.uint8


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (X * 1j, "complex numbers"),
        (X.astype(str), "text"),
        (np.arange(5.0), "shape"),
        (np.zeros((0, 3)), "empty"),
    ],
)
def test_npy_that_is_not_a_matrix_of_numbers(tmp_path, array, said):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InputError, match=said):
        load(tmp_path / "x.npy")


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_pickles_are_never_opened(tmp_path, name):
    evil = np.array([{"a": 1}, None], dtype=object)
    if name.endswith("z"):
        np.savez(tmp_path / name, X=evil.reshape(2, 1).repeat(2, 1))
    else:
        np.save(tmp_path / name, evil, allow_pickle=True)
    with pytest.raises(InputError, match="Python objects") as error:
        load(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.mat"])
@pytest.mark.parametrize("content", [b"", b"nonsense, no array at all", b"PK\x03\x04broken"])
def test_damaged_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="cannot read") as error:
        load(tmp_path / name)
    assert "\n" not in str(error.value)


def test_cut_npz(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", X=np.random.default_rng(0).random((50, 50)))
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:500] + bytes(100) + whole[600:])
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "x.npz")


def test_names_that_lie(tmp_path):
    np.savez(tmp_path / "a.npz", X=X)
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(InputError, match="rename"):
        load(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", X)
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(InputError, match="rename"):
        load(tmp_path / "b.npz")


@pytest.mark.parametrize("features", ["X", "images", "data", "fea", "features", "Y", "anything"])
@pytest.mark.parametrize("labels", ["y", "label", "labels", "gnd", "target"])
def test_guessed_keys(tmp_path, features, labels):
    np.savez(tmp_path / "x.npz", **{features: X, labels: Y})
    data = load(tmp_path / "x.npz")
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2]


def test_upper_case_y_holds_labels_beside_x(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"X": X, "Y": Y[:, None]})
    assert load(tmp_path / "x.mat").y.tolist() == [0, 0, 1, 1, 2, 2]


def test_ambiguous_keys_are_listed(tmp_path):
    np.savez(tmp_path / "x.npz", left=X, right=X + 1, y=Y)
    with pytest.raises(InputError, match=r"left \(6, 4\), right \(6, 4\).*key='NAME'"):
        load(tmp_path / "x.npz")
    np.testing.assert_array_equal(load(tmp_path / "x.npz", key="right").X, X + 1)
    with pytest.raises(InputError, match=r"no array 'middle'.*left"):
        load(tmp_path / "x.npz", key="middle")


def test_named_labels(tmp_path):
    np.savez(tmp_path / "x.npz", X=X, y=Y, coarse=Y // 3)
    assert load(tmp_path / "x.npz", labels="coarse").y.tolist() == [0, 0, 0, 0, 1, 1]
    assert load(tmp_path / "x.npz", labels="none").y is None
    with pytest.raises(InputError, match=r"no array 'fine'.*coarse"):
        load(tmp_path / "x.npz", labels="fine")
    np.save(tmp_path / "other.npy", 1 - Y // 3)
    data = load(tmp_path / "x.npz", labels=str(tmp_path / "other.npy"))
    assert data.y.tolist() == [1, 1, 1, 1, 0, 0]


def test_unused_arrays_are_not_read(tmp_path):
    np.savez(tmp_path / "x.npz", X=X, extra=np.array([{}], dtype=object))
    np.testing.assert_array_equal(load(tmp_path / "x.npz").X, X)


def test_images_in_npz_keep_their_type(tmp_path):
    images = np.zeros((6, 3, 5, 4), np.uint8)
    np.savez(tmp_path / "x.npz", images=images, labels=Y)
    data = load(tmp_path / "x.npz")
    assert data.X.shape == (6, 3, 5, 4)
    assert data.X.dtype == np.uint8


def test_mat_with_samples_in_rows_or_columns(tmp_path):
    scipy.io.savemat(tmp_path / "rows.mat", {"fea": X, "gnd": Y[:, None]})
    scipy.io.savemat(tmp_path / "columns.mat", {"X": X.T, "label": Y})
    rows, columns = load(tmp_path / "rows.mat"), load(tmp_path / "columns.mat")
    np.testing.assert_array_equal(rows.X, X)
    np.testing.assert_array_equal(columns.X, X)
    assert columns.y.tolist() == rows.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert "transposed" in columns.notes
    assert rows.notes == ""


def test_sparse_mat(tmp_path):
    scipy.io.savemat(tmp_path / "s.mat", {"fea": scipy.sparse.csc_matrix(X), "gnd": Y})
    np.testing.assert_array_equal(load(tmp_path / "s.mat").X, X)


def test_huge_sparse_mat_is_not_made_dense(tmp_path, monkeypatch):
    monkeypatch.setattr("dcfsc.io.streamed.free_memory", lambda: 16 << 30)
    scipy.io.savemat(tmp_path / "s.mat", {"fea": scipy.sparse.csc_matrix((100_000, 100_000))})
    with pytest.raises(InputError, match="GiB"):
        load(tmp_path / "s.mat")


def test_mat_of_version_73(tmp_path):
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    (tmp_path / "x.mat").write_bytes(head + bytes(512))
    with pytest.raises(InputError, match=r"7.3.*-v7"):
        load(tmp_path / "x.mat")


def test_mat_of_version_4(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"fea": X}, format="4")
    with pytest.raises(InputError, match="not a MATLAB file of version 5 to 7"):
        load(tmp_path / "x.mat")


def test_mat_without_arrays(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"name": "hello"})
    with pytest.raises(InputError, match="no arrays"):
        load(tmp_path / "x.mat")
