"""Two checkouts compared: their labels, their seconds, and how much code a fit runs in one."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dcfsc.errors import InputError
from dcfsc.io import synthetic
from research.alone import alone
from research.record import ROOT

from . import fits, samples
from .generated_problems import turntable
from .measure import Figures, Rows, benchmark

IMAGES = {"digits": 10, "orl": 40, "eyaleb-10": 10}
UNIONS = {"union-90": 3, "union-200": 5, "union-400": 8}  # samples and subspaces
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@benchmark
def compare_labels(checkout: str) -> Rows:
    """Whether this checkout and another one give the same labels.

    Each labels the same samples with its own code: the default digits, ORL, ten people of Extended
    Yale B and features of digits, and every method synthetic unions of subspaces. ARI is 1 and
    "same" true where the labels are equal to the last sample.
    """
    images = {name: samples.SETS[name]()[0] for name in IMAGES}
    problems: list[tuple[Any, ...]] = [
        (name, images[name], k, "images") for name, k in IMAGES.items()
    ]
    problems.append(("features of digits", images["digits"][:600], 10, "features"))
    for name, k in UNIONS.items():
        X = synthetic(n_samples=int(name.split("-")[1]), n_clusters=k, random_state=1).X
        problems.append((name, X, k, "unions"))
    for name, *problem in problems:
        ours, theirs = (in_checkout(c, fits.labels, *problem) for c in (str(ROOT), checkout))
        for method in sorted(ours.keys() & theirs.keys()):
            labels = ours[method]
            ari = adjusted_rand_score(labels, theirs[method])
            yield f"{name}, {method}", {"same": labels == theirs[method], "ari": ari}


@benchmark
def compare_seconds(checkout: str, repeats: int = 5) -> Rows:
    """How long the default takes in this checkout and in another one, measured in turn.

    Each fit is made from Python with only K given, in a process of its own, after a fit of some of
    the samples, on all cores: 1,440 images of 20 objects on a turntable and 1,797 digits. Medians
    of ``--repeats``; the ratio is this checkout's seconds to the other's.
    """
    problems = {"turntable": (turntable(0, views=72)[0], 20), "digits": (_digits(), 10)}
    for name, (X, n_clusters) in problems.items():
        pairs = [
            [in_checkout(c, fits.seconds, X, n_clusters)["seconds"] for c in (str(ROOT), checkout)]
            for _ in range(repeats)
        ]
        here, other = map(statistics.median, zip(*pairs, strict=True))
        yield name, {"here": here, "other": other, "ratio": here / other}


@benchmark
def count_calls(checkout: str = str(ROOT), names: bool = False) -> Rows:
    """How many functions a default fit runs, of how many lines, in how many files.

    Each problem is the first fit of a new interpreter in which every module of the package has been
    imported: nothing is hidden by a cache, and no import is counted. A function counts once,
    however often it runs. Its lines are those of its definition with its decorators' left out;
    lambdas and comprehensions count with the function that they are in. A named function inside
    another counts for itself as well, so that its lines count twice. ``--names`` lists them.
    """
    vectors = synthetic(600, 5, 4, 30, random_state=0).X
    for problem, X, n_clusters in (("vectors", vectors, 5), ("images", _digits()[:600], 10)):
        figures = in_checkout(checkout, fits.calls, X, n_clusters)
        yield problem, figures if names else {**figures, "names": []}


def _digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return load_digits().images


def in_checkout(
    checkout: str, function: Callable[..., Any], X: np.ndarray, *arguments: Any
) -> Figures:
    """What a function of :mod:`fits` returns with the package of a checkout."""
    source = Path(checkout).resolve() / "src"
    if not (source / "dcfsc").is_dir():
        raise InputError(f"there is no src/dcfsc in {checkout}")
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment["PYTHONPATH"] = f"{source}{os.pathsep}{ROOT}"
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/samples.npy"
        np.save(file, X)
        figures = alone(function, file, *arguments, environment=environment)
    if "failed" in figures:
        raise InputError(f"{checkout}: {figures['failed']}")
    return figures
