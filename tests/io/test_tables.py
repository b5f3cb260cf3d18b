from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.io import load
from dcfsc.io.table_reading import TableReading

NUMBERS = np.array([[5.1, 3.5], [4.9, -3.0], [1e-3, 2.0]])


@pytest.fixture
def table(tmp_path):
    def write(text, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(path, **options)

    return write


ROWS = ["5.1{s}3.5", "4.9{s}-3.0", "1e-3{s}2"]


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", "   ", ", "])
@pytest.mark.parametrize("head", ["", "a{s}b\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_headers_and_line_ends(table, separator, head, end):
    text = (head + "\n".join(ROWS)).format(s=separator).replace("\n", end)
    data = table(text)
    np.testing.assert_array_equal(data.X, NUMBERS)
    assert data.y is None


def test_tsv_byte_order_mark_and_blank_lines(table):
    text = "\ufeff\na\tb\n\n" + "\n\n".join(ROWS).format(s="\t") + "\n\n"
    np.testing.assert_array_equal(table(text, "t.tsv").X, NUMBERS)


@pytest.mark.parametrize("name", ["y", "label", "Labels", "gnd", "target"])
def test_label_columns_are_found_by_name(table, name):
    data = table(f"a,{name},b\n1,cat,2\n3,dog,4\n5,cat,6\n")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [0, 1, 0]
    assert data.label_names == ["cat", "dog"]
    assert name in data.notes


def test_named_label_column(table):
    text = "a,kind,b\n1,7,2\n3,9,4\n5,7,6\n"
    data = table(text, labels="kind")
    assert data.X.shape == (3, 2)
    assert data.y.tolist() == [0, 1, 0]
    assert data.label_names == ["7", "9"]
    assert table(text).X.shape == (3, 3)


def test_label_column_can_stay_a_feature(table):
    data = table("a,target\n1,2\n3,4\n", labels="none")
    assert data.y is None
    assert data.X.shape == (2, 2)


@pytest.mark.parametrize("labels", ["2", "-1"])
def test_labels_without_header(table, labels):
    data = table("1,2,x\n3,4,y\n5,6,x\n", labels=labels)
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [0, 1, 0]


def test_integral_labels_sort_as_numbers(table):
    data = table("a,label\n1,10\n2,9.0\n3,10\n")
    assert data.y.tolist() == [1, 0, 1]
    assert data.label_names == ["9", "10"]


def test_text_in_the_matrix_is_named(table):
    with pytest.raises(InputError) as error:
        table("a,b\n1,2\n3,oops\n")
    text = str(error.value)
    assert "row 3, column 'b': 'oops' is not a number" in text
    assert "add --ignore b" in text
    assert "\n" not in text


def test_columns_of_text_are_set_aside_and_named(table):
    data = table("1,2,x\n3,4,y\n")
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.notes == "set aside, not numbers: 2 ('x')"


def test_decimal_commas_are_recognized(table):
    assert table("a;b\n1,5;2\n").X.tolist() == [[1.5, 2]]


def test_missing_cells_are_counted(table):
    text = "a,b,label\n1,,x\nNA,4,y\n5,inf,x\n7,8,y\n"
    said = r"3 missing or infinite values, in 3 of 4 rows \(the first is row 2\): a \(1\), b \(2\)"
    with pytest.raises(InputError, match=said + r".* add --missing drop-rows"):
        table(text)
    data = table(text, missing="drop-rows")
    assert data.X.tolist() == [[7, 8]]
    assert data.label_names == ["y"]
    assert "3 of 4 rows with missing values in a (1), b (2) were left out" in data.notes
    data = table(text, missing="median")
    assert data.X.tolist() == [[1, 6], [5, 4], [5, 6], [7, 8]]
    assert data.reading.medians == (5.0, 6.0)


def test_one_column_of_numbers_is_no_column_of_vectors(table):
    with pytest.raises(InputError, match="lacks column 'embedding' of the run"):
        table("age\n1\n2\n", reading=TableReading(vector="embedding"))


def test_missing_labels_are_an_error(table):
    with pytest.raises(InputError, match="column 'label' lacks 1 labels, the first in row 3"):
        table("a,label\n1,x\n2,\n")


@pytest.mark.parametrize(("row", "many"), [("3", "1 cell"), ("3,4,5", "3 cells")])
def test_ragged_rows(table, row, many):
    with pytest.raises(InputError, match=f"row 3 has {many} where the first has 2"):
        table(f"a,b\n1,2\n{row}\n")


def test_ragged_rows_without_header(table):
    with pytest.raises(InputError, match="row 2 has 3 cells"):
        table("1,2\n3,4,5\n")
    with pytest.raises(InputError, match="row 2 has 3 cells"):
        table("1 2\n3 4 5\n")


def test_quoted_cells(table):
    data = table('"a","the, label"\n"1","x, y"\n"2.5","z"\n', labels="the, label")
    assert data.X.tolist() == [[1], [2.5]]
    assert data.label_names == ["x, y", "z"]


def test_row_numbers_of_pandas_are_left_out(table):
    data = table(",a,b\n0,7,8\n1,9,10\n")
    assert data.X.tolist() == [[7, 8], [9, 10]]
    assert "row numbers" in data.notes
    assert table(",a,b\n5,7,8\n1,9,10\n").X.shape == (2, 2)  # of a part of the frame
    assert table(",a,b\n5,7,8\n5,9,10\n").X.shape == (2, 3)
    assert table(",0,1,2\n0,7,8,9\n1,9,10,11\n").X.tolist() == [[7, 8, 9], [9, 10, 11]]


def test_column_numbers_as_header(table):
    assert table("0,1,2\n5,6,7\n8,9,9\n").X.shape == (2, 3)
    assert table("0,1,2,label\n5,6,7,x\n8,9,9,y\n").X.shape == (2, 3)
    assert table("0,1,2\n5,6,7\n8,9,9\n", header=False).X.shape == (3, 3)
    assert table("3,1,2\n5,6,7\n", header=True).X.shape == (1, 3)


def test_single_column(table):
    assert table("a\n1\n2\n").X.tolist() == [[1], [2]]
    assert table("1\n2\n").X.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "no rows"),
        ("label\nx\ny\n", "there is no column of numbers"),
        ("a,b\n\xff\xfe1,2\n".encode("latin-1"), "not UTF-8"),
        ("a,a\n1,2\n", "several columns 'a'"),
    ],
)
def test_unusable_tables(table, text, said):
    options = {"labels": "a"} if "several" in said else {}
    with pytest.raises(InputError, match=said) as error:
        table(text, **options)
    assert "\n" not in str(error.value)


def test_unknown_column_lists_columns(table):
    with pytest.raises(InputError, match="no column 'c'; its columns: a, b"):
        table("a,b\n1,2\n", labels="c")


@given(
    X=st.lists(
        st.lists(
            st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=8,
    ),
    separator=st.sampled_from([",", ";", "\t", " "]),
    with_label=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, X, separator, with_label):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    rows = [[repr(v) for v in row] + ["k"] * with_label for row in X]
    head = ["a", "b", "c"] + ["label"] * with_label
    path.write_text("\n".join(separator.join(row) for row in [head, *rows]))
    data = load(path)
    np.testing.assert_array_equal(data.X, np.array(X))
    assert data.n_classes == (1 if with_label else None)
