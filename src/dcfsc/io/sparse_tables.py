"""Sparse matrices: Matrix Market .mtx, SciPy's .npz, and AnnData .h5ad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import streamed
from dcfsc.io.dataset import Dataset, damage_in_one_line, encode_labels, refuse_bomb
from dcfsc.io.table_columns import Wanted, as_labels
from dcfsc.io.table_reading import TableReading
from dcfsc.progress import stage

COMPONENTS = 200


def load_mtx(path: Path, wanted: Wanted) -> Dataset:
    """Read a matrix in the Matrix Market format, with samples in rows, or transposed."""
    from scipy.io import mminfo, mmread

    wanted.refuse(path, but=("transpose",))
    with damage_in_one_line(path):
        rows, columns, _, layout, *_ = mminfo(path)
        if layout == "array":
            refuse_bomb(path, path.stat().st_size, 8 * rows * columns)
        matrix = mmread(path, spmatrix=False)
    return from_matrix(path, matrix, wanted)


def load_sparse_npz(path: Path) -> Dataset:
    """Read what ``scipy.sparse.save_npz`` wrote."""
    from scipy.sparse import load_npz

    with damage_in_one_line(path):
        return from_matrix(path, load_npz(path), Wanted())


def load_h5ad(path: Path, wanted: Wanted) -> Dataset:
    """Read the matrix X of an AnnData file; its observations are the samples."""
    wanted.refuse(path, but=("id",))
    try:
        import h5py
    except ImportError:
        raise InputError(f"{path} needs pip install 'dcfsc[h5ad]'.") from None
    with damage_in_one_line(path), h5py.File(path) as file:
        X, obs = file["X"], file["obs"]
        if isinstance(X, h5py.Group):
            import scipy.sparse as sp

            kinds = {"csr_matrix": sp.csr_array, "csc_matrix": sp.csc_array}
            kind = X.attrs.get("encoding-type", X.attrs.get("h5sparse_format", ""))
            make = kinds[kind if kind in kinds else f"{kind}_matrix"]
            shape = tuple(X.attrs["shape"] if "shape" in X.attrs else X.attrs["h5sparse_shape"])
            matrix = make((X["data"][:], X["indices"][:], X["indptr"][:]), shape)
        else:
            streamed.require_room(str(path), X.size * X.dtype.itemsize)
            matrix = X[:]
        ids = _column(path, obs, wanted.id or obs.attrs["_index"])
        names = _column(path, file["var"], file["var"].attrs["_index"])
        labels = None
        if wanted.labels not in (None, "none"):
            labels = as_labels(_column(path, obs, wanted.labels))
    return from_matrix(path, matrix, wanted, ids, names, labels)


def _column(path: Path, group: Any, name: str) -> list[str]:
    """A column of the observations or variables as text; of a category, its name."""
    if name not in group:
        raise InputError(f"{path} has no column {name!r}; its columns: {', '.join(group)}.")
    values = group[name]
    if hasattr(values, "keys"):
        known = [*_texts(values["categories"]), ""]
        return [known[code] for code in values["codes"][:].tolist()]
    return _texts(values)


def _texts(values: Any) -> list[str]:
    return [v.decode() if isinstance(v, bytes) else str(v) for v in values[:].tolist()]


def from_matrix(
    path: Path,
    matrix: Any,
    wanted: Wanted,
    ids: list[str] | None = None,
    names: list[str] | None = None,
    labels: Any = None,
) -> Dataset:
    """The samples of a matrix: as a dense array, or where that is large, leading components.

    The components are of the matrix as it is, not centered: n x d = U S V', and the samples U S.
    """
    import scipy.sparse as sp

    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} holds no matrix of real numbers.")
    matrix = matrix.T if wanted.transpose else matrix
    reading = TableReading(tuple(names or ()), transpose=wanted.transpose)
    if wanted.reading is not None:
        if wanted.reading.components:
            raise InputError(
                f"{path}: the run is of leading components of a sparse matrix, which new samples "
                "do not have; fit all samples together."
            )
        reading = wanted.reading
        if names is not None and reading.features not in ((), (*names,)):
            matrix = matrix if isinstance(matrix, np.ndarray) else matrix.tocsc()
            matrix, names = matrix[:, reading.order(names, path)], list(reading.features)
    notes = ""
    if sp.issparse(matrix):
        matrix = matrix.tocsr()
        matrix.check_format(full_check=True)  # indices of a damaged file would be read outside
        kind = np.dtype(np.float64 if matrix.dtype == np.float64 else np.float32)
        size, (n, d) = int(matrix.shape[0]) * matrix.shape[1] * kind.itemsize, matrix.shape
        if size <= streamed.STREAM_BYTES:
            streamed.require_room(str(path), size)
            matrix = matrix.astype(kind).toarray()
        else:
            k = min(COMPONENTS, n, d)
            notes = (
                f"{k} leading components of {d:,} columns; the whole matrix would be "
                f"{size / 2**30:.1f} GiB"
            )
            need = 8 * 4 * k * (n + d)
            stage("%s: %s, they take %.2f GiB", path, notes, need / 2**30)
            streamed.require_room(str(path), need)
            matrix, names = _components(matrix.astype(np.float64), k), None
            reading = TableReading(components=k, transpose=wanted.transpose)
    y, label_names = (None, None) if labels is None else encode_labels(labels, path)
    return Dataset(
        path.stem,
        np.ascontiguousarray(matrix),
        y,
        ids=ids,
        label_names=label_names,
        notes=notes,
        feature_names=names,
        reading=reading,
    )


def _components(matrix: Any, k: int) -> np.ndarray:
    from sklearn.utils.extmath import randomized_svd

    U, S, _ = randomized_svd(matrix, k, random_state=0)
    return (U * S).astype(np.float32)
