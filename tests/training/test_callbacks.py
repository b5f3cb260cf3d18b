"""Callbacks of the estimators: what they see, and what they may raise."""

from __future__ import annotations

from typing import Any

import pytest

from dcfsc import DCFSC
from dcfsc.io import synthetic

X = synthetic(40, 2, 2, 12, random_state=0).X
FAST: dict[str, Any] = {"pretrain_epochs": 2, "steps": 3, "random_state": 0, "device": "cpu"}


class EnoughError(Exception):
    pass


def test_a_callback_sees_every_step_of_both_phases() -> None:
    seen: list[dict[str, Any]] = []
    model = DCFSC(2, **FAST, callbacks=[seen.append]).fit(X)
    assert [(row["phase"], row["step"]) for row in seen] == [
        ("pretrain", 1), ("pretrain", 2), ("train", 1), ("train", 2), ("train", 3),
    ]  # fmt: skip
    assert seen == list(model.history_)
    assert {"lam", "effective_dof", "loss", "seconds"} <= set(seen[-1])


@pytest.mark.parametrize("kind", [EnoughError, KeyboardInterrupt])
def test_what_a_callback_raises_propagates_out_of_fit(kind: type[BaseException]) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["phase"] == "train" and row["step"] == 2:
            raise kind("that will do")

    model = DCFSC(2, **FAST, callbacks=[stop])
    with pytest.raises(kind, match="that will do"):
        model.fit(X)
    assert model.history_[-1]["step"] == 2
    assert not hasattr(model, "labels_")
