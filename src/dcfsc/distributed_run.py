"""Runs of many processes, as torchrun starts them: each fits its share, the first one writes.

Every process loads the data, lazily where they are large, and takes a contiguous share of the
samples. The first one alone has the run's folder, prints, and ends with the model of all samples;
the others are silent.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc import distributed, runs
from dcfsc.datasets import Dataset, Streamed
from dcfsc.errors import InputError
from dcfsc.estimators.methods import METHODS, create, method_class
from dcfsc.estimators.sharded import gather
from dcfsc.estimators.validation import resolve_device
from dcfsc.run_checkpoint import CHECKPOINT
from dcfsc.run_folder import Run

DIVISIBLE = ("closed-form", "dcfsc")


def fit_run(
    data: Dataset,
    method: str,
    options: Mapping[str, Any],
    out: Path | None = None,
    *,
    timeout: float | None = None,
    command: str | None = None,
    progress: bool = True,
    started: Callable[[dict[str, Any]], None] | None = None,
    report: bool = False,
    features: str | None = None,
    resume: bool = False,
) -> Run | None:
    """:func:`dcfsc.runs.fit_run` by all processes that torchrun started; None but in the first.

    ``timeout`` is the number of seconds that a process waits for another one, 600 unless given.
    After torchrun has restarted the processes they go on from the run's checkpoint, ``resume`` or
    not.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    wait = distributed.TIMEOUT_SECONDS if timeout is None else timeout
    _check(data, method, options, features, size, wait)
    given = {**options, "device": distributed.local_device(options.get("device") or "auto")}
    share = distributed.shard(len(data), rank, size)
    fit = partial(fit_share, share=share, timeout=wait)
    if rank == 0:
        return runs.fit_run(
            data,
            method,
            given,
            out,
            command=command,
            progress=progress,
            started=started,
            report=report,
            resume=resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0,
            share=share,
            fit=fit,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first process says what there is to say
        estimator = create(method, **given)
        runs.check_clusters(given.get("n_clusters"), data)
        runs.check_samples(data, share)
        params = estimator.get_params(deep=False)
        runs.check_choices(params)
        # The first process's file; the others never touch it.
        quiet = {"verbose": False, "checkpoint": CHECKPOINT}
        estimator.set_params(**{name: value for name, value in quiet.items() if name in params})
        fit(data.X, None, estimator)
    return None


def fit_share(
    X: Any, transformer: None, estimator: Any, *, share: slice, timeout: float
) -> dict[str, float]:
    """Fit the estimator on a share of X together with the other processes; the seconds it took.

    In the first process it is a model of all samples afterwards.
    """
    begin = time.perf_counter()
    rows = Share(X, share) if isinstance(X, Streamed) else runs.in_memory(X[share])
    device = resolve_device(estimator.device)
    with distributed.process_group(device, timeout), distributed.sharded():
        estimator.fit(rows)
        seconds = time.perf_counter() - begin
        gather(estimator)
    return {"fit_seconds": round(seconds, 4)}


class Share(Streamed):
    """Some consecutive rows of samples on disk."""

    def __init__(self, source: Streamed, share: slice):
        self._source = source
        self._first, stop, _ = share.indices(len(source))
        super().__init__(source.name, (stop - self._first, *source.shape[1:]), source.dtype)

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._source[self._first + start : self._first + stop]

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        return self._source[self._first + indices]


def _check(
    data: Dataset,
    method: str,
    options: Mapping[str, Any],
    features: str | None,
    size: int,
    timeout: float,
) -> None:
    """What many processes cannot do is refused before they meet."""
    method_class(method)
    if method not in DIVISIBLE:
        others = ", ".join(sorted(set(METHODS) - set(DIVISIBLE)))
        raise InputError(
            f"the method {method!r} needs all samples in one process, as do {others}; torchrun is "
            f"for {' and '.join(DIVISIBLE)}."
        )
    if features is not None:
        raise InputError(
            f"--features {features} needs all samples in one process; compute the features first "
            "and give torchrun a file of them."
        )
    if options.get("n_clusters") == "auto":
        raise InputError("-k auto needs all samples in one process; give torchrun a number.")
    if len(data) < size:
        raise InputError(f"{data.name} has {len(data)} samples, fewer than the {size} processes.")
    if not timeout > 0:
        raise InputError(f"--dist-timeout must be a positive number of seconds; got {timeout:g}.")
