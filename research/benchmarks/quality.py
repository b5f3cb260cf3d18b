"""How good the default is when only the data and K are given; labels only score."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import scipy.io
import torch
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import roc_auc_score

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import best_map, clustering_error, confusion, nmi
from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import Recipe
from dcfsc.representations.counts import Counts
from dcfsc.spectral import cut_share
from dcfsc.spectral.assignment import grouped_rows
from dcfsc.spectral.kmeans import kmeans
from research.data import data_root

from . import samples
from .measure import Figures, Rows, benchmark, timed

SEEDS = range(5)
DEFAULTS = (
    *("orl", "eyaleb", "coil100", "digits", "mnist-scattering"),
    *("eyaleb-10", "eyaleb-20", "coil100-20", "mnist-raw", "mnist-images"),
)


@benchmark
def defaults(data: tuple[str, ...] = DEFAULTS, device: str = "auto") -> Rows:
    """The default in five random orders of the samples, with a seed for each.

    The random parts that the choice of a representation is made on depend on the order, so it is
    made again for each. Beside the default, in the first order: the error of every representation,
    whichever is chosen.
    """
    for name, (X, y) in samples.load(data):
        fits = [fit(X, y, device, seed) for seed in SEEDS]
        record: Figures = {
            "N": len(X),
            "K": int(y.max()) + 1,
            "mean": statistics.fmean(f["error"] for f in fits),
            "std": statistics.stdev(f["error"] for f in fits),
            "nmi": statistics.fmean(f["nmi"] for f in fits),
            "seconds": statistics.median(f["seconds"] for f in fits),
            "fits": fits,
        }
        for other in representations(X):
            record[f"with {other}"] = fit(X, y, device, 0, representation=other)["error"]
        yield name, record


def fit(X: np.ndarray, y: np.ndarray, device: str, seed: int, **options: Any) -> Figures:
    """One fit, with the samples in the seed's order."""
    order, K = np.random.default_rng(seed).permutation(len(X)), int(y.max()) + 1
    model = ClosedFormSubspaceClustering(K, device=device, random_state=seed, **options)
    seconds, _ = timed(lambda: model.fit(X[order]))
    return {
        "error": clustering_error(y[order], model.labels_),
        "nmi": nmi(y[order], model.labels_),
        "representation": model.representation_,
        "stability": model.stability_,
        "seconds": seconds,
    }


def representations(X: np.ndarray) -> list[str]:
    """The names of the representations that are compared on such samples."""
    return ["given", "metric", "metric-twice", *(["scattering"] if X.ndim > 2 else [])]


# Where mistakes are ---------------------------------------------------------------------------

BINS = 10
QUARTERS = ("first", "second", "third", "last")
CONFIDENCE = {
    "digits": ("digits", None, None),
    "ORL": ("orl", None, None),
    "COIL part": ("coil100", 20, None),
    "Yale part": ("eyaleb", 15, None),
    "MNIST part": ("mnist-images", None, 3000),
}


@benchmark
def confidence(device: str = "cpu") -> Rows:
    """Whether confidence tells where mistakes are.

    Each set is clustered whole, and again by its first half (in random order), which then labels
    the second. Of either: the error in the quarters of the samples from the most to the least
    confident; ``area``, the probability that a right sample is more confident than a wrong one
    (area under the curve); ``calibration``, the mean distance of confidence and accuracy over ten
    equal bins; and ``next_best``, the share of wrong samples whose next best cluster is the right
    one.
    """
    for name, (source, classes, most) in CONFIDENCE.items():
        X, y = samples.SETS[source]()
        order = np.random.default_rng(0).permutation(len(y))
        order = order[y[order] < (classes or len(y))][:most]
        X, y = X[order], y[order]
        K, half = len(np.unique(y)), len(y) // 2
        model, classes_of = labeled(X, y, K, device)
        labels, second = classes_of[model.labels_], classes_of[model.next_best_]
        whole = trust(labels == y, model.confidence_, second == y)
        model, classes_of = labeled(X[:half], y[:half], K, device)
        p = model.predict_proba(X[half:])
        labels, second = classes_of[np.argsort(-p, axis=1, kind="stable")[:, :2].T]
        unseen = trust(labels == y[half:], p.max(axis=1), second == y[half:])
        yield name, {"N": len(y), "K": K, "fitted": whole, "unseen": unseen}


def labeled(X: np.ndarray, y: np.ndarray, K: int, device: str) -> tuple[Any, np.ndarray]:
    """A fitted model, and the class that each of its clusters stands for."""
    model = ClosedFormSubspaceClustering(K, random_state=0, device=device).fit(X)
    classes = np.full(K, -1)
    classes[model.labels_] = best_map(y, model.labels_)
    return model, classes


def trust(right: np.ndarray, confidence: np.ndarray, second: np.ndarray) -> Figures:
    order = np.argsort(-confidence, kind="stable")
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    apart = [
        abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    mixed = 0 < right.mean() < 1
    return {
        "error": 100 * float(1 - right.mean()),
        "confidence": float(confidence.mean()),
        "quarters": {
            name: 100 * float(1 - right[part].mean())
            for name, part in zip(QUARTERS, np.array_split(order, 4), strict=True)
        },
        "area": float(roc_auc_score(right, confidence)) if mixed else None,
        "calibration": float(sum(apart)),
        "next_best": float(second[~right].mean()) if mixed else None,
    }


# Whether the classes are the clusters -------------------------------------------------------

STARTS = 40


@benchmark
def cuts(data: tuple[str, ...] = ("digits", "mnist-raw", "fashion-mnist")) -> Rows:
    """What the default's partition, another one and the classes cut.

    The last step of the default is k-means on the rows of the spectral embedding. Here it starts
    forty times with a single random start each, without exchanges. ``lowest`` is the partition of
    the lowest sum of squares, ``next`` the lowest one that differs from it on a sample in a hundred
    at least, and ``classes`` the true one. ``excess`` is how far the sum of squares lies above the
    lowest, and ``cut`` the share of the graph's affinity that links different clusters, both in
    percent. ``clusters`` has a row for each class: how many of its samples are in each cluster of
    the default.
    """
    for name, (X, y) in samples.load(data):
        K = len(np.unique(y))
        model = ClosedFormSubspaceClustering(K, device="cpu", random_state=0).fit(X)
        embedding = model._partition.embedding
        assert embedding is not None
        V = grouped_rows(embedding, K, "filtered").numpy()
        partitions = lowest_partitions(V, K)
        lowest = sum_of_squares(V, partitions["lowest"])
        yield (
            name,
            {
                "N": len(X),
                "K": K,
                "representation": model.representation_,
                "error": clustering_error(y, model.labels_),
                "clusters": confusion(y, model.labels_).tolist(),
                **{
                    kind: {
                        "excess": 100 * (sum_of_squares(V, labels) / lowest - 1),
                        "cut": 100 * cut_share(model.affinity_matrix_, labels),
                        "error": clustering_error(y, labels),
                    }
                    for kind, labels in (partitions | {"classes": y}).items()
                },
            },
        )


def lowest_partitions(V: np.ndarray, K: int) -> dict[str, np.ndarray]:
    """The lowest that single starts end in, and the lowest of another kind, if there is one."""
    rows = torch.from_numpy(V)
    ends = [kmeans(rows, K, np.random.RandomState(seed), 1) for seed in range(STARTS)]
    ends.sort(key=lambda labels: sum_of_squares(V, labels))
    others = [labels for labels in ends if clustering_error(ends[0], labels) >= 1.0]
    return dict(zip(("lowest", "next"), ends[:1] + others[:1], strict=False))


def sum_of_squares(V: np.ndarray, labels: np.ndarray) -> float:
    """sum_i |v_i - c|^2 for the mean c of the cluster of each row of V (n, p)."""
    centers = np.stack([V[labels == k].mean(axis=0) for k in np.unique(labels)])
    return float(((V - centers[labels]) ** 2).sum())


# Word counts ----------------------------------------------------------------------------------


@benchmark
def counts(data: tuple[str, ...] = ("BASEHOCK", "PCMAC", "RELATHE")) -> Rows:
    """Word counts of two kinds of newsgroup posts: the default beside its peers.

    counts/ under $DCFSC_DATA holds the files NAME.mat (X, Y). The peers are Ward's method on the
    counts at unit length and on the same weights as the default, and the default's own
    representation for other vectors, "given".
    """
    for name in data:
        arrays = scipy.io.loadmat(data_root() / "counts" / f"{name}.mat")
        X = scipy.sparse.csr_matrix(arrays["X"]).astype(np.float32)
        y = np.unique(arrays["Y"].ravel(), return_inverse=True)[1]
        dense = torch.from_numpy(X.toarray())
        weighted = Counts(Recipe(tuple(dense.shape[1:]), 2))
        by_weight = weighted.fit_transform(dense)
        common: Any = {"n_clusters": 2, "random_state": 0, "device": "cpu"}
        model = ClosedFormSubspaceClustering(**common).fit(X)
        given = ClosedFormSubspaceClustering(**common, representation="given").fit(X)
        ward = AgglomerativeClustering(2)
        labels = {
            "default": model.labels_,
            "given": given.labels_,
            "ward": ward.fit_predict(unit_rows(dense).numpy()),
            "ward, weighted": ward.fit_predict(by_weight.numpy()),
        }
        errors = {kind: clustering_error(y, found) for kind, found in labels.items()}
        yield name, {"samples": X.shape[0], "representation": model.representation_, **errors}
