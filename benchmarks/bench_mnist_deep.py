"""DCFSC on all 70,000 MNIST images, trained exactly in chunks, beside the closed form on pixels.

    DCFSC_DATA=... python benchmarks/bench_mnist_deep.py --device cuda \\
        --json results/benchmarks/mnist_deep_gpu.json

The network is the library's own for 28 x 28 images. Both go through the same affinity and spectral
step; the closed form sees the pixels as they are, without transformations.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from measure import finish, parser, peak_rss

from dcfsc import DCFSC, ClosedFormSubspaceClustering, datasets
from dcfsc.metrics import clustering_error


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--device", default="auto")
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--steps", type=int, default=25)
    options.add_argument("--batch-size", type=int, default=4096)
    options.add_argument("--samples", type=int, help="only the first ones")
    args = options.parse_args()
    data = datasets.load("mnist")
    X, y = data.X[: args.samples], data.y[: args.samples]  # type: ignore[index]
    common: dict[str, Any] = {"n_clusters": 10, "device": args.device}
    pixels = ClosedFormSubspaceClustering(**common, random_state=0, transformations="none").fit(X)
    figures: dict[str, Any] = {
        "N": len(X),
        "closed_form_on_pixels": clustering_error(y, pixels.labels_),
        "runs": [],
    }
    del pixels
    for seed in range(args.seeds):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        model = DCFSC(
            **common,
            random_state=seed,
            batch_size=args.batch_size,
            pretrain_epochs=args.epochs,
            steps=args.steps,
            verbose=False,
        ).fit(X)
        steps = model.history_.column("seconds", "train")
        figures["runs"].append(
            {
                "seed": seed,
                "error": clustering_error(y, model.labels_),
                "seconds": time.perf_counter() - start,
                "seconds_a_step": sorted(steps)[len(steps) // 2],
                "latent_dim": model.latents_.shape[1],
                "peak_gpu": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
                "peak_rss": peak_rss(),
            }
        )
        errors = [run["error"] for run in figures["runs"]]
        figures["error_mean"] = sum(errors) / len(errors)
        finish(args, "mnist_deep", figures)


if __name__ == "__main__":
    main()
