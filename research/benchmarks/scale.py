"""Seconds and memory against N, of unions of subspaces and of MNIST.

The unions are K = 20 subspaces of dimension 6 in 64 dimensions, noise a tenth of the signal's norm.
Each size runs in a process of its own. On a GPU a small problem runs first, so that no kernel is
built inside the times.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from dcfsc import DCFSC, ClosedFormSubspaceClustering, spectral
from dcfsc.affinity import Symmetric, TopK
from dcfsc.estimators.registry import METHODS, create
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error, nmi
from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import Recipe
from dcfsc.pipeline.samples import as_float
from dcfsc.representations import create as representation
from dcfsc.selection import select
from dcfsc.self_expression import choose_lam, solve
from research.alone import alone
from research.machine import peak_resident

from . import samples
from .generated_problems import Samples
from .measure import Figures, benchmark, gpu_peak, growing, timed

K, M, D = 20, 6, 64
LAST_STAGES = ("search", "affinity", "embedding", "assignment")
# From where on fixed costs no longer lead.
FIRST_FITTED = {
    "cpu": {"without N x N": 10_000, "with N x N": 2_000},
    "cuda": {"without N x N": 100_000, "with N x N": 3_000},
}
# A few iterations are all that memory depends on.
FEW: dict[str, Figures] = {name: {"max_iter": 10} for name in ("ssc", "kssc", "lrr")}
FEW |= {name: {"pretrain_epochs": 1, "steps": 2, "verbose": False} for name in ("dcfsc", "dsc")}
FEW |= {"views": {"effort": "quick", "steps": 2, "verbose": False}}


class Stages(dict[str, float]):
    """Seconds of named stages."""

    def __call__(self, name: str, run: Callable[[], Any]) -> Any:
        seconds, result = timed(run)
        self[name] = self.get(name, 0.0) + seconds
        return result


def cluster_in_stages(
    X: np.ndarray,
    n_clusters: int,
    subspace_dim: float | None,
    device: str,
    seed: int = 0,
) -> tuple[np.ndarray, Figures]:
    """Labels, and figures by stage, of ClosedFormSubspaceClustering with ``assign="kmeans"``."""
    stages = Stages()
    begin = time.perf_counter()
    Z = stages("features", lambda: unit_rows(as_float(X, torch.device(device))))
    recipe = Recipe(X.shape[1:], n_clusters, subspace_dim=subspace_dim)
    seen = stages("choice", lambda: select(representation("auto", recipe), Z, recipe))
    operator: Any = stages("solve", lambda: seen.representation.solve(seen.rows))
    searches: list[int] = []
    _time_searches(operator, stages, searches)
    graph = stages("affinity", lambda: TopK().graph(operator, n_clusters))
    stages["affinity"] -= stages.get("search", 0.0)
    rng = np.random.RandomState(seed)
    embedding = stages("embedding", lambda: spectral.embed(graph, n_clusters, random_state=rng))
    where: Any = {"random_state": rng, "device": graph.device}
    labels = stages("assignment", lambda: spectral.assign(embedding, n_clusters, **where))
    return labels, {
        "seconds": time.perf_counter() - begin,
        "stages": dict(stages),
        "representation": seen.representation.name,
        "searches": searches,
        "edges": int(graph.on_host.nnz),
        "solver": embedding.solver,
        "residual": embedding.residual,
        "connected_components": embedding.n_connected,
    }


def _time_searches(operator: Any, stages: Stages, searches: list[int]) -> None:
    """Count the searches of this operator as the stage "search"."""
    search = operator.neighbors

    def timed_search(k: int, by_cosine: bool = False) -> Any:
        searches.append(k)
        return stages("search", lambda: search(k, by_cosine))

    operator.neighbors = timed_search


def warm_up(device: str, dimension: int = D) -> float:
    """Seconds of a small problem of the same kind, which builds and loads the GPU's kernels."""
    start = time.perf_counter()
    if device.startswith("cuda"):
        cluster_in_stages(subspaces(60_000, dimension=dimension)[0], K, M, device)
        torch.cuda.reset_peak_memory_stats()
    return time.perf_counter() - start


def subspaces(n: int, noise: float = 0.1, dimension: int = D) -> Samples:
    data = synthetic(n, K, M, dimension, noise=noise, random_state=0)
    assert data.y is not None
    return np.asarray(data.X), data.y


@benchmark
def scale(
    device: str = "cpu",
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000),
    noise: float = 0.1,
) -> list[Figures]:
    """ClosedFormSubspaceClustering without N x N: seconds by stage, error, peak memory.

    Memory of the imports is shown apart.
    """
    return [alone(scale_at, n, device, noise) for n in sizes]


def scale_at(n: int, device: str, noise: float) -> Figures:
    imports = peak_resident()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    warm = warm_up(device)
    X, y = subspaces(n, noise)
    labels, figures = cluster_in_stages(X, K, M, device)
    return {
        "N": n,
        "noise": noise,
        **figures,
        "error_percent": clustering_error(y, labels),
        "warm_up_seconds": warm,
        "peak_rss": peak_resident(),
        "rss_after_imports": imports,
        "data_bytes": X.nbytes,
        **gpu_peak(device),
    }


# With and without N x N matrices ------------------------------------------------------------


def dense_way(X: np.ndarray, device: str) -> np.ndarray:
    Z = unit_rows(as_float(X, torch.device(device)))
    operator = solve(Z, choose_lam(Z, K * M), form="samples")
    embedding = spectral.embed(Symmetric()(operator, K), K, random_state=0)
    return spectral.assign(embedding, K, random_state=0)


def closed_form(X: np.ndarray, device: str) -> np.ndarray:
    return cluster_in_stages(X, K, M, device)[0]


WAYS = {"without N x N": closed_form, "with N x N": dense_way}


@benchmark
def growth(
    device: str = "cpu",
    sizes: tuple[int, ...] = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000),
    limit: float = 600.0,
    bytes: float = 12e9,
) -> Figures:
    """The closed form without N x N beside the N x N way.

    "without N x N" is the default estimator; "with N x N" is the sample form (an N x N inverse),
    |B| + |B'| whole and a dense eigenproblem, on the same device, while ``--bytes`` and ``--limit``
    (seconds of a run) allow. Memory is what a run adds to the imports and the data. Exponents are
    the slopes of log seconds (or bytes) over log N. docs/figures/growth.py draws the curves.
    """
    kind = device.split(":")[0]
    memory = "peak_gpu" if kind == "cuda" else "added_rss"
    figures: Figures = {"device": device, "memory": memory}
    for way, first in FIRST_FITTED[kind].items():
        runs = growing(growth_at, sizes, way, device, bytes, limit=limit)
        figures[way] = {
            "runs": runs,
            "time_exponent": slope(runs, "seconds", first),
            "memory_exponent": slope(runs, memory, first),
            "fitted_from": first,
        }
    return figures


def growth_at(n: int, way: str, device: str, most: float) -> Figures:
    # The inverse in float64, B and its affinity, the normalized affinity in float64.
    if way == "with N x N" and 32 * n * n > most:
        return {"failed": f"needs about {32 * n * n / 2**30:.0f} GiB"}
    warm_up(device)
    X, y = subspaces(n)
    if device == "cpu":  # the libraries' own buffers
        closed_form(X[:1000], device)
    before = peak_resident()
    seconds, labels = timed(lambda: WAYS[way](X, device))
    return {
        "seconds": seconds,
        "error_percent": clustering_error(y, labels),
        "added_rss": peak_resident() - before,
        **gpu_peak(device),
    }


def slope(rows: list[Figures], key: str, first: int) -> float | None:
    """The exponent p of  key ~ N^p  by least squares on the logarithms, from N = first on."""
    fitted = [r for r in rows if r.get(key) and r["N"] >= first]
    if len(fitted) < 2:
        return None
    log_n, log_y = (np.log([r[name] for r in fitted]) for name in ("N", key))
    return float(np.polyfit(log_n, log_y, 1)[0])


# Every method -------------------------------------------------------------------------------


@benchmark
def memory(sizes: tuple[int, ...] = (1000, 2000, 4000)) -> list[Figures]:
    """Peak memory of every method.

    K = 5 subspaces of dimension 4 in 100 dimensions. Shown: the resident memory that the fit adds
    to a process that has everything imported and the data made, beside the estimate of the solver's
    memory, by which a fit is refused beforehand.
    """
    return [alone(memory_of, method, n) for method in METHODS for n in sizes]


def memory_of(method: str, n: int) -> Figures:
    warnings.simplefilter("ignore")
    data = synthetic(n, 5, 4, 100, noise=0.1, random_state=0)
    torch.linalg.eigh(torch.eye(64, dtype=torch.float64))  # libraries' own buffers
    before = peak_resident()
    model: Any = create(method, n_clusters=5, random_state=0, device="cpu", **FEW.get(method, {}))
    seconds, _ = timed(lambda: model.fit(data.X))
    estimate = getattr(model, "_memory", None)
    return {
        "method": method,
        "N": n,
        "peak_mib": (peak_resident() - before) / 2**20,
        "n_by_n_mib": n * n * 4 / 2**20,
        "estimate_mib": estimate and estimate(n, 100, 4) / 2**20,
        "seconds": seconds,
    }


# MNIST --------------------------------------------------------------------------------------


@benchmark
def mnist(device: str = "cpu", seeds: int = 5) -> Figures:
    """The closed form on scattering features of all 70,000 digits."""
    imports = peak_resident()
    X, y = samples.SETS["mnist-scattering"]()
    warm, before = warm_up(device, X.shape[1]), peak_resident()
    runs = []
    for seed in range(seeds):
        labels, figures = cluster_in_stages(X, 10, None, device, seed)
        score = {"error_percent": clustering_error(y, labels), "nmi": nmi(y, labels)}
        runs.append({"seed": seed, **figures, **score})
    errors = [run["error_percent"] for run in runs]
    ours = {
        "N": len(X),
        "d": X.shape[1],
        "error_mean": float(np.mean(errors)),
        "error_std": float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        "seconds": [run["seconds"] for run in runs],
        "seconds_from_affinity_to_labels": [sum(r["stages"][s] for s in LAST_STAGES) for r in runs],
        "runs": runs,
        "warm_up_seconds": warm,
        "rss_after_imports": imports,
        "rss_before": before,
        "peak_rss": peak_resident(),
        **gpu_peak(device),
    }
    return {"ours": ours}


@benchmark
def mnist_deep(device: str = "cuda", seeds: int = 5) -> Figures:
    """DCFSC on all 70,000 digits, exactly and in chunks of 4,096.

    Beside it stands the closed form on the pixels unchanged; both go through the same affinity and
    spectral step.
    """
    X, y = samples.SETS["mnist-images"]()
    common: Figures = {"n_clusters": 10, "device": device}
    pixels = ClosedFormSubspaceClustering(**common, random_state=0, representation="given")
    on_pixels = clustering_error(y, pixels.fit_predict(X))
    del pixels
    runs = []
    for seed in range(seeds):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        steps: Figures = {"batch_size": 4096, "pretrain_epochs": 6, "steps": 25, "verbose": False}
        model = DCFSC(**common, **steps, random_state=seed)
        seconds = timed(partial(model.fit, X))[0]
        run = {
            "seed": seed,
            "error": clustering_error(y, model.labels_),
            "seconds": seconds,
            "seconds_a_step": float(np.median(model.history_.column("seconds", "train"))),
            "latent_dim": model.latents_.shape[1],
            "peak_rss": peak_resident(),
            **gpu_peak(device),
        }
        runs.append(run)
    mean = float(np.mean([run["error"] for run in runs]))
    return {"N": len(y), "closed_form_on_pixels": on_pixels, "runs": runs, "error_mean": mean}
