"""Forty awkward tables: each is read right, or refused in one message that says all."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcfsc.errors import InputError
from dcfsc.io import Dataset, load

Table = Callable[..., Dataset]
TEN = "".join(f"{i},{i * i % 7}.5\n" for i in range(10))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def read(content: str | bytes, name: str = "t.csv", **options: Any) -> Dataset:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load(path, **options)

    return read


def workbook(*rows: list[Any]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(file)
    return file.getvalue()


X = [[1.5, 2.0], [3.0, 4.25]]

READ: dict[str, tuple[Any, dict[str, Any], list[list[float]]]] = {
    "bars": ("a|b\n1.5|2\n3|4.25\n", {}, X),
    "carets": ("a^b\n1.5^2\n3^4.25\n", {}, X),
    "control characters": ("a\x01b\n1.5\x012\n3\x014.25\n", {}, X),
    "tabs in a .csv": ("a\tb\n1.5\t2\n3\t4.25\n", {}, X),
    "semicolons and decimal commas": ("a;b\n1,5;2\n3;4,25\n", {}, X),
    "tabs and decimal commas, no header": ("1,5\t2\n3\t4,25\n", {}, X),
    "Excel's line that says the separator": ("sep=;\r\na;b\r\n1,5;2\r\n3;4,25\r\n", {}, X),
    "a byte order mark": ("\ufeffa,b\n1.5,2\n3,4.25\n".encode(), {}, X),
    "UTF-16": ("größe;b\r\n1,5;2\r\n3;4,25\r\n".encode("utf-16"), {}, X),
    "UTF-16, the other way round": ("\ufeffa\tb\n1.5\t2\n3\t4.25\n".encode("utf-16-be"), {}, X),
    "carriage returns alone": ("a,b\r1.5,2\r3,4.25\r", {}, X),
    "quoted line breaks": ('a,"b\nc",note\n1.5,2,"x\n\ny"\n3,4.25,z\n', {}, X),
    "quotes in quotes": ('a,b,note\n1.5,2,"say ""x, y"""\n"3","4.25",z\n', {}, X),
    "a separator at each end": ("a,b,\n1.5,2,\n3,4.25,\n", {}, X),
    "empty rows as spreadsheets leave them": (",\na,b\n1.5,2\n,\n3,4.25\n,\n\n,\n", {}, X),
    "names twice": ("a,a\n1.5,2\n3,4.25\n", {}, X),
    "names that are empty": (",b,\n1.5,2,\n3,4.25,\n", {}, X),
    "R's row names": ('"a" "b"\n"r1" 1.5 2\n"r2" 3 4.25\n', {}, X),
    "columns of text, dates and nothing": (
        "name,when,a,none,b\nx,2024-01-02,1.5,,2\ny,2024-01-03,3,,4.25\n",
        {},
        X,
    ),
    "one column": ("a\n1.5\n3\n", {}, [[1.5], [3.0]]),
    "one column of words and one of numbers": ("1.5,x\n3,y\n", {}, [[1.5], [3.0]]),
    "numbers as people write them": ("a,b\n+1.5,2.\n.3e1, 4.25 \n", {}, X),
    "a column that counts the rows": (f"n,a\n{TEN}", {}, [[i * i % 7 + 0.5] for i in range(10)]),
    "gaps of many kinds": (
        "a,b\n1.5,2\nNA,7\n8,null\nN/A,?\n3,4.25\n",
        {"missing": "drop-rows"},
        X,
    ),
    "genes in rows": ("gene,s1,s2\nTP53,1.5,3\nMYC,2,4.25\n", {"transpose": True}, X),
    "a part of the columns": ("x1,q,x2\n1.5,9,2\n3,9,4.25\n", {"columns": "x*"}, X),
    "all but some columns": ("a,q1,b,q2\n1.5,9,2,9\n3,9,4.25,8\n", {"ignore": "q*"}, X),
    "names with commas": ('"a,b",c,d\n9,1.5,2\n9,3,4.25\n', {"ignore": "a,b"}, X),
}


@pytest.mark.parametrize("kind", READ)
def test_read(table: Table, kind: str) -> None:
    content, options, expected = READ[kind]
    data = table(content, **options)
    np.testing.assert_array_equal(data.X, expected)
    again = table(content, reading=data.reading)
    np.testing.assert_array_equal(again.X, expected)


REFUSED: dict[str, tuple[Any, list[str], str]] = {
    "no rows": ("a,b\n", ["has a header and no rows"], ""),
    "nothing": ("\n\n", ["is empty"], ""),
    "text alone": ("a,b\nx,y\nz,w\n", ["no column of numbers", "a ('x'), b ('y')"], ""),
    "two decimal marks": ("a;b\n1,5;2.5\n3;4\n", ["column 'b' has decimal points"], "--ignore b"),
    "marks of thousands": (
        'a,b\n"1,234.5",2\n"2,345.6",3\n',
        ["row 2, column 'a': '1,234.5' is not a number (and 1 more)"],
        "--ignore a",
    ),
    "percent and money": (
        "a,b,c\n5%,$3,1\n6%,$4,2\n",
        ["column 'a': '5%' is not", "column 'b': '$3' is not"],
        "--ignore a,b",
    ),
    "mixed types": (
        "a,b\n1,2\n3,x\n5,6\n",
        ["row 3, column 'b': 'x' is not a number"],
        "--ignore b",
    ),
    "ragged rows": (
        'a,b,c\n1,2,"x\ny"\n3\n\n4,5\n6,7,z\n',
        ["row 3 has 1 cell, row 5 has 2 cells where the first has 3"],
        "",
    ),
    "everything at once": (
        "name,a,b,c,d,when\nx,1,,3,-999,2024-01-02\ny,oops,5,6,1.5,2024-01-03\n"
        "z,7,8,9,2.5,2024-01-04\nw,1,inf,3,2,2024-01-05\n",
        [
            "row 3, column 'a': 'oops' is not a number",
            "2 missing or infinite values, in 2 of 4 rows (the first is row 2): b (2)",
            "set aside, not numbers: name ('x'), when ('2024-01-02')",
            "column 'd' holds -999 in 1 rows",
        ],
        "--ignore a --missing drop-rows",
    ),
    "another encoding": ("größe,b\n1,2\n".encode("latin-1"), ["not UTF-8", "CSV UTF-8"], ""),
    "a row without an end": (
        'a,b\n1,"2\n3,4\n',
        ["the quote that begins in row 2 is never closed"],
        "",
    ),
    "a million columns": (
        ",".join(map(str, range(1_000_000))) + "\n",
        ["1000000 columns, more than 200000; save it as .npy"],
        "",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_in_one_message(table: Table, kind: str) -> None:
    content, said, options = REFUSED[kind]
    with pytest.raises(InputError) as error:
        table(content)
    text = str(error.value)
    assert "\n" not in text
    for part in said:
        assert part in text
    if options:
        assert text.endswith(f"To go on, add {options}.")


def test_many_columns_of_a_few_rows(table: Table) -> None:
    n = 20_000
    header, row = ",".join(f"c{j}" for j in range(n)), ",".join(["0.5"] * n)
    data = table(f"id,{header}\nx,{row}\ny,{row}\nz,{row}\n")
    assert data.X.shape == (3, n)
    assert data.ids == ["x", "y", "z"]


def test_minus_999_is_doubtful(table: Table) -> None:
    rows = "".join(f"{-999 if i % 9 == 3 else i % 5 + 0.25},{i}.5\n" for i in range(30))
    data = table(f"a,b\n{rows}")
    assert data.X[3, 0] == -999
    assert data.notes == (
        "column 'a' holds -999 in 3 rows: if that means missing, empty these cells"
    )


def test_few_different_integers_are_mentioned(table: Table) -> None:
    rows = "".join(f"{i % 3},{i * 0.37},{(i * i) % 17 * 0.5}\n" for i in range(60))
    data = table(f"kind,a,b\n{rows}")
    assert data.X.shape == (60, 3)
    assert data.notes == (
        "column 'kind' with few different integers; if they are codes, add --ignore kind"
    )
    assert table(f"kind,a,b\n{rows}", ignore="kind").notes == ""


def test_a_count_of_rows_is_judged_on_the_rows_that_are_read(table: Table) -> None:
    rows = [f"{i + (i > 8)},{i * i % 7}.5" for i in range(12)]
    assert table("n,a\n" + "\n".join(rows)).X.shape == (12, 2)
    data = table("n,a\n" + "\n".join(rows), columns="n,a")
    assert data.X.shape == (12, 2)
    data = table(f"id,a\n{TEN}")
    assert data.ids == [str(i) for i in range(10)]
    assert data.notes == "left out, as counting the rows: id"
    assert table(f"n,a\n{TEN}", columns="n,a").X.shape == (10, 2)


def test_a_workbook(table: Table) -> None:
    content = workbook(
        ["id", "a", "when", "b"], ["x", 1.5, "March", 2], ["y", 3, "May", 4.25], [None] * 4
    )
    data = table(content, "t.xlsx")
    assert data.X.tolist() == X
    assert data.ids == ["x", "y"]


def test_formulas_that_were_never_computed(table: Table) -> None:
    content = workbook(["a", "b", "sum"], [1.5, 2, "=A2+B2"], [3, 4.25, "=A3+B3"])
    data = table(content, "t.xlsx")
    assert data.X.tolist() == X
    assert data.notes == "set aside, not numbers: sum (empty)"


def test_errors_of_formulas_and_a_title(table: Table) -> None:
    content = workbook(["a", "b"], [1.5, 2], ["#DIV/0!", 4], [3, 5])
    with pytest.raises(InputError, match=r"in 1 of 3 rows \(the first is row 3\): a \(1\)"):
        table(content, "t.xlsx")
    content = workbook(["Survey of May"], [], ["a", "b"], [1.5, 2], [3, 4.25])
    with pytest.raises(InputError, match="row 3, column 'Survey of May': 'a' is not a number"):
        table(content, "t.xlsx")


def test_a_damaged_workbook(table: Table) -> None:
    with pytest.raises(InputError, match="cannot read") as error:
        table(workbook(["a"], [1])[:500], "t.xlsx")
    assert "\n" not in str(error.value)


def test_a_frame_of_mixed_types() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.5, 3.0], "b": [2.0, 4.25], "c": ["x", None], "d": pd.NaT})
    data = load(frame)
    assert data.X.tolist() == X
    assert data.feature_names == ["a", "b"]
    assert data.ids is None
    frame["e"] = [1, "x"]
    frame.loc[0, "a"] = None
    said = r"column 'e' has cells of several types; 1 missing .* \(the first is row 0\): a \(1\)"
    with pytest.raises(InputError, match=said):
        load(frame)
