"""JSON lines: one object a sample."""

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
    def read(text: str, **options: object) -> Dataset:
        path = tmp_path / "t.jsonl"
        path.write_text(text, encoding="utf-8")
        return load(path, **options)  # type: ignore[arg-type]

    return read


def test_columns_and_labels(table: Table) -> None:
    data = table('{"a": 1, "label": "x", "b": 0.5}\n{"b": 2, "a": 3, "label": "y"}\n')
    assert data.X.tolist() == [[1, 0.5], [3, 2]]
    assert data.feature_names == ["a", "b"]
    assert data.label_names == ["x", "y"]
    assert data.y is not None
    assert data.y.tolist() == [0, 1]
    assert data.notes == "labels from column 'label'"


def test_a_vector_in_each_line(table: Table) -> None:
    data = table('{"v": [1, 2.5], "y": 3}\n{"v": [3, 4], "y": 7}\n')
    assert data.X.tolist() == [[1, 2.5], [3, 4]]
    assert data.label_names == ["3", "7"]


def test_missing_values_are_counted_by_line(table: Table) -> None:
    text = '{"a": 1, "b": 2}\n{"a": null, "b": 4}\n{"b": 6}\n'
    with pytest.raises(InputError, match=r"2 missing .* in 2 of 3 rows \(the first is row 2\)"):
        table(text)
    np.testing.assert_array_equal(table(text, missing="median").X, [[1, 2], [1, 4], [1, 6]])


def test_labels_by_name_or_none(table: Table) -> None:
    text = '{"a": 1, "kind": 2}\n{"a": 3, "kind": 4}\n'
    assert table(text, labels="kind").label_names == ["2", "4"]
    assert table(text, labels="none").X.shape == (2, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"b": "oops"}\n', r"no column of numbers.*b \(string\)"),
        ('{"v": [1, 2]}\n{"v": [1]}\n', "column 'v': vectors differ in length"),
        ('{"a": 1, "label": "x"}\n{"a": 2}\n', "column 'label' lacks 1 labels"),
        ('{"a": 1}\n{"a": [2]}\n', "cannot read .*t.jsonl"),
        ("no json\n", "cannot read .*t.jsonl"),
        ("", "cannot read .*t.jsonl"),
        ("{}\n", "no column of numbers"),
    ],
)
def test_unusable_files_are_refused_in_one_line(table: Table, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        table(text)
    assert "\n" not in str(error.value)


def test_what_does_not_fit_is_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcfsc.io.streamed.free_memory", lambda: 10)
    with pytest.raises(InputError, match="GiB in memory"):
        table('{"a": 1, "b": 2}\n')
