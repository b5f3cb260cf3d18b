"""What reading a text table must give, whatever reads it: only ``load`` is used here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dcfsc.errors import InputError
from dcfsc.io import Dataset, load

Table = Callable[..., Dataset]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def read(text: str | bytes, name: str = "t.csv", **options: object) -> Dataset:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(path, **options)  # type: ignore[arg-type]

    return read


# Header or not -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names", "X"),
    [
        ("a,b\n1,2\n3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("id,2019,2020\n1,5.5,6.5\n2,7.5,8.5\n", ["id", "2019", "2020"], [[1, 5.5, 6.5]]),
        ("0,1,2\n5,6,7\n", ["0", "1", "2"], [[5, 6, 7]]),
        ("größe,名前\n1,2\n", ["größe", "名前"], [[1, 2]]),
        ("a_1,x.2\n1,2\n", ["a_1", "x.2"], [[1, 2]]),
        ("%,#\n1,2\n", ["%", "#"], [[1, 2]]),
        (",\n1,2\n", None, [[1, 2]]),
    ],
)
def test_header(table: Table, text: str, names: list[str] | None, X: list[list[float]]) -> None:
    data = table(text)
    assert data.feature_names == names
    np.testing.assert_array_equal(data.X[: len(X)], X)
    lines = [line for line in text.splitlines() if line.strip(",")]
    assert len(data) == len(lines) - (names is not None)


@pytest.mark.parametrize("cell", ["nan", "NA", "", "inf"])
def test_a_missing_cell_in_the_first_row_is_no_header(table: Table, cell: str) -> None:
    with pytest.raises(InputError, match=r"in 1 of 2 rows \(the first is row 1\): 0 \(1\)"):
        table(f"{cell},4.5\n1,2\n")


MARKS = ["?", "-", "--", "*", "none", "Missing", "#N/A", "unknown"]  # of missing values


@pytest.mark.parametrize("cell", [*MARKS, "12a", "<0.5", "3;5"])
@pytest.mark.parametrize("row", ["{},3,4", "3,{},4", "3.5,4.5,{}"])
def test_an_odd_cell_in_the_first_row_is_no_header(table: Table, cell: str, row: str) -> None:
    text = row.format(f'"{cell}"') + "\n5,6,7\n8,9,1\n"
    with pytest.raises(InputError, match=r"row 1, column .* is not a number"):
        table(text)


@pytest.mark.parametrize("cell", MARKS)
def test_a_first_row_without_values_is_no_header(table: Table, cell: str) -> None:
    with pytest.raises(InputError, match=r"row 1, column '0'.* is not a number"):
        table(f"{cell},{cell}\n5,6\n8,9\n")


@pytest.mark.parametrize("row", ["abc,3.5,4", "abc,3,3", "abc,-3,4"])
def test_a_word_beside_values_is_no_header(table: Table, row: str) -> None:
    with pytest.raises(InputError, match="row 1, column '0': 'abc' is not a number"):
        table(f"{row}\n5,6,7\n8,9,1\n")


def test_a_first_row_with_words_and_numbers_is_named(table: Table) -> None:
    data = table("id,2019,2020\n1,5.5,6.5\n2,7.5,8.5\n")
    assert "the first row (id, 2019, 2020) was read as a header" in data.notes
    assert "first row" not in table("a,b\n1,2\n3,4\n").notes


def test_a_label_in_the_first_row_is_no_header(table: Table) -> None:
    data = table("1,2,y\n3,4,n\n5,6,y\n", labels="2")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.label_names == ["n", "y"]
    data = table("1,2,y\n3,4,n\n5,6,y\n")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.notes == "set aside, not numbers: 2 ('y')"


def test_the_caller_may_say_whether_there_is_a_header(table: Table) -> None:
    assert table("3,1,2\n5,6,7\n8,9,1\n", header=True).feature_names == ["3", "1", "2"]
    assert table("0,1,2\n5,6,7\n8,9,1\n", header=False).X.shape == (3, 3)


# The index of a data frame -----------------------------------------------------------------------


@pytest.mark.parametrize("head", ["", "Unnamed: 0", "Unnamed: 0.1", '""'])
@pytest.mark.parametrize(
    "rows", [("0", "1", "2"), ("1", "2", "3"), ("17", "4", "90"), ("-1", "0", "1")]
)
def test_an_index_is_left_out_and_it_is_said(
    table: Table, head: str, rows: tuple[str, ...]
) -> None:
    text = f"{head},a,b\n" + "".join(f"{row},{i}.5,7\n" for i, row in enumerate(rows))
    data = table(text)
    assert data.feature_names == ["a", "b"]
    assert data.X.tolist() == [[0.5, 7], [1.5, 7], [2.5, 7]]
    assert data.notes == "the row numbers in the unnamed first column were left out"


@pytest.mark.parametrize(
    "text",
    [
        ",a\n1,5\n1,6\n",  # twice the same
        ",a\n1.5,5\n2,6\n",  # not whole
        "b,a\n0,5\n1,6\n",  # named
        "Unnamed: 1,a\n0,5\n1,6\n",  # not the first one of its frame
    ],
)
def test_what_is_no_index_stays(table: Table, text: str) -> None:
    data = table(text)
    assert data.X.shape == (2, 2)
    assert data.notes == ""


def test_an_unnamed_column_alone_is_the_data(table: Table) -> None:
    assert table(",label\n0,x\n1,y\n2,x\n").X.shape == (3, 1)


def test_an_index_beside_labels(table: Table) -> None:
    data = table(",label,a\n0,x,5\n1,y,6\n2,x,7\n")
    assert data.X.tolist() == [[5], [6], [7]]
    assert data.y is not None
    assert data.y.tolist() == [0, 1, 0]
    assert "row numbers" in data.notes
    assert "labels from column 'label'" in data.notes


def test_an_index_in_a_parquet_table(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"Unnamed: 0": [4, 2, 9], "a": [0.5, 1.5, 2.5], "b": [1.0, 1.0, 2.0]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet")
    assert data.feature_names == ["a", "b"]
    assert data.X.tolist() == [[0.5, 1], [1.5, 1], [2.5, 2]]
    assert "row numbers" in data.notes
    pq.write_table(pa.table({**columns, "Unnamed: 0": [4, 4, 9]}), tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").X.shape == (3, 3)


# Separators, quotes, lines -----------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", "   ", ", ", " ;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "{end}", "{end}{end} {end}"])
@pytest.mark.parametrize("head", ["", "alpha{s}beta{end}", "{end}alpha{s}beta{end}"])
def test_separators_line_ends_marks_and_blank_lines(
    table: Table, separator: str, end: str, mark: str, last: str, head: str
) -> None:
    text = mark + head + "1.5{s}-2{end}{end}3e2{s}+4" + last
    data = table(text.format(s=separator, end=end))
    assert data.X.tolist() == [[1.5, -2], [300, 4]]
    assert data.feature_names == (["alpha", "beta"] if head else None)


def test_a_tsv_is_separated_by_tabs_alone(table: Table) -> None:
    data = table("a b\tc;d\n1\t2\n3\t4\n", "t.tsv")
    assert data.feature_names == ["a b", "c;d"]
    assert data.X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("suffix", [".csv", ".CSV"])
def test_the_suffix_may_be_of_either_case(table: Table, suffix: str) -> None:
    assert table("1,2\n3,4\n", f"t{suffix}").X.shape == (2, 2)


def test_quotes_keep_separators_and_line_breaks(table: Table) -> None:
    data = table('"a, b","say ""c""",label\n"1",2,"x, y"\n3,"4",z\n')
    assert data.feature_names == ["a, b", 'say "c"']
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.label_names == ["x, y", "z"]
    assert table('a,label\n1,"x\ny"\n2,z\n').label_names == ["x\ny", "z"]


@pytest.mark.parametrize("row", ["1", "1,2,3", "1,2,"])
def test_a_row_of_another_width_is_refused_with_its_number(table: Table, row: str) -> None:
    with pytest.raises(InputError, match=r"row 3 has . cells? where the first has 2"):
        table(f"a,b\n1,2\n{row}\n5,6\n")


# Cells -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["", " ", "NA", "na", "n/a", "N/A", "nan", "NaN", "null", "NULL"])
def test_missing_cells_are_missing(table: Table, cell: str) -> None:
    said = r"1 missing or infinite value, in 1 of 2 rows"
    for head in ("a,b\n", ""):
        with pytest.raises(InputError, match=said):
            table(f"{head}1,{cell}\n3,4\n")
        assert table(f"{head}1,{cell}\n3,4\n", missing="drop-rows").X.tolist() == [[3, 4]]


@pytest.mark.parametrize("cell", MARKS)
def test_marks_are_missing_values_where_these_are_dealt_with(table: Table, cell: str) -> None:
    with pytest.raises(InputError, match=r"is not a number.* add --missing drop-rows"):
        table(f"a,b\n1,{cell}\n3,4\n")
    assert table(f"a,b\n1,{cell}\n3,4\n", missing="drop-rows").X.tolist() == [[3, 4]]


@pytest.mark.parametrize("cell", ["x", "1_000", "\u0661", "0x10", "1.2.3", "1 2", "True"])
def test_what_is_no_number_is_refused_with_its_place(table: Table, cell: str) -> None:
    with pytest.raises(InputError, match=r"row 3, column 'b': .* is not a number"):
        table(f'a;b\n1;2\n3;"{cell}"\n')


@pytest.mark.parametrize("separator", [";", "\t", "|", " "])
def test_decimal_commas(table: Table, separator: str) -> None:
    data = table("a;b\n1,5;-2\n3;,25\n+4,5;1e3\n".replace(";", separator))
    assert data.X.tolist() == [[1.5, -2], [3, 0.25], [4.5, 1000]]
    assert table("1,5;2,5\n3;4\n".replace(";", separator)).feature_names is None
    with pytest.raises(InputError, match="column 'b' has decimal points where there are decimal"):
        table("a;b\n1,5;2.5\n3;4\n".replace(";", separator))


def test_numbers_keep_all_their_digits(table: Table) -> None:
    assert table("a,b\n0.1,123456789.123456789\n1e-300,-7\n").X.tolist() == [
        [0.1, 123456789.123456789],
        [1e-300, -7],
    ]


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_table_is_refused(table: Table, content: bytes) -> None:
    with pytest.raises(InputError, match=r"t\.csv is empty"):
        table(content)


def test_text_in_another_encoding_is_refused(table: Table) -> None:
    with pytest.raises(InputError, match="not UTF-8"):
        table("größe,b\n1,2\n".encode("latin-1"))
    assert table("a,b\n1,2\n".encode("utf-16")).X.tolist() == [[1, 2]]


# Labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["y", "Y", "label", "Labels", "gnd", "target"])
def test_labels_are_found_by_name(table: Table, name: str) -> None:
    data = table(f"a,{name},b\n1,cat,2\n3,dog,4\n5,cat,6\n")
    assert data.feature_names == ["a", "b"]
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y is not None
    assert data.y.tolist() == [0, 1, 0]
    assert data.label_names == ["cat", "dog"]


@pytest.mark.parametrize("labels", ["kind", "-1"])
def test_labels_by_the_name_or_the_place_that_is_given(table: Table, labels: str) -> None:
    data = table("a,b,kind\n1,2,10\n3,4,9\n5,6,10\n", labels=labels)
    assert data.feature_names == ["a", "b"]
    assert data.y is not None
    assert data.y.tolist() == [1, 0, 1]
    assert data.label_names == ["9", "10"]


def test_labels_may_stay_features_or_come_from_a_file(table: Table, tmp_path: Path) -> None:
    data = table("a,target\n1,2\n3,4\n", labels="none")
    assert data.y is None
    assert data.X.shape == (2, 2)
    (tmp_path / "l.csv").write_text("label\nx\ny\n")
    data = table("a,target\n1,2\n3,4\n", labels=str(tmp_path / "l.csv"))
    assert data.X.shape == (2, 2)
    assert data.label_names == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a,label\n1,x\n2,\n", {}, "column 'label' lacks 1 labels, the first in row 3"),
        ("a,y,label\n1,2,3\n4,5,6\n", {}, "columns 'y', 'label' may be the labels; name one"),
        ("a,b\n1,2\n", {"labels": "c"}, "no column 'c'; its columns: a, b"),
        ("label\nx\ny\n", {}, "there is no column of numbers"),
        ("a,b\n", {}, "a header and no rows"),
    ],
)
def test_labels_that_are_not_clear_are_refused(
    table: Table, text: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError, match=said) as error:
        table(text, **options)
    assert "\n" not in str(error.value)
