"""The commit that a record names."""

from __future__ import annotations

from research import machine


def test_the_commit_is_named_by_the_environment_or_the_history(monkeypatch):
    ask = machine.commit.__wrapped__
    monkeypatch.delenv("DCFSC_COMMIT", raising=False)
    answers = {"ls-files": "machine.py", "rev-parse": "abc", "status": ""}
    monkeypatch.setattr(machine, "_git", lambda command, *_: answers[command])
    assert ask() == "abc"
    answers["status"] = " M machine.py"
    assert ask() == "abc-dirty"
    answers["ls-files"] = None  # installed inside of another project's checkout
    assert ask() is None
    monkeypatch.setenv("DCFSC_COMMIT", "def")
    assert ask() == "def"
