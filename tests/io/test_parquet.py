from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcfsc.errors import InputError
from dcfsc.io import Streamed, load


@pytest.fixture
def table(tmp_path):
    def write(content, **options):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table(content), path)
        return load(path, **options)

    return write


def test_columns_and_labels(table):
    columns = {"a": [1.0, 2, 3], "label": ["x", "y", "x"], "b": [4, 5, 6]}
    data = table(columns)
    assert data.X.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert data.y.tolist() == [0, 1, 0]
    assert data.label_names == ["x", "y"]
    data = table({**columns, "label": [3, 3, 9]}, labels="b")
    assert data.y.tolist() == [0, 1, 2]
    assert data.X[:, 1].tolist() == [3, 3, 9]


def test_narrow_types_stay_narrow(table):
    data = table({"a": pa.array([1, 2], pa.float32()), "b": pa.array([1, 2], pa.float32())})
    assert data.X.dtype == np.float32
    assert table({"a": pa.array([1, 2], pa.uint8())}).X.dtype == np.uint8
    assert table({"a": [True, False], "b": [1.5, 2.0]}).X.tolist() == [[1, 1.5], [0, 2]]


def test_missing_cells(table):
    columns = {"a": pa.array([1, None, 3]), "b": [1.0, 2.0, None], "id": ["x", "y", "z"]}
    with pytest.raises(InputError, match=r"2 missing .* \(the first is row 3\): a \(1\), b \(1\)"):
        table(columns)
    data = table(columns, missing="drop-rows")
    assert data.X.tolist() == [[1, 1]]
    assert data.ids == ["x"]
    assert table(columns, missing="median").X.tolist() == [[1, 1], [2, 2], [3, 1.5]]


def test_missing_vectors(table):
    vectors = pa.array([[1.0, 2], None, [5, 6]], pa.list_(pa.float32()))
    with pytest.raises(InputError, match=r"2 missing .* in 1 of 3 rows \(the first is row 3\)"):
        table({"v": vectors})
    data = table({"v": vectors}, missing="drop-rows")
    assert data.X.tolist() == [[1, 2], [5, 6]]
    assert data.X.dtype == np.float32


@pytest.mark.parametrize("missing", ["drop-rows", "median"])
def test_missing_cells_of_streamed_tables(table, monkeypatch, missing):
    values = np.arange(40.0).reshape(20, 2)
    values[3, 1] = np.nan
    columns = {"a": values[:, 0], "b": values[:, 1]}
    whole = table(columns, missing=missing)
    monkeypatch.setattr("dcfsc.io.streamed.STREAM_BYTES", 100)
    streamed = table(columns, missing=missing)
    assert isinstance(streamed.X, Streamed)
    np.testing.assert_array_equal(np.asarray(streamed.X), whole.X)
    np.testing.assert_array_equal(streamed.X[[7, 2]], whole.X[[7, 2]])


def test_vectors_in_one_column(table):
    vectors = pa.array([[1.0, 2], [3, 4], [5, 6]], pa.list_(pa.float32()))
    data = table({"embedding": vectors, "label": ["b", "a", "b"]})
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [1, 0, 1]
    fixed = pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2))
    assert table({"embedding": fixed}).X.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match="differ in length"):
        table({"embedding": [[1.0], [1.0, 2.0]]})
    with pytest.raises(InputError, match=r"no column of numbers.*embedding \(list<"):
        table({"embedding": [["a"], ["b"]]})


def test_vectors_are_found_beside_other_columns(table):
    vectors = pa.array([[1.0, 2], [3, 4], [5, 6]], pa.list_(pa.float32()))
    columns = {"n": [1, 2, 5], "v": vectors, "text": ["p", "q", "r"]}
    data = table(columns)
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.notes == "set aside, beside the vectors: n, text (string)"
    assert table(columns, columns="n").X.tolist() == [[1], [2], [5]]
    with pytest.raises(InputError, match=r"columns 'v', 'w' hold vectors; name one.* --columns v"):
        table({**columns, "w": vectors})


def test_index_of_pandas_is_left_out(tmp_path):
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 9]).to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").X.tolist() == [[1], [2]]


def test_categories_as_labels(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": pd.Categorical(["u", "t"])})
    frame.to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").label_names == ["t", "u"]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"b": ["oops"]}, {}, r"no column of numbers.*b \(string\)"),
        ({"a": [1.0]}, {"labels": "z"}, "no column 'z'; its columns: a"),
        ({"label": [1]}, {}, "no column of numbers"),
        ({"a": pa.array([], pa.float64())}, {}, "no rows"),
        ({"a": [1.0, 2.0], "label": ["x", None]}, {}, "lacks 1 labels"),
    ],
)
def test_unusable_tables(table, columns, options, said):
    with pytest.raises(InputError, match=said) as error:
        table(columns, **options)
    assert "\n" not in str(error.value)


def test_damaged_file(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match="cannot read") as error:
        load(tmp_path / "t.parquet")
    assert "\n" not in str(error.value)
