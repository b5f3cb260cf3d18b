"""The history: a list of rows that pandas reads, and what callbacks may expect."""

from __future__ import annotations

from typing import Any

import pandas

from dcfsc.training import History

ROWS = [
    {"phase": "pretrain", "step": 1, "loss": 3.0, "seconds": 0.1},
    {"phase": "train", "step": 1, "loss": 2.0, "seconds": 0.2, "lam": 0.5},
    {"phase": "train", "step": 2, "loss": 1.0, "seconds": 0.2, "lam": 0.25},
]


def test_a_history_becomes_a_frame_with_a_row_a_step_and_nan_where_a_row_has_no_value() -> None:
    frame = pandas.DataFrame(History(ROWS))
    assert list(frame.columns) == ["phase", "step", "loss", "seconds", "lam"]
    assert frame["loss"].tolist() == [3.0, 2.0, 1.0]
    assert frame["lam"].isna().tolist() == [True, False, False]
    assert frame.groupby("phase")["loss"].min().to_dict() == {"pretrain": 3.0, "train": 1.0}


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
