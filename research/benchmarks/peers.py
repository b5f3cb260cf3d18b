"""dcfsc beside other clustering libraries, and beside methods of the literature."""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.cluster
from sklearn.preprocessing import normalize

from dcfsc import ClosedFormSubspaceClustering, EncoderFeatures, ViewClustering, io
from dcfsc.estimators import registry
from dcfsc.metrics import clustering_error, nmi
from research.alone import alone
from research.data import data_root
from research.machine import peak_resident

from . import samples
from .measure import Figures, Rows, benchmark, gpu_peak, timed

SETS = ("digits", "orl", "eyaleb-10", "coil100-20", "mnist-5000", "photographs")
SEEDS = range(3)
WARM_UP = 200
Cluster = Callable[[np.ndarray, int, int], Any]  # samples, K, seed -> labels


def ours(name: str, **options: Any) -> Cluster:
    make = partial(registry.create, name, **{"device": "cpu", **options})
    return lambda X, K, seed: make(n_clusters=K, random_state=seed).fit_predict(X)


def scikit_learn(name: str, takes_k: bool = True, **options: Any) -> Cluster:
    def run(X: np.ndarray, K: int, seed: int) -> Any:
        given = {"n_clusters": K, "random_state": seed} if takes_k else {}
        return getattr(sklearn.cluster, name)(**given, **options).fit_predict(X)

    return run


def evoc(X: np.ndarray, K: int | None = None, seed: int | None = None) -> Any:
    from evoc import EVoC

    return EVoC(random_state=seed, **({"approx_n_clusters": K} if K else {})).fit_predict(X)


def sub_k_means(X: np.ndarray, K: int, seed: int) -> Any:
    from clustpy.centroid import SubKmeans

    return SubKmeans(K, random_state=seed).fit(X).labels_


METHODS: dict[str, Cluster] = {
    "dcfsc": ours("closed-form"),
    "dcfsc --fast": ours("closed-form", representation="given", assign="kmeans"),
    "SSC-OMP (ours)": ours("ssc-omp"),
    "EnSC (ours)": ours("ensc"),
    "KMeans": scikit_learn("KMeans", n_init=10),
    "SpectralClustering": scikit_learn("SpectralClustering", affinity="nearest_neighbors"),
    "HDBSCAN": scikit_learn("HDBSCAN", takes_k=False, copy=True),
    "EVoC": lambda X, K, seed: evoc(X, seed=seed),
    "EVoC with K": evoc,
    "SubKmeans (ClustPy)": sub_k_means,
}
TRAINED = {"views": ours("views", device="auto", verbose=False)}
IMAGES = ("dcfsc", "dcfsc --fast", *TRAINED)  # these take images as images


@benchmark
def peers(data: tuple[str, ...] = SETS, limit: float = 600.0) -> Rows:
    """dcfsc beside other clustering libraries, on the same samples, in one run.

    Every method runs in a process of its own with one seed after the other, and first, untimed, on
    200 samples, so that nothing is compiled inside the times. For each seed all methods get the
    same samples in the same random order. ``added_mib`` is the memory that the fits add to the
    imports, the data and the untimed fit, at their peak. A method that is not finished after
    ``--limit`` seconds is stopped.

    dcfsc gets images as images and nothing but K. Every other method gets the same samples
    flattened and scaled to unit length, and its library's own defaults. HDBSCAN and EVoC choose the
    number of clusters; "EVoC with K" is told it. What they call noise is scored as one more
    cluster. SSC-OMP and EnSC are this library's implementations. EVoC and ClustPy are left out
    where they are not installed (``pip install evoc clustpy``; ClustPy needs a C compiler).
    """
    return compared(data, METHODS, limit)


@benchmark
def peers_trained(data: tuple[str, ...] = SETS, limit: float = 600.0) -> Rows:
    """Learning from views, measured as ``peers``, on a GPU if there is one, without a warm-up."""
    return compared(data, TRAINED, limit)


def compared(names: Sequence[str], methods: dict[str, Cluster], limit: float) -> Rows:
    for name, (X, y) in samples.load(names):
        row: Figures = {"N": len(X), "K": len(np.unique(y)), "methods": {}}
        for method in methods:
            row["methods"][method] = alone(every_seed, name, method, limit=limit)
            print(name, method, row["methods"][method].get("failed", ""), file=sys.stderr)
        yield name, row


def every_seed(data: str, method: str) -> Figures:
    """Every seed of a method on a set: the scores, seconds and peak memory."""
    warnings.simplefilter("ignore")
    X, y = samples.SETS[data]()
    K, cluster = len(np.unique(y)), (METHODS | TRAINED)[method]
    X = X if method in IMAGES else normalize(X.reshape(len(X), -1)).astype(np.float32)
    orders = [np.random.default_rng(seed).permutation(len(X)) for seed in SEEDS]
    if method in METHODS:
        cluster(X[orders[0][:WARM_UP]], min(K, WARM_UP // 10), 0)
    before, runs = peak_resident(), []
    for seed, order in zip(SEEDS, orders, strict=True):
        used = time.process_time()
        seconds, partition = timed(partial(cluster, X[order], K, seed))
        used, labels = time.process_time() - used, np.asarray(partition)
        runs.append(
            {
                "error": clustering_error(y[order], labels),
                "nmi": nmi(y[order], labels),
                "clusters": len(np.unique(labels[labels >= 0])),
                "noise_percent": 100 * float(np.mean(labels < 0)),
                "seconds": seconds,
                "cpu_seconds": used,
            }
        )
    record: Figures = {}
    for key in runs[0]:
        values = [run[key] for run in runs]
        record[key] = {"mean": statistics.fmean(values), "std": statistics.stdev(values)}
    peak = peak_resident()
    return record | {"added_mib": (peak - before) / 2**20, "peak_mib": peak / 2**20}


# Methods of the literature ------------------------------------------------------------------


@benchmark
def scattering(
    data: str,
    method: str,
    settings: tuple[str, ...] = ("",),
    center: bool = False,
    side: int = 0,
    device: str = "cpu",
) -> Figures:
    """A method of the literature on scattering features, with the settings of its authors.

    The features are not scaled to unit length, as methods do so themselves where they want it;
    ``--center`` subtracts their mean, ``--side`` resizes the images to so many pixels a side. One
    fit for each of ``--settings``, which are "NAME=VALUE NAME=VALUE"; which of them is best is then
    a choice by labels.
    """
    X, y = samples.scattering(data, center, unit_rows=False, side=side or None)
    fits = [fit_of(X, y, method, device, text.split()) for text in settings]
    return {"data": data, "method": method, "center": center, "side": side or None, "fits": fits}


def fit_of(X: np.ndarray, y: np.ndarray, method: str, device: str, pairs: list[str]) -> Figures:
    settings = {name: value_of(value) for name, _, value in (p.partition("=") for p in pairs)}
    K = len(np.unique(y))
    model = registry.create(method, n_clusters=K, device=device, random_state=0, **settings)
    seconds, _ = timed(lambda: model.fit(X))
    C = scipy.sparse.csr_array(model.coefficients_.matrix())
    return {
        "settings": settings,
        "error": clustering_error(y, model.labels_),
        "nmi": nmi(y, model.labels_),
        "seconds": seconds,
        "rounds": model.n_iter_,
        "coefficients_a_sample": None if C is None else C.nnz / len(X),
        "edges_a_sample": getattr(model.affinity_matrix_, "nnz", X.shape[0] ** 2) / len(X),
        **gpu_peak(device),
        "peak_rss": peak_resident(),
    }


def value_of(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


# Photographs by an encoder ------------------------------------------------------------------


@benchmark
def encoder(folder: str, device: str = "auto", head: bool = False, name: str = "lite0") -> Figures:
    """A folder of photographs by an encoder's features: the default beside its peers.

    The folder, below $DCFSC_DATA or anywhere, has one sub-folder a class, which only the scores
    see. ``--name`` is the encoder's. The peers get the same features at unit length: k-means with
    ten starts, and EVoC, which picks its own number of clusters, if it is installed. ``--head``
    trains ``ViewClustering`` on them as well, three seeds.
    """
    data = io.load(data_root() / folder, labels="folders")
    assert data.y is not None
    y, K = data.y, data.n_classes
    features = EncoderFeatures(name, device=device, cache=None)
    seconds, Z = timed(lambda: features.fit_transform(data.paths))
    figures: Figures = {
        "N": len(y),
        "K": K,
        "encoder": features.encoder_,
        "features": {"width": Z.shape[1], "seconds": seconds},
    }
    Z = normalize(Z)
    closed = ClosedFormSubspaceClustering(K, device=device, random_state=0)
    k_means = sklearn.cluster.KMeans(K, n_init=10, random_state=0)
    methods: dict[str, Callable[[np.ndarray], Any]] = {
        "default": closed.fit_predict,
        "k-means": k_means.fit_predict,
        "EVoC": evoc,
    }
    for seed in range(3 if head else 0):
        model = ViewClustering(K, device=device, random_state=seed, verbose=False)
        methods[f"head, seed {seed}"] = model.fit_predict
    for title, cluster in methods.items():
        try:
            seconds, partition = timed(partial(cluster, Z))
        except ImportError:
            continue
        labels = np.asarray(partition)
        clusters = len(np.unique(labels[labels >= 0]))
        figures[title] = {
            "nmi": nmi(y, labels),
            "error": clustering_error(y, labels) if clusters == y.max() + 1 else None,
            "clusters": clusters,
            "seconds": seconds,
        }
    return figures
