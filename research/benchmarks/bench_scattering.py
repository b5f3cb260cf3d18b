"""Methods of the literature on scattering features, with the settings of their authors.

    DCFSC_DATA=... python -m research.benchmarks.bench_scattering mnist ensc \
        --side 32 --device cuda \
        --set l1_ratio=0.9 alpha=200 affinity=nearest_codes \
        --set l1_ratio=0.9 alpha=200 affinity=nearest_codes assign=filtered \
        --json results/benchmarks/ensc_mnist.json
    DCFSC_DATA=... python -m research.benchmarks.bench_scattering mnist ssc-omp \
        --side 32 --device cuda \
        --set scale=none affinity=symmetric --set scale=none affinity=symmetric assign=filtered \
        --json results/benchmarks/ssc_omp_mnist.json
    DCFSC_DATA=... python -m research.benchmarks.bench_scattering coil100 a-dssc --center \
        --set --set eta1=1 eta2=0.01 \
        --set eta1=1 eta2=0.01 assign=filtered --set assign=filtered \
        --json results/benchmarks/a_dssc_coil100.json

The features are not scaled to unit length, as methods do so themselves where they want it. One fit
each: clustering error, NMI, seconds, coefficients and edges a sample, peak memory. ``--set`` may be
repeated for several settings; which of them is best is then a choice by labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfsc.estimators import registry
from dcfsc.metrics import clustering_error, nmi

from . import samples
from .measure import finish, gpu_peak, parser, peak_rss, timed


def value_of(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def measure(X: np.ndarray, y: np.ndarray, method: str, device: str, pairs: list[str]) -> Any:
    settings = {name: value_of(value) for name, _, value in (p.partition("=") for p in pairs)}
    K = len(np.unique(y))
    model = registry.create(method, n_clusters=K, device=device, random_state=0, **settings)
    seconds, _ = timed(lambda: model.fit(X))
    C = model.coefficients_.sparse
    return {
        "settings": settings,
        "error": clustering_error(y, model.labels_),
        "nmi": nmi(y, model.labels_),
        "seconds": seconds,
        "rounds": model.n_iter_,
        "coefficients_a_sample": None if C is None else C.nnz / len(X),
        "edges_a_sample": getattr(model.affinity_matrix_, "nnz", X.shape[0] ** 2) / len(X),
        **gpu_peak(device),
        "peak_rss": peak_rss(),
    }


def main() -> None:
    options = parser(__doc__, device="cpu")
    options.add_argument("data", help="a dataset or set of images")
    options.add_argument("method", choices=list(registry.METHODS))
    options.add_argument("--set", nargs="*", action="append", default=[], metavar="NAME=VALUE")
    options.add_argument("--center", action="store_true", help="subtract the features' mean")
    options.add_argument("--side", type=int, help="resize the images to so many pixels a side")
    args = options.parse_args()
    X, y = samples.scattering(args.data, args.center, unit_rows=False, side=args.side)
    figures: dict[str, Any] = {"data": args.data, "method": args.method, "center": args.center}
    figures |= {"side": args.side, "fits": []}
    for pairs in args.set or [[]]:
        figures["fits"].append(measure(X, y, args.method, args.device, pairs))
        finish(args, "scattering", figures)


if __name__ == "__main__":
    main()
