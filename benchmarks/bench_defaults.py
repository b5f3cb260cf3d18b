"""The default on every dataset at hand: only the data and K are given, five seeds.

    DCFSC_DATA=... python benchmarks/bench_defaults.py --json results/benchmarks/defaults.json
    DCFSC_DATA=... python benchmarks/bench_defaults.py --mnist mnist.npy --device cuda ...

Beside it, marked as such: what each way to see the samples gives whatever the data say. ``--mnist``
takes the features that make_scattering.py writes; "mnist-images" are the same 70,000 digits as
pixels (long without a GPU: ``--only`` leaves them out). Subsets (ten and twenty people of Extended
Yale B, twenty objects of COIL-100, raw digits of MNIST) are there to see how much the choice of
samples matters. ``--part`` measures the default alone or the ways alone; ``--merge`` puts files
together, the later ones' figures in the place of the earlier ones', each with its machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import finish, parser

from dcfsc import ClosedFormSubspaceClustering, datasets
from dcfsc.errors import InputError
from dcfsc.metrics import clustering_error

SEEDS = range(5)
Samples = tuple[np.ndarray, np.ndarray]


def whole(name: str) -> Samples:
    data = datasets.load(name)
    assert data.y is not None
    return data.X, data.y


def classes(name: str, first: int, count: int) -> Samples:
    X, y = whole(name)
    chosen = (y >= first) & (y < first + count)
    return X[chosen], y[chosen] - first


def raw_mnist() -> Samples:
    X, y = whole("mnist")
    chosen = np.sort(np.random.default_rng(1).permutation(len(X))[:10_000])
    return X[chosen], y[chosen]


PROBLEMS: dict[str, Callable[[], Samples]] = {
    "orl": lambda: whole("orl"),
    "eyaleb": lambda: whole("eyaleb"),
    "coil100": lambda: whole("coil100"),
    "digits": lambda: whole("digits"),
    "eyaleb-10": lambda: classes("eyaleb", 0, 10),
    "eyaleb-20": lambda: classes("eyaleb", 15, 20),
    "coil100-20": lambda: classes("coil100", 0, 20),
    "mnist-raw": raw_mnist,
    "mnist-images": lambda: whole("mnist"),
}


def problems(args: Any) -> Iterator[tuple[str, Samples]]:
    for name, load in PROBLEMS.items():
        if args.only and name not in args.only.split(";"):
            continue
        try:
            yield name, load()
        except InputError as error:
            print(f"{name} is left out: {error}")
    if args.mnist:
        yield "mnist-scattering", (np.load(args.mnist).astype(np.float32), whole("mnist")[1])


def fit(X: np.ndarray, y: np.ndarray, device: str, seed: int, **options: Any) -> tuple[Any, float]:
    K = int(y.max()) + 1
    model = ClosedFormSubspaceClustering(K, device=device, random_state=seed, **options).fit(X)
    return model, clustering_error(y, model.labels_)


def chosen(model: ClosedFormSubspaceClustering) -> dict[str, str]:
    """What the data chose, as options of the estimator."""
    if model.features_ == "scattering":
        return {"features": "scattering"}
    return {
        "features": "given",
        "transformations": model.transformations_,
        "metric": model.metric_,
    }


def ways(X: np.ndarray) -> dict[str, dict[str, str]]:
    """Every way to see the samples that the data choose from, as options of the estimator."""
    names = {"none": "none", "metric": "neighbours", "metric twice": "neighbours-twice"}
    found = {name: {"features": "given", "metric": metric} for name, metric in names.items()}
    if X.ndim > 2:
        found["shifts+mirror"] = {"features": "given", "transformations": "shifts+mirror"}
        found["scattering"] = {"features": "scattering"}
    return found


def measure(X: np.ndarray, y: np.ndarray, device: str, part: str) -> dict[str, Any]:
    record: dict[str, Any] = {"N": len(X), "K": int(y.max()) + 1}
    if part != "ways":
        record |= seeds(X, y, device)
    if part != "seeds":
        for name, way in ways(X).items():
            record[f"with {name}"] = fit(X, y, device, 0, **way)[1]
    return record


def seeds(X: np.ndarray, y: np.ndarray, device: str) -> dict[str, Any]:
    """The default, with five seeds."""
    start = time.perf_counter()
    model, first = fit(X, y, device, SEEDS[0])
    seconds = time.perf_counter() - start
    # What the data choose does not depend on the seed, so it is chosen once.
    again = chosen(model)
    errors = [first] + [fit(X, y, device, s, **again)[1] for s in SEEDS[1:]]
    return {
        "mean": statistics.fmean(errors),
        "std": statistics.stdev(errors),
        "errors": errors,
        "features": model.features_,
        "transformations": model.transformations_,
        "metric": model.metric_,
        "stability": model.stability_,
        "seconds": seconds,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--device", default="auto")
    options.add_argument("--mnist", help=".npy of scattering features")
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--part", choices=("both", "seeds", "ways"), default="both")
    options.add_argument("--merge", nargs="+", type=Path, help="only put these files together")
    args = options.parse_args()
    figures: dict[str, Any] = {}
    for path in args.merge or ():
        record = json.loads(path.read_text())
        for name, row in record["figures"].items():
            figures.setdefault(name, {}).update({"machine": record["machine"], **row})
    if args.merge:
        finish(args, "defaults", figures)
        return
    for name, (X, y) in problems(args):
        figures[name] = measure(X, y, args.device, args.part)
        print(name, figures[name], flush=True)
        finish(args, "defaults", figures)  # after each: a long run may be stopped


if __name__ == "__main__":
    main()
