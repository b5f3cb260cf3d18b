"""The progress of a command: a line on the terminal that changes, or a log with --verbose."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dcfsc.errors import printable
from dcfsc.progress import logger


@contextmanager
def watching(options: Mapping[str, Any]) -> Iterator[None]:
    """Show the progress of a command with these options: as a line that changes, or as a log."""
    handler: Lines | Status
    if options.get("verbose"):
        handler = Lines()
    elif not (options.get("quiet") or options.get("as_json")) and _on_terminal():
        handler = Status()
    else:
        yield
        return
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])  # clears what loggers remember of the level
        logger.propagate = before[1]
        handler.close()


def _on_terminal() -> bool:
    is_first = os.environ.get("RANK", "0") == "0"  # of many processes
    return is_first and sys.stdout.isatty() and sys.stderr.isatty()


class Lines(logging.Handler):
    """Every stage as a line, with the seconds since the start."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        text = printable(record.getMessage())
        if text and not hasattr(record, "total"):
            print(f"{time.monotonic() - self.begin:8.1f} s  {text}", file=sys.stderr, flush=True)


class Status(logging.Handler):
    """The present stage in one line that goes away, with a clock, and the time left if known."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.shown = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.shown.add_task("starting", total=None, left="")
        self.began: tuple[float, int] | None = None  # when its first part was told, and how much
        self.shown.start()

    def emit(self, record: logging.LogRecord) -> None:
        text = printable(record.getMessage())
        if hasattr(record, "total"):
            self._advance(record.done, record.total, record.note)  # type: ignore[attr-defined]
        elif hasattr(record, "stays"):
            self.shown.console.print(text, highlight=False, markup=False, emoji=False)
        elif text:
            self.began = None
            self.shown.update(self.task, description=text, left="")
            self.shown.start()
        else:
            self.shown.stop()

    def _advance(self, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        if self.began is None or done < self.began[1]:
            self.began = now, done
        left = f"{done:,} of {total:,}"
        since, first = now - self.began[0], self.began[1]
        if done > first and since >= 1.0:
            seconds = since / (done - first) * (total - done)
            left += f", {clock(seconds)} left"
        self.shown.update(self.task, left=f"{left}, {note}" if note else left)

    def close(self) -> None:
        self.shown.stop()
        super().close()


def clock(seconds: float) -> str:
    """Seconds as 0:07, 12:30 or 1:02:03."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m}:{s:02d}"
