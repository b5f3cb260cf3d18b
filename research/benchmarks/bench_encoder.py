"""A folder of photographs by an encoder's features: the default beside its peers, on the same rows.

    python -m research.benchmarks.bench_encoder FOLDER \
        --json results/benchmarks/encoder_cifar10.json

FOLDER has one sub-folder a class, which only the scores see. The peers get the same features at
unit length: k-means with ten starts, and EVoC, which picks its own number of clusters, if it is
installed (``pip install evoc``). ``--head`` trains ``ViewClustering`` on them as well, three
seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from dcfsc import ClosedFormSubspaceClustering, EncoderFeatures, ViewClustering, io
from dcfsc.metrics import clustering_error, nmi

from .measure import finish, parser, timed


def evoc(Z: np.ndarray) -> np.ndarray:
    from evoc import EVoC

    return EVoC().fit_predict(Z)


def scores(y: np.ndarray, labels: np.ndarray, seconds: float) -> dict[str, Any]:
    found = len(np.unique(labels[labels >= 0]))
    return {
        "nmi": nmi(y, labels),
        "error": clustering_error(y, labels) if found == y.max() + 1 else None,
        "clusters": found,
        "seconds": seconds,
    }


def main() -> None:
    options = parser(__doc__, device="auto")
    options.add_argument("folder")
    options.add_argument("--encoder", help="as EncoderFeatures takes it; EfficientNet-Lite0 if not")
    options.add_argument("--head", action="store_true", help="train a head on the features too")
    args = options.parse_args()
    data = io.load(args.folder)
    assert data.y is not None
    y, K = data.y, data.n_classes
    encoder = EncoderFeatures(args.encoder, device=args.device, cache=None)
    seconds, Z = timed(lambda: encoder.fit_transform(data.paths))
    figures: dict[str, Any] = {
        "N": len(y),
        "K": K,
        "encoder": encoder.encoder_,
        "features": {"width": Z.shape[1], "seconds": seconds},
    }
    Z = normalize(Z)
    closed = ClosedFormSubspaceClustering(K, device=args.device, random_state=0)
    methods: dict[str, Callable[[], np.ndarray]] = {
        "default": lambda: closed.fit_predict(Z),
        "k-means": lambda: KMeans(K, n_init=10, random_state=0).fit_predict(Z),
        "EVoC": lambda: evoc(Z),
    }
    for seed in range(3 if args.head else 0):
        head = ViewClustering(K, device=args.device, random_state=seed, verbose=False)
        methods[f"head, seed {seed}"] = partial(head.fit_predict, Z)
    for name, run in methods.items():
        try:
            seconds, labels = timed(run)
        except ImportError:
            continue
        figures[name] = scores(y, np.asarray(labels), seconds)
        finish(args, "encoder", figures)


if __name__ == "__main__":
    main()
