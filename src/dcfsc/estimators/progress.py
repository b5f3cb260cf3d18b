"""A progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dcfsc.training import Callback


@contextmanager
def progress_bar(verbose: bool | str, epochs: int, steps: int) -> Iterator[Callback]:
    """A callback that advances a bar over both phases; a no-op where nobody watches."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if not shown:
        yield lambda row: None
        return
    from tqdm import tqdm

    with tqdm(total=epochs + steps, file=sys.stderr, leave=False, dynamic_ncols=True) as bar:

        def advance(row: dict[str, Any]) -> None:
            bar.set_description(row["phase"], refresh=False)
            bar.set_postfix(loss=f"{row['loss']:.4g}", refresh=False)
            bar.update()

        yield advance


@contextmanager
def counting_bar(verbose: bool | str, total: int, what: str) -> Iterator[Callable[[int], object]]:
    """A function that advances a bar by so many of ``total``; a no-op where nobody watches."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if not shown:
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what, file=sys.stderr, leave=False, dynamic_ncols=True) as bar:
        yield bar.update
