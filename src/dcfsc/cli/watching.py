"""What a command is at, on the terminal from the first second on, or as lines with --verbose."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dcfsc.stages import logger

SILENT = {"--quiet", "-q", "--json", "--help", "-h", "--version"}
WATCHED = {"fit", "predict", "suggest-k", "report", "export"}


@contextmanager
def watching(words: Sequence[str]) -> Iterator[None]:
    """Show the stages of the command that the words ask for, where somebody watches."""
    handler: Lines | Status
    if "--verbose" in words:
        handler = Lines()
    elif WATCHED & set(words[:1]) and not SILENT & set(words) and _on_terminal():
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
        logger.level, logger.propagate = before
        handler.close()


def _on_terminal() -> bool:
    return sys.stdout.isatty() and sys.stderr.isatty()


class Lines(logging.Handler):
    """Every stage as a line, with the seconds since the start."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text:
            print(f"{time.monotonic() - self.begin:8.1f} s  {text}", file=sys.stderr, flush=True)


class Status(logging.Handler):
    """The present stage in one line that goes away, with a clock that runs."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.shown = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.shown.add_task("starting", total=None)
        self.shown.start()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text:
            self.shown.update(self.task, description=text)
            self.shown.start()
        else:
            self.shown.stop()

    def close(self) -> None:
        self.shown.stop()
        super().close()
