"""The history: a list of rows, a table on request, and what callbacks may expect."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dcfsc.errors import InputError
from dcfsc.training import History

ROWS = [
    {"phase": "pretrain", "step": 1, "loss": 3.0, "seconds": 0.1},
    {"phase": "train", "step": 1, "loss": 2.0, "seconds": 0.2, "lam": 0.5},
    {"phase": "train", "step": 2, "loss": 1.0, "seconds": 0.2, "lam": 0.25},
]


def test_frame_has_a_row_a_step_and_nan_where_a_row_has_no_value() -> None:
    frame = History(ROWS).to_frame()
    assert list(frame.columns) == ["phase", "step", "loss", "seconds", "lam"]
    assert frame["loss"].tolist() == [3.0, 2.0, 1.0]
    assert frame["lam"].isna().tolist() == [True, False, False]
    assert frame.groupby("phase")["loss"].min().to_dict() == {"pretrain": 3.0, "train": 1.0}
    assert History().to_frame().empty


def test_without_pandas_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="needs pandas") as caught:
        History(ROWS).to_frame()
    assert "\n" not in str(caught.value)


def test_html_shows_the_ends_of_a_long_history_and_escapes() -> None:
    rows = [{"phase": "<train>", "step": i, "loss": 1.0 / i} for i in range(1, 101)]
    html = History(rows)._repr_html_()
    assert html.count("<tr>") == 1 + 10 + 1
    assert "90 more" in html
    assert "&lt;train&gt;" in html
    assert "<train>" not in html
    assert History(rows[:4])._repr_html_().count("<tr>") == 5


def test_callbacks_see_each_row_once_it_is_recorded_and_in_the_order_given() -> None:
    seen: list[tuple[str, int]] = []

    def first(row: dict[str, Any]) -> None:
        assert history[-1] is row
        seen.append(("first", row["step"]))
        row["note"] = "kept"

    history = History(callbacks=[first, lambda row: seen.append((row["note"], row["step"]))])
    history.record(phase="train", step=1, loss=1.0)
    history.record(phase="train", step=2, loss=0.5)
    assert seen == [("first", 1), ("kept", 1), ("first", 2), ("kept", 2)]
    assert history.column("note") == ["kept", "kept"]


def test_a_column_is_that_of_a_phase_where_one_is_named() -> None:
    history = History(ROWS)
    assert history.column("loss") == [3.0, 2.0, 1.0]
    assert history.column("loss", "train") == [2.0, 1.0]
    assert history.column("loss", phase="pretrain") == [3.0]
    assert history.column("lam") == [0.5, 0.25]
    assert history.column("lam", "pretrain") == []


@pytest.mark.parametrize(("count", "shown"), [(9, 9), (10, 10), (11, 11), (12, 11)])
def test_html_leaves_out_no_more_than_the_middle(count: int, shown: int) -> None:
    rows = [{"phase": "train", "step": i, "note": None} for i in range(1, count + 1)]
    html = History(rows)._repr_html_()
    assert html.count("<tr>") == 1 + shown
    kept = [i for i in range(1, count + 1) if f"<td>{i}</td>" in html]
    hidden = max(0, count - 10)
    assert kept == [i for i in range(1, count + 1) if not 5 < i <= 5 + hidden]
    if hidden:
        assert (
            html.index("<td>5</td>")
            < html.index(f"{hidden} more")
            < html.index(f"<td>{6 + hidden}</td>")
        )
    assert "<td></td>" in html
