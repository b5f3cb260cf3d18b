"""A progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dcfsc.progress import stage

from .history import Callback


def counting_bar(verbose: bool | str, total: int, what: str | None = None) -> Any:
    """A bar up to ``total`` that is advanced by its ``update``; a no-op where nobody watches."""
    from tqdm import tqdm

    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if shown:
        stage("")
    return tqdm(
        total=total,
        desc=what,
        disable=not shown,
        file=sys.stderr,
        leave=False,
        dynamic_ncols=True,
    )


@contextmanager
def progress_bar(verbose: bool | str, epochs: int, steps: int) -> Iterator[Callback]:
    """A callback that advances a bar over both phases; a no-op where nobody watches."""
    with counting_bar(verbose, epochs + steps) as bar:

        def advance(row: dict[str, Any]) -> None:
            bar.set_description(row["phase"], refresh=False)
            bar.set_postfix(loss=f"{row['loss']:.4g}", refresh=False)
            bar.update()

        yield advance
