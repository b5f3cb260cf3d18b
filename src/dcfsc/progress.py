"""Progress messages, for a terminal or a log."""

from __future__ import annotations

import logging

logger = logging.getLogger("dcfsc.stage")


def stage(text: str, *values: object) -> None:
    """Say which stage begins; an empty text says that something else takes the terminal over."""
    logger.info(text, *values)


def announce(text: str, *values: object) -> None:
    """Say something that stays on the terminal while stages come and go."""
    logger.info(text, *values, extra={"stays": True})


def announced() -> bool:
    """Whether somebody reads what is said."""
    return logger.isEnabledFor(logging.INFO)


def progress(done: int, total: int, note: str = "") -> None:
    """Say how much of the stage is done: so many of ``total`` parts that take the same time."""
    if announced():
        logger.info("%d of %d", done, total, extra={"done": done, "total": total, "note": note})
