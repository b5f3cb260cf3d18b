"""Carry a request out: fit and write the run's folder, in one process or under torchrun.

Under torchrun every process loads the data, lazily where they are large, and takes a contiguous
share of the samples. The first one alone has the run's folder, prints, and ends with the model of
all samples; the others are silent.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.estimators.encoder_features import PretrainedFeatures
from dcfsc.estimators.registry import METHODS, create, create_features, method_class
from dcfsc.estimators.sharded import gather
from dcfsc.estimators.suggest import drawn, options_for, suggest_k
from dcfsc.estimators.validation import check_n_clusters
from dcfsc.io import Dataset, Streamed, check_finite
from dcfsc.io.digest import digest_of_labels
from dcfsc.io.streamed import Share
from dcfsc.io.working_size import working_shape
from dcfsc.journal import held
from dcfsc.machine import resolve_device
from dcfsc.ownership import check_place
from dcfsc.pipeline import MOST_SAMPLES
from dcfsc.progress import stage
from dcfsc.selection import Suggestion

from . import checkpoint, life
from .folder import Run, read_run
from .record import describe_result, describe_run, differences
from .request import RunRequest
from .writing import add_report, write_run

DIVISIBLE = ("closed-form", "dcfsc", "views")

Started = Callable[[dict[str, Any]], None]


def execute(request: RunRequest, started: Started | None = None) -> Run | None:
    """Carry the request out; the finished run, or None in all but the first of many processes.

    Input and folder are checked before the work; if anything fails, nothing stays behind and an
    earlier run in the folder is as it was. ``started`` is given the record so far once the input
    has been found good.
    """
    executor = ManyProcesses(request) if processes.launched() else OneProcess(request)
    return executor.run(started)


def execute_each(
    request: RunRequest, counts: Sequence[int], started: Started | None = None
) -> list[Run]:
    """A run for each number of clusters, all cut from one graph and one set of eigenvectors.

    The graph is made for the largest number. The runs are in folders of their own, ``OUT/k10`` or
    ``runs/NAME-k10``; all of these are checked before the work. The runs come in the order of
    ``counts``.
    """
    if processes.launched():
        raise InputError("several numbers of clusters need all samples in one process; give one.")
    if request.method == "auto":
        raise InputError("--method auto is for one number of clusters; give one, or a method.")
    if request.resume:
        raise InputError("--resume is for one number of clusters; give one, with its folder.")
    request = request.seeded()
    requests = {}
    for K in sorted(set(counts), reverse=True):
        folder = life.default_folder(f"{request.name}-k{K}")
        folder = folder if request.out is None else request.out / f"k{K}"
        life.check_out(folder, resume=False, overwrite=request.overwrite, inputs=sources(request))
        requests[K] = replace(request.with_options(n_clusters=K), out=folder)
    runs: dict[int, Run] = {}
    largest: Job | None = None
    for K, each in requests.items():
        executor = OneProcess(each, largest)
        job = executor._prepare()
        runs[K] = executor._write(job, started if largest is None else None)
        largest = largest or job
    return [runs[K] for K in counts]


@dataclass(frozen=True)
class Job:
    """A request whose every choice is made: the seed, K, and the objects that do the work."""

    request: RunRequest
    estimator: Any
    transformer: Any
    suggestion: Suggestion | None


class OneProcess:
    """All samples are this process's.

    A run with fewer clusters than ``largest`` is cut from that one's graph and eigenvectors.
    """

    share = slice(None)
    alone = True  # so that nobody waits for this process

    def __init__(self, request: RunRequest, largest: Job | None = None):
        if request.timeout is not None:
            raise InputError("--dist-timeout is for many processes; start them with torchrun.")
        self.request = request.seeded()
        self._largest = largest

    def run(self, started: Started | None) -> Run | None:
        return self._write(self._prepare(), started)

    def _prepare(self) -> Job:
        request = self.request
        data, transformer, options = request.data, None, dict(request.given)
        if self._largest is not None:
            K = check_n_clusters(options["n_clusters"], len(data), least=2)
            return replace(self._largest, request=request, estimator=self._largest.estimator.cut(K))
        if request.features is not None:
            names = request.features, request.method
            transformer, options = create_features(*names, options, texts=data.texts is not None)
        estimator = create(request.method, **options)
        for step in filter(None, (estimator, transformer)):
            checkpoint.check(step)
            _set_known(step, verbose=False)  # the command line shows the progress
        if data.texts is None:
            check_finite(data.X, data.name, self.share)
        suggestion = None
        if options.get("n_clusters") == "auto":
            suggestion = suggest_for_run(data, options_for(estimator), transformer)
            options["n_clusters"] = suggestion.k
            estimator.set_params(n_clusters=suggestion.k)
        check_n_clusters(options.get("n_clusters"), len(data), least=2)
        estimator._bound_labels = digest_of_labels(data.y)  # a checkpoint is of these
        return Job(request, estimator, transformer, suggestion)

    def _write(self, job: Job, started: Started | None) -> Run:
        request, estimator, data = self.request, job.estimator, job.request.data
        record = self._describe(job)
        folder = life.choose_folder(request.name, request.out, request.resume)
        state = life.state_of(folder)
        goes_on = request.resume and not request.overwrite
        if self.alone and goes_on and state is life.State.WHOLE:
            return _finished(folder, record)
        self._check_folder(folder, state, estimator)
        record["room_bytes"] = room = room_for(data, request.method, job.transformer)
        with life.reserved(folder, room), held(folder):
            # another run may have ended there just now
            self._check_folder(folder, life.state_of(folder), estimator)
            if started is not None:
                started(record)
            fresh = request.overwrite and not request.resume
            with checkpoint.saving(estimator, folder, request.command, fresh=fresh):
                record["timings"] = self._fit(job)
                job, record = self._settled(job, record)
                record |= describe_result(data, job.estimator)
                stage("writing %s", folder)
                write_run(folder, record, data, job.estimator, job.transformer)
            if request.report:
                stage("drawing the report")
                add_report(folder, record, data, job.estimator)
        return Run(folder, record, np.asarray(job.estimator.labels_))

    def _describe(self, job: Job) -> dict[str, Any]:
        return describe_run(job.request, job.estimator, job.transformer, job.suggestion)

    def _settled(self, job: Job, record: dict[str, Any]) -> tuple[Job, dict[str, Any]]:
        """After the fit, what is written: the job, or another one in its place."""
        return job, record

    def _check_folder(self, folder: Path, state: life.State, estimator: Any) -> None:
        request = self.request
        check_place(folder, inputs=sources(request), own=folder)
        life.check_free(folder, state, resume=request.resume, overwrite=request.overwrite)
        if not request.overwrite:
            checkpoint.check_method(folder, state, request.method, estimator)

    def _fit(self, job: Job) -> dict[str, float]:
        """Fit the estimator on the samples or on their features; the seconds that each took."""
        timings: dict[str, float] = {}
        X = job.request.data.X
        if self._largest is not None:
            return {"fit_seconds": 0.0}  # the cut is a small part of the first run's time
        if job.transformer is not None:
            with _timed(timings, "features_seconds"):
                X = job.transformer.fit_transform(X)
        stage("clustering by %s", job.request.method)
        with _timed(timings, "fit_seconds"):
            job.estimator.fit(X)
        if (measure := getattr(job.estimator, "measure_stability", None)) is not None:
            with _timed(timings, "stability_seconds"):
                measure(X)
        return timings


class ManyProcesses(OneProcess):
    """A share of the samples is this process's; torchrun started it and the others.

    After torchrun has restarted the processes they go on from the run's checkpoint, whether it was
    asked for or not.
    """

    alone = False

    def __init__(self, request: RunRequest):
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        wait = request.timeout
        self.timeout = processes.TIMEOUT_SECONDS if wait is None else wait
        self._check(request)
        device = processes.local_device(request.given.get("device", "auto"))
        request = request.with_options(device=device)
        if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0:
            request = replace(request, resume=True, overwrite=True)
        self.request, self._largest = request, None
        self.share = processes.shard(len(request.data), self.rank, self.size)

    def run(self, started: Started | None) -> Run | None:
        if self.rank == 0:
            self.request = self.request.seeded()
            return self._write(self._prepare(), started)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the first process says what there is to say
            job = self._prepare()
            # The first process's file; the others never touch it.
            _set_known(job.estimator, checkpoint=life.CHECKPOINT)
            self._fit(job)
        return None

    def _fit(self, job: Job) -> dict[str, float]:
        """Fit the share together with the other processes; the first one has all samples then."""
        timings: dict[str, float] = {}
        X = job.request.data.X
        rows = Share(X, self.share) if isinstance(X, Streamed) else X[self.share]
        device = resolve_device(job.estimator.device)
        with processes.process_group(device, self.timeout), processes.sharded():
            with _timed(timings, "fit_seconds"):
                job.estimator.fit(rows)
            gather(job.estimator)
        return timings

    def _check(self, request: RunRequest) -> None:
        """What many processes cannot do is refused before they meet."""
        method_class(request.method)
        if request.method not in DIVISIBLE:
            others = ", ".join(sorted(set(METHODS) - set(DIVISIBLE)))
            raise InputError(
                f"the method {request.method!r} needs all samples in one process, as do {others}; "
                f"torchrun is for {', '.join(DIVISIBLE)}."
            )
        if request.features is not None:
            raise InputError(
                f"--features {request.features} needs all samples in one process; compute the "
                "features first and give torchrun a file of them."
            )
        if request.given.get("n_clusters") == "auto":
            raise InputError("-k auto needs all samples in one process; give torchrun a number.")
        if len(request.data) < self.size:
            raise InputError(
                f"{request.data.name} has {len(request.data)} samples, fewer than the "
                f"{self.size} processes."
            )
        if not self.timeout > 0:
            raise InputError(
                f"--dist-timeout must be a positive number of seconds; got {self.timeout:g}."
            )


def suggest_for_run(
    data: Dataset,
    options: Mapping[str, Any],
    transformer: Any = None,
    *,
    method: str = "closed-form",
    max_k: int | None = None,
) -> Suggestion:
    """Suggest numbers of clusters for the samples, or for their features, without the labels.

    At most ``MOST_SAMPLES`` random samples are used, drawn before features are computed.
    ``options`` are those of :func:`dcfsc.suggest_k`; None means not given.
    """
    given = {key: value for key, value in options.items() if value is not None}
    X = drawn(data.X, MOST_SAMPLES, np.random.RandomState(given.get("random_state")))
    if transformer is not None:
        if method == "dcfsc":
            raise InputError("--features and --method dcfsc are two networks; give one of them.")
        X = clone(transformer).fit_transform(X)
    return suggest_k(X, max_k, method=method, **given)


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    timings[name] = round(time.perf_counter() - begin, 4)


def sources(request: RunRequest) -> set[Path]:
    return {*request.inputs, *(Path(path).absolute().parent for path in request.data.paths or ())}


def _finished(folder: Path, record: dict[str, Any]) -> Run:
    run = read_run(folder)
    fields = differences(run.record, record)
    if fields:
        raise InputError(
            f"{folder} holds a finished run that differs in {', '.join(fields[:5])}; add "
            "--overwrite to replace it, or choose another folder with --out."
        )
    warnings.warn(
        f"the run {folder} is already finished and was not changed.", UserWarning, stacklevel=4
    )
    return run


def room_for(data: Dataset, method: str, transformer: Any = None) -> int:
    """Bytes that a run on ``data`` (N, ...) will write, or fewer, known before the work.

    Labels are a few digits a sample. The closed form keeps its samples, images at their working
    size, or their features; how wide the latents of a network or other features will be is known
    only later.
    """
    width = 0
    if isinstance(transformer, PretrainedFeatures):
        width = transformer.open().n_features
    elif transformer is None:
        width = math.prod(working_shape(data.X.shape[1:]))
    samples = 4 * len(data) * width if method == "closed-form" else 0
    return life.ROOM_BYTES + 16 * len(data) + samples


def _set_known(step: Any, **options: Any) -> None:
    known = step.get_params(deep=False)
    step.set_params(**{name: value for name, value in options.items() if name in known})
