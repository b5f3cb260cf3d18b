"""What happened at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Callback = Callable[[Row], None]


class History(list[Row]):
    """One row per step: ``phase``, ``step``, ``loss``, ``seconds``, and each term by its name.

    A callback is any callable of one row. It is called once the row is in the history, in the order
    of the steps, the callbacks of a row in the order given. What it returns is ignored; what it
    raises propagates out of ``fit``, which is how a callback ends a training. The row is the
    history's own: a callback that adds to it adds to the history.
    """

    def __init__(self, rows: Sequence[Row] = (), callbacks: Sequence[Callback] = ()):
        super().__init__(rows)
        self._callbacks = tuple(callbacks)

    def record(self, **row: Any) -> None:
        self.append(row)
        for callback in self._callbacks:
            callback(row)

    def column(self, name: str, phase: str | None = None) -> list[Any]:
        return [row[name] for row in self if name in row and phase in (None, row["phase"])]
