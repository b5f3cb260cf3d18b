"""The progress bar: on a terminal, or where asked for, and silent elsewhere."""

import io
import sys

import pytest

from dcfsc.training.progress import counting_bar, progress_bar


class Screen(io.StringIO):
    """What a terminal, or a file, was given."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("verbose", "terminal", "shown"),
    [
        ("auto", True, True),
        ("auto", False, False),
        (True, False, True),
        (False, True, False),
    ],
)
def test_a_bar_is_shown_on_a_terminal_or_where_asked_for(monkeypatch, verbose, terminal, shown):
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    with counting_bar(verbose, 8, "samples") as bar:
        assert bar.disable is not shown
        bar.update(2)
        bar.refresh()
    assert ("samples:  25%" in screen.getvalue()) is shown
    if not shown:
        assert screen.getvalue() == ""
    else:  # nothing stays on the screen
        assert screen.getvalue().rstrip("\r").endswith(" ")


def test_where_stages_are_shown_a_bar_counts_in_the_present_one(monkeypatch, caplog):
    screen = Screen(True)
    monkeypatch.setattr(sys, "stderr", screen)
    with caplog.at_level("INFO", "dcfsc.stage"), progress_bar(False, 1, 3) as advance:
        advance({"phase": "pretrain", "loss": 12345.678})
        advance({"phase": "train", "loss": 0.5})
    counted = [(r.done, r.total, r.note) for r in caplog.records]
    assert counted == [(1, 4, "pretrain, loss 1.235e+04"), (2, 4, "train, loss 0.5")]
    assert screen.getvalue() == ""


def test_training_advances_over_both_phases(monkeypatch):
    screen = Screen(True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar(True, 1, 3) as advance:
        advance({"phase": "pretrain", "loss": 12345.678})
        advance({"phase": "train", "loss": 0.5})
        bar = advance.__closure__[0].cell_contents
        assert (bar.n, bar.total) == (2, 4)
        bar.refresh()
    assert "train, loss 0.5:  50%" in screen.getvalue()
