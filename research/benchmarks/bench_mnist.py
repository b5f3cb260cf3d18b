"""MNIST: the closed form on scattering features of all 70,000 digits, or DCFSC on the images.

    DCFSC_DATA=... python -m research.benchmarks.bench_mnist --device cuda \\
        --json results/benchmarks/mnist_gpu.json
    DCFSC_DATA=... python -m research.benchmarks.bench_mnist --deep --seeds 2 --device cuda \\
        --json results/benchmarks/mnist_deep_gpu.json

``--deep`` trains DCFSC on all 70,000 images, exactly and in chunks of 4,096, beside the closed form
on the pixels unchanged; both go through the same affinity and spectral step.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np

from . import samples
from .bench_scale import cluster_in_stages, warm_up
from .measure import finish, gpu_peak, parser, peak_rss, timed

K = 10
DEEP: dict[str, Any] = {"batch_size": 4096, "pretrain_epochs": 6, "steps": 25, "verbose": False}


def scores(y: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    from dcfsc.metrics import clustering_error, nmi

    return {"error_percent": clustering_error(y, labels), "nmi": nmi(y, labels)}


def ours(args: argparse.Namespace) -> dict[str, Any]:
    import dcfsc.estimators  # noqa: F401

    imports = peak_rss()
    X, y = samples.SETS["mnist-scattering"]()
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


def deep(args: argparse.Namespace) -> None:
    """DCFSC with the library's own network for 28 x 28 images."""
    import torch

    from dcfsc import DCFSC, ClosedFormSubspaceClustering
    from research import data as datasets

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
        seconds = timed(partial(model.fit, data.X))[0]
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
    options.add_argument("--deep", action="store_true", help="DCFSC on the images instead")
    options.add_argument("--seeds", type=int, default=5)
    args = options.parse_args()
    if args.deep:
        deep(args)
    else:
        finish(args, "mnist", {"ours": ours(args)})


if __name__ == "__main__":
    main()
