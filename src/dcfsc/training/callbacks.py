"""Callbacks of a training; see :class:`.history.History` for what a callback is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from dcfsc.errors import InputError

__all__ = ["TensorBoard"]


class TensorBoard:
    """Write every number of every row as a scalar ``phase/name`` at its step.

    Parameters
    ----------
    logdir : path
        The folder of the event file, as ``tensorboard --logdir`` takes it. The file is made by the
        first row, so an estimator with this callback can be made, cloned and searched over without
        one.

    Close it, or use it as a context manager, to have the file end with the training; otherwise
    the last seconds of it are written when the process ends.

    Examples
    --------
    >>> from dcfsc import DCFSC, TensorBoard
    >>> model = DCFSC(n_clusters=3, callbacks=[TensorBoard("runs/board")])
    """

    def __init__(self, logdir: str | os.PathLike[str]):
        self.logdir = os.fspath(logdir)
        self._writer: Any = None

    def __call__(self, row: Mapping[str, Any]) -> None:
        if self._writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError(
                    "the callback TensorBoard needs the package tensorboard, which is not "
                    "installed; run 'pip install dcfsc[tensorboard]'."
                ) from None
            self._writer = SummaryWriter(self.logdir)
        for name, value in row.items():
            if name not in ("phase", "step") and isinstance(value, int | float):
                self._writer.add_scalar(f"{row['phase']}/{name}", value, int(row["step"]))

    def close(self) -> None:
        """Write what is left and close the file; a later row opens a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # scikit-learn's clone copies parameters deeply, and a writer holds threads and files.
    def __getstate__(self) -> dict[str, Any]:
        return {"logdir": self.logdir, "_writer": None}

    def __repr__(self) -> str:
        return f"TensorBoard({self.logdir!r})"
