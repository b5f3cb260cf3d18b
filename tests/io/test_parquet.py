from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcfsc.errors import InputError
from dcfsc.io import load


@pytest.fixture
def table(tmp_path):
    def write(columns, **options):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table(columns), path)
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


def test_missing_cells_become_nan(table):
    data = table({"a": pa.array([1, None, 3]), "b": [1.0, 2.0, None]})
    np.testing.assert_array_equal(data.X, [[1, 1], [np.nan, 2], [3, np.nan]])


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
    with pytest.raises(InputError, match="not a vector of numbers"):
        table({"embedding": [["a"], ["b"]]})


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
        ({"a": [1.0], "b": ["oops"]}, {}, "row 0, column 'b': 'oops' is not a number.*labels='b'"),
        ({"a": [1.0]}, {"labels": "z"}, "no column 'z'; its columns: a"),
        ({"label": [1]}, {}, "0 feature columns"),
        ({"a": pa.array([], pa.float64())}, {}, "0 rows"),
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
