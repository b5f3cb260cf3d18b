"""Progress of counted work: in the stage of a command, or as a bar of its own in Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dcfsc.progress import announced, progress

from .history import Callback


class StageCounter:
    """A bar's part in the line that a command shows."""

    def __init__(self, total: int):
        self.done, self.total, self.note = 0, total, ""

    def set_description(self, note: str, refresh: bool) -> None:
        self.note = note

    def update(self, more: int = 1) -> None:
        self.done += more
        progress(self.done, self.total, self.note)


@contextmanager
def counting_bar(verbose: bool | str, total: int, what: str | None = None) -> Iterator[Any]:
    """A bar up to ``total`` that is advanced by its ``update``.

    Where stages are shown or logged it counts in the present one. Else it is a bar on the terminal,
    if there is one or ``verbose`` is True.
    """
    if announced():
        yield StageCounter(total)
        return
    from tqdm import tqdm

    hidden = not (sys.stderr.isatty() if verbose == "auto" else verbose)
    with tqdm(
        total=total, desc=what, disable=hidden, file=sys.stderr, leave=False, dynamic_ncols=True
    ) as bar:
        yield bar


@contextmanager
def progress_bar(verbose: bool | str, epochs: int, steps: int) -> Iterator[Callback]:
    """A callback that advances a bar over both phases."""
    with counting_bar(verbose, epochs + steps) as bar:

        def advance(row: dict[str, Any]) -> None:
            bar.set_description(f"{row['phase']}, loss {row['loss']:.4g}", refresh=False)
            bar.update()

        yield advance
