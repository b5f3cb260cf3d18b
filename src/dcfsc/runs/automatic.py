"""``--method auto``: the closed form and, where that may pay, an encoder that learns from views.

Training pays for images by the thousand, and takes minutes if there is a GPU. Then both are done,
and the clustering with the lower cut is kept: on average over the graph of the samples and that of
the features, as either graph favors its own clusters.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.estimators.registry import create, method_class
from dcfsc.machine import resolve_device

from . import life
from .executor import Job, OneProcess, Started
from .folder import Run
from .record import describe_run
from .request import RunRequest

FEWEST, MOST = 1_000, 200_000  # images


def execute_auto(request: RunRequest, started: Started | None = None) -> Run | None:
    """Carry out a request whose method is to be chosen, as ``execute`` does with others."""
    return Automatic(request).run(started)


def obstacle(request: RunRequest) -> str | None:
    """Why the closed form alone is done, or None."""
    X, known = request.data.X, inspect.signature(method_class("views")).parameters
    others = [name for name in request.given if name not in known]
    if others:
        return f"{', '.join('--' + n.replace('_', '-') for n in others)} is not for training"
    if request.features is not None:
        return "the features are computed already"
    if len(X.shape) < 3:
        return "the samples are no images"
    if not FEWEST <= len(X) <= MOST:
        return f"training is for {FEWEST:,} to {MOST:,} images"
    if resolve_device(request.given.get("device", "auto")).type != "cuda":
        return "training takes a GPU"
    return None


class Automatic(OneProcess):
    """One process that does the closed form, or both and keeps one."""

    def __init__(self, request: RunRequest):
        if processes.launched():
            raise InputError("--method auto needs all samples in one process; name a method.")
        self._why = obstacle(request)
        out = life.choose_folder(request.name, request.out, request.resume)
        method = "views" if self._why is None else "closed-form"
        super().__init__(replace(request, out=out, method=method))

    def _describe(self, job: Job) -> dict[str, Any]:
        plan = "the closed form, then minutes of training; the lower cut is kept"
        return {**super()._describe(job), "auto": self._why or plan}

    def _settled(self, job: Job, record: dict[str, Any]) -> tuple[Job, dict[str, Any]]:
        cuts = getattr(job.estimator, "_cuts", None)
        if cuts is None:
            return job, record
        trained, plain = cuts
        found = f"training cuts {trained:.2%} of the affinity, the closed form {plain:.2%}"
        if trained <= plain:
            return job, {**record, "auto": found}
        known = inspect.signature(method_class("closed-form")).parameters
        options = {n: v for n, v in job.request.given.items() if n in known}
        request = replace(job.request, method="closed-form", options=options)
        kept = replace(job, request=request, estimator=create("closed-form", **options))
        seconds = record["timings"]["fit_seconds"] + self._fit(kept)["fit_seconds"]
        described = describe_run(request, kept.estimator, kept.transformer, kept.suggestion)
        return kept, {**record, **described, "auto": found, "timings": {"fit_seconds": seconds}}
