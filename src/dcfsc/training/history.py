"""What happened at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Callback = Callable[[Row], None]


class History(list[Row]):
    """One row a step: ``phase``, ``step``, ``loss``, ``seconds``, and each term by its name."""

    def __init__(self, rows: Sequence[Row] = (), callbacks: Sequence[Callback] = ()):
        super().__init__(rows)
        self._callbacks = tuple(callbacks)

    def record(self, **row: Any) -> None:
        self.append(row)
        for callback in self._callbacks:
            callback(row)

    def column(self, name: str, phase: str | None = None) -> list[Any]:
        return [row[name] for row in self if name in row and phase in (None, row["phase"])]


class Plateau:
    """True once the best loss has not fallen by ``tol`` (relative) for ``patience`` steps."""

    def __init__(self, tol: float | None, patience: int):
        self.tol, self.patience = tol, patience
        self.state: tuple[float, int] = float("inf"), 0  # best loss, steps since it fell

    def __call__(self, loss: float) -> bool:
        if self.tol is None:
            return False
        best, since = self.state
        falls = loss < best * (1.0 - self.tol)
        self.state = (loss, 0) if falls else (best, since + 1)
        return self.state[1] >= self.patience
