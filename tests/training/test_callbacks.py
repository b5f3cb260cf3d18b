"""Callbacks of the estimators: what they see, what they may raise, and TensorBoard."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

from dcfsc import DCFSC, AutoencoderFeatures, TensorBoard
from dcfsc.errors import InputError
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


def test_tensorboard_holds_the_history(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TensorBoard(tmp_path / "board") as board:
        model = DCFSC(2, **FAST, callbacks=[board]).fit(X)
    events = reader.EventAccumulator(str(tmp_path / "board")).Reload()
    tags = set(events.Tags()["scalars"])
    assert {"pretrain/loss", "train/loss", "train/lam", "train/effective_dof"} <= tags
    losses = events.Scalars("train/loss")
    assert [event.step for event in losses] == [1, 2, 3]
    assert [event.value for event in losses] == pytest.approx(
        model.history_.column("loss", phase="train"), rel=1e-6
    )


def test_tensorboard_writes_nothing_before_the_first_row_and_can_be_cloned(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    board = TensorBoard(tmp_path / "board")
    model = AutoencoderFeatures(pretrain_epochs=1, random_state=0, callbacks=[board])
    assert not (tmp_path / "board").exists()
    model.fit(X)
    copy = clone(model)  # while the file is open
    assert repr(copy.callbacks[0]) == repr(board)
    assert pickle.loads(pickle.dumps(board)).logdir == board.logdir
    board.close()
    board.close()
    assert len(list((tmp_path / "board").iterdir())) == 1


def test_without_tensorboard_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"dcfsc\[tensorboard\]") as caught:
        DCFSC(2, **FAST, callbacks=[TensorBoard(tmp_path)]).fit(X)
    assert "\n" not in str(caught.value)
