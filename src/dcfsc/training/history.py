"""What happened at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from dcfsc.errors import InputError

Row = dict[str, Any]
Callback = Callable[[Row], None]
# Rows that a notebook shows before and after the ones it leaves out.
SHOWN = 5


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

    def to_frame(self) -> Any:
        """The history as a pandas DataFrame; what a row does not have is NaN in it."""
        try:
            import pandas
        except ImportError:
            raise InputError(
                "to_frame needs pandas, which is not installed; run 'pip install pandas', or use "
                "the history as a list of dictionaries."
            ) from None
        return pandas.DataFrame(list(self), columns=self._names())

    def _names(self) -> list[str]:
        """The columns, in the order in which they first occur."""
        return list(dict.fromkeys(name for row in self for name in row))

    def _repr_html_(self) -> str:
        """A table of the first and last rows, for notebooks."""
        names = self._names()
        hidden = max(0, len(self) - 2 * SHOWN)
        rows = list(self) if not hidden else [*self[:SHOWN], *self[-SHOWN:]]
        lines = ["".join(f"<td>{_cell(row.get(name))}</td>" for name in names) for row in rows]
        if hidden:
            lines.insert(SHOWN, f'<td colspan="{len(names)}">{hidden:,} more</td>')
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else escape(str(value))
