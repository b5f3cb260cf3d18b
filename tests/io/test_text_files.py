"""Text files with a text a line, and texts as samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcfsc.errors import InputError
from dcfsc.io import Dataset, load
from dcfsc.io.digest import digest_of

TEXTS = [
    "The bus was late.",
    " indented",
    "公交车又迟到了",
    "الحافلة متأخرة",
    "a\tb",
    "a\u2028b\x0cc",
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_a_text_a_line(tmp_path: Path, encoding: str, end: str, last: bool) -> None:
    content = end.join(TEXTS) + (end if last else "")
    (tmp_path / "answers.txt").write_bytes(content.encode(encoding))
    data = load(tmp_path / "answers.txt")
    assert data.texts == TEXTS
    assert (data.name, data.X.shape, data.ids, data.notes) == ("answers", (6,), None, "")
    assert repr(data) == "Dataset('answers', 6 text, no labels)"


def test_blank_lines_are_left_out_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  \ntwo\n\n")
    data = load(tmp_path / "a.txt")
    assert data.texts == ["one", "two"]
    assert data.sample_names == ["1", "4"]
    assert data.notes == "3 of 5 lines are blank and were left out"


def test_labels_of_a_text_file_are_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "y.csv").write_text("label\nx\ny\nx\n")
    data = load(tmp_path / "a.txt", labels=str(tmp_path / "y.csv"))
    assert data.y is not None
    assert data.y.tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="labels='kind' is not a file"):
        load(tmp_path / "a.txt", labels="kind")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no texts"),
        (b"\n \n\r\n", "holds no texts"),
        ("café".encode("latin-1"), "is not UTF-8 .*; save it as UTF-8"),
        (b"\xff\xfea\x00b", "is not UTF-16"),
    ],
)
def test_files_that_hold_no_texts(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=said):
        load(tmp_path / "a.txt")


def test_a_text_file_has_no_options_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(InputError, match="size"):
        load(tmp_path / "a.txt", size=(8, 8))
    with pytest.raises(InputError, match="gray is for folders of images"):
        load(tmp_path / "a.txt", gray=True)


def test_texts_are_samples() -> None:
    data = Dataset("a", np.array(TEXTS), ids=list("abcdef"))
    assert data.texts == TEXTS
    assert data.X.dtype == object
    assert Dataset("x", np.zeros((2, 3))).texts is None
    with pytest.raises(InputError, match=r"3\.5 in row 1 .* not a text"):
        Dataset("a", np.array(["x", 3.5], object))
    with pytest.raises(InputError, match="expected"):
        Dataset("a", np.arange(4))
    with pytest.raises(InputError, match="6 samples but 2 ids"):
        Dataset("a", np.array(TEXTS), ids=["x", "y"])


def test_texts_are_known_by_their_content_and_order() -> None:
    X = Dataset("a", np.array(TEXTS)).X
    assert digest_of(X) == digest_of(X.copy())
    assert digest_of(X) == (digest_of(X[:2]) + digest_of(X[2:], 2)) % (1 << 256)
    assert digest_of(X[::-1]) != digest_of(X)
    assert len({digest_of(np.array([t], object)) for t in TEXTS}) == 6
