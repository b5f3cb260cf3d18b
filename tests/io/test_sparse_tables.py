"""Sparse matrices: .mtx, SciPy's .npz and AnnData's .h5ad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from dcfsc.errors import InputError
from dcfsc.io import load

rng = np.random.default_rng(0)
COUNTS = (
    sp.random_array(
        (30, 12), density=0.3, rng=rng, data_sampler=lambda size: rng.integers(1, 9, size)
    )
    .tocsr()
    .astype(np.int64)
)


def write_h5ad(path: Path, matrix: Any, names: list[str]) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        if isinstance(matrix, np.ndarray):
            file["X"] = matrix
        else:
            group = file.create_group("X")
            group.attrs["encoding-type"] = f"{matrix.format}_matrix"
            group.attrs["shape"] = matrix.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        obs, var = file.create_group("obs"), file.create_group("var")
        obs.attrs["_index"] = var.attrs["_index"] = "_index"
        obs["_index"] = [f"cell{i}" for i in range(matrix.shape[0])]
        var["_index"] = names
        kinds = obs.create_group("kind")
        kinds["categories"], kinds["codes"] = ["T", "B"], np.arange(matrix.shape[0]) % 2


def test_matrix_market(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "x.mtx", COUNTS)
    data = load(tmp_path / "x.mtx")
    np.testing.assert_array_equal(data.X, COUNTS.toarray())
    assert data.X.dtype == np.float32
    turned = load(tmp_path / "x.mtx", transpose=True)
    np.testing.assert_array_equal(turned.X, COUNTS.toarray().T)
    again = load(tmp_path / "x.mtx", reading=turned.reading)
    np.testing.assert_array_equal(again.X, turned.X)
    scipy.io.mmwrite(tmp_path / "d.mtx", COUNTS.toarray())
    np.testing.assert_array_equal(load(tmp_path / "d.mtx").X, COUNTS.toarray())
    with pytest.raises(InputError, match="columns is for tables, and has no effect on"):
        load(tmp_path / "x.mtx", columns="a")


def test_sparse_npz_is_told_by_its_arrays(tmp_path: Path) -> None:
    for kind in ("csr", "csc", "coo"):
        sp.save_npz(tmp_path / "x.npz", COUNTS.asformat(kind).astype(np.float64))
        data = load(tmp_path / "x.npz")
        np.testing.assert_array_equal(data.X, COUNTS.toarray())
        assert data.X.dtype == np.float64


def test_a_large_matrix_stays_sparse_until_its_components_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sp.save_npz(tmp_path / "x.npz", COUNTS.astype(np.float32))
    monkeypatch.setattr("dcfsc.io.streamed.STREAM_BYTES", 100)
    monkeypatch.setattr("dcfsc.io.sparse_tables.COMPONENTS", 5)
    values = np.linalg.svd(COUNTS.toarray(), compute_uv=False)[:5]
    monkeypatch.setattr(sp.csr_array, "toarray", None)
    data = load(tmp_path / "x.npz")
    assert data.X.shape == (30, 5)
    assert "5 leading components of 12 columns" in data.notes
    np.testing.assert_allclose(np.linalg.norm(data.X, axis=0), values, rtol=0.02)
    np.testing.assert_array_equal(load(tmp_path / "x.npz").X, data.X)
    scipy.io.mmwrite(tmp_path / "x.mtx", COUNTS)
    with pytest.raises(InputError, match="leading components of a sparse matrix"):
        load(tmp_path / "x.mtx", reading=data.reading)
    monkeypatch.setattr("dcfsc.io.streamed.free_memory", lambda: 10)
    with pytest.raises(InputError, match="GiB in memory"):
        load(tmp_path / "x.npz")


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, np.asarray])
def test_anndata(tmp_path: Path, make: Any) -> None:
    names = [f"gene{j}" for j in range(12)]
    write_h5ad(tmp_path / "x.h5ad", make(COUNTS.toarray()), names)
    data = load(tmp_path / "x.h5ad", labels="kind")
    np.testing.assert_array_equal(data.X, COUNTS.toarray())
    assert data.ids == [f"cell{i}" for i in range(30)]
    assert data.feature_names == names
    assert data.label_names == ["B", "T"]
    assert data.y is not None
    assert data.y[:4].tolist() == [1, 0, 1, 0]
    assert load(tmp_path / "x.h5ad").y is None
    order = rng.permutation(12)
    write_h5ad(tmp_path / "new.h5ad", make(COUNTS.toarray()[:, order]), [names[j] for j in order])
    np.testing.assert_array_equal(load(tmp_path / "new.h5ad", reading=data.reading).X, data.X)
    write_h5ad(tmp_path / "less.h5ad", make(COUNTS.toarray()[:, :11]), names[:11])
    with pytest.raises(InputError, match="lacks column 'gene11' of the run"):
        load(tmp_path / "less.h5ad", reading=data.reading)


@pytest.mark.parametrize("name", ["x.mtx", "x.h5ad"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"%%MatrixMarket matrix coordinate real"])
def test_damaged_files_are_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="cannot read") as error:
        load(tmp_path / name)
    assert "\n" not in str(error.value)


def test_indices_outside_are_refused(tmp_path: Path) -> None:
    parts = {"indices": np.array([0, 99]), "indptr": np.array([0, 1, 2]), "data": np.ones(2)}
    np.savez(tmp_path / "x.npz", format=b"csr", shape=(2, 3), **parts)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "x.npz")
