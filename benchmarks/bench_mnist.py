"""MNIST from scattering features: the closed form on all 70,000, and peers on what they can do.

    DCFSC_DATA=... python benchmarks/make_scattering.py mnist mnist.npy
    DCFSC_DATA=... python benchmarks/bench_mnist.py mnist.npy --device cuda \\
        --json results/benchmarks/mnist_gpu.json
    DCFSC_DATA=... python benchmarks/bench_mnist.py --deep --seeds 2 --device cuda \\
        --json results/benchmarks/mnist_deep_gpu.json

Ours runs with five seeds, in a process of its own. The peers run on the CPU, on growing random
subsets until one takes longer than --peer-limit seconds: scikit-learn's nearest-neighbour spectral
clustering, this library's SSCOMP, and elastic-net subspace clustering by scikit-learn's coordinate
descent, a sample at a time, as the public code does it.

``--deep`` trains DCFSC on all 70,000 images, exactly and in chunks of 4,096, beside the closed form
on the pixels unchanged; both go through the same affinity and spectral step.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_scale import cluster_in_stages, nearest_neighbors, warm_up
from measure import finish, gpu_peak, growing, in_a_process, parser, peak_rss, timed

K = 10
DEEP = {"batch_size": 4096, "pretrain_epochs": 6, "steps": 25, "verbose": False}


def load(features: Path, n: int | None = None) -> tuple[Any, np.ndarray]:
    """Features (N, d) in float32 and labels; a random subset of n with ``n``."""
    from dcfsc import datasets

    X = np.load(features)
    y = np.asarray(datasets.load("mnist").y)
    if len(X) != len(y):
        raise SystemExit(f"{features} has {len(X)} rows, but there are {len(y)} labels.")
    if n is not None and n < len(X):
        kept = np.sort(np.random.default_rng(0).permutation(len(X))[:n])
        X, y = X[kept], y[kept]
    return np.ascontiguousarray(X, dtype=np.float32), y


def scores(y: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    from dcfsc.metrics import clustering_error, nmi

    return {"error_percent": clustering_error(y, labels), "nmi": nmi(y, labels)}


def ours(args: argparse.Namespace) -> dict[str, Any]:
    import dcfsc.estimators  # noqa: F401

    imports = peak_rss()
    X, y = load(args.features)
    warm, before = warm_up(args.device, X.shape[1]), peak_rss()
    runs = []
    for seed in range(args.seeds):
        labels, figures = cluster_in_stages(X, K, None, args.device, seed)
        runs.append({"seed": seed, **figures, **scores(y, labels)})
    errors = [run["error_percent"] for run in runs]
    last = ("search", "affinity", "embedding", "assignment")
    return {
        "N": len(X),
        "d": X.shape[1],
        "error_mean": float(np.mean(errors)),
        "error_std": float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        "seconds": [run["seconds"] for run in runs],
        "seconds_from_affinity_to_labels": [sum(r["stages"][s] for s in last) for r in runs],
        "runs": runs,
        "warm_up_seconds": warm,
        "rss_after_imports": imports,
        "rss_before": before,
        "peak_rss": peak_rss(),
        **gpu_peak(args.device),
    }


def matching_pursuit(X: np.ndarray) -> np.ndarray:
    from dcfsc import SSCOMP

    return SSCOMP(K, random_state=0).fit_predict(X)


def elastic_net(X: np.ndarray, tau: float = 0.9, gamma_0: float = 50.0) -> np.ndarray:
    """min_c tau |c|_1 + (1 - tau)/2 |c|^2 + gamma/2 |x_j - X'c|^2, c_j = 0, for every sample.

    gamma = gamma_0 times the value below which c = 0, tau / max_i |x_i . x_j|; You et al. (2016)
    take tau = 0.9 and gamma_0 = 50.
    """
    import scipy.sparse as sp
    from sklearn.cluster import SpectralClustering
    from sklearn.linear_model import ElasticNet

    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    n, d = X.shape
    columns = np.asfortranarray(X.T)
    codes = []
    for j in range(n):
        target = columns[:, j].copy()
        columns[:, j] = 0.0
        gamma = gamma_0 * tau / np.abs(target @ columns).max()
        model = ElasticNet(alpha=1.0 / (d * gamma), l1_ratio=tau, fit_intercept=False)
        codes.append(sp.csr_array(model.fit(columns, target).coef_[None, :]))
        columns[:, j] = target
    C = abs(sp.vstack(codes, format="csr"))
    return SpectralClustering(K, affinity="precomputed", random_state=0).fit_predict(C + C.T)


PEERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "nearest-neighbour spectral clustering (scikit-learn)": lambda X: nearest_neighbors(X, K),
    "SSCOMP (this library)": matching_pursuit,
    "elastic net (scikit-learn's solver)": elastic_net,
}


def one_peer(name: str, args: argparse.Namespace) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    X, y = load(args.features, args.n)
    seconds, labels = timed(lambda: PEERS[name](X))
    return {"seconds": seconds, **scores(y, labels), "peak_rss": peak_rss()}


def deep(args: argparse.Namespace) -> None:
    """DCFSC with the library's own network for 28 x 28 images."""
    import torch

    from dcfsc import DCFSC, ClosedFormSubspaceClustering, datasets

    data = datasets.load("mnist")
    y = np.asarray(data.y)
    common: dict[str, Any] = {"n_clusters": K, "device": args.device}
    pixels = ClosedFormSubspaceClustering(**common, random_state=0, representation="given")
    on_pixels = scores(y, pixels.fit_predict(data.X))["error_percent"]
    figures: dict[str, Any] = {"N": len(y), "closed_form_on_pixels": on_pixels, "runs": []}
    del pixels
    for seed in range(args.seeds):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        model = DCFSC(**common, **DEEP, random_state=seed)
        seconds = timed(lambda model=model: model.fit(data.X))[0]
        run = {
            "seed": seed,
            "error": scores(y, model.labels_)["error_percent"],
            "seconds": seconds,
            "seconds_a_step": float(np.median(model.history_.column("seconds", "train"))),
            "latent_dim": model.latents_.shape[1],
            "peak_rss": peak_rss(),
            **gpu_peak(args.device),
        }
        figures["runs"].append(run)
        figures["error_mean"] = float(np.mean([run["error"] for run in figures["runs"]]))
        finish(args, "mnist_deep", figures)


def main() -> None:
    options = parser(__doc__, device="cpu")
    options.add_argument("features", type=Path, nargs="?", help=".npy, a row for each image")
    options.add_argument("--deep", action="store_true", help="DCFSC on the images instead")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--no-peers", action="store_true")
    options.add_argument("--peer-limit", type=float, default=600.0, metavar="SECONDS")
    options.add_argument("--peer-sizes", default="1000,2000,5000,10000,20000,70000")
    options.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options.add_argument("--n", type=int, help=argparse.SUPPRESS)
    options.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.deep:
        deep(args)
        return
    if args.features is None:
        options.error("give the .npy file of features, or --deep")
    if args.peer:
        print(json.dumps(one_peer(args.peer, args)))
        return
    if args.ours:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        print(json.dumps(ours(args)))
        return
    run = [str(args.features), "--ours", "--device", args.device, "--seeds", str(args.seeds)]
    figures: dict[str, Any] = {"ours": in_a_process(__file__, run), "peers": {}}
    for name in () if args.no_peers else PEERS:
        arguments = [str(args.features), "--peer", name, "--n"]
        rows = growing(__file__, name, args.peer_sizes, arguments, args.peer_limit)
        figures["peers"][name] = rows
    finish(args, "mnist", figures)


if __name__ == "__main__":
    main()
