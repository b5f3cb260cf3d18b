"""The default on every dataset at hand: only the data and K are given, five seeds.

    DCFSC_DATA=... python benchmarks/bench_defaults.py --json results/benchmarks/defaults.json
    DCFSC_DATA=... python benchmarks/bench_defaults.py --mnist mnist.npy --device cuda ...

Beside it, one seed each: the error of every representation, whichever is chosen. ``--mnist`` takes
the features that make_scattering.py writes; "mnist-images" are the same 70,000 digits as pixels
(long without a GPU: ``--only`` leaves them out). Subsets show how much the choice of samples
matters. ``--part`` measures the default or the representations alone; ``--merge`` puts files
together, later figures in the place of earlier ones, each with its machine.

    python benchmarks/bench_defaults.py --shuffled --only "digits;orl" --json ...

The samples in another random order for each seed: the random parts that the choice of a
representation is made on are then others too. Where candidates are
close, the choice may be another one.

    python benchmarks/bench_defaults.py --digits --json results/benchmarks/digits_cpu.json

Digits alone: the default and DCFSC on all of them and on five random halves, with the other half
predicted, beside scikit-learn's k-means and nearest-neighbour spectral clustering.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import finish, parser, timed

from dcfsc import DCFSC, ClosedFormSubspaceClustering, datasets
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
    **{name: partial(whole, name) for name in ("orl", "eyaleb", "coil100", "digits")},
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


def representations(X: np.ndarray) -> list[str]:
    """The names of the representations that are tried on such samples."""
    images = ["shifts+mirror", "scattering"] if X.ndim > 2 else []
    return ["given", "metric", "metric-twice", *images]


def measure(X: np.ndarray, y: np.ndarray, device: str, part: str) -> dict[str, Any]:
    record: dict[str, Any] = {"N": len(X), "K": int(y.max()) + 1}
    if part != "representations":
        record |= seeds(X, y, device)
    if part != "seeds":
        for name in representations(X):
            record[f"with {name}"] = fit(X, y, device, 0, representation=name)[1]
    return record


def seeds(X: np.ndarray, y: np.ndarray, device: str) -> dict[str, Any]:
    """The default, with five seeds."""
    seconds, (model, first) = timed(lambda: fit(X, y, device, SEEDS[0]))
    # The choice of the representation does not depend on the seed, so it is made once.
    again = model.representation_
    errors = [first] + [fit(X, y, device, s, representation=again)[1] for s in SEEDS[1:]]
    return {
        "mean": statistics.fmean(errors),
        "std": statistics.stdev(errors),
        "errors": errors,
        "representation": model.representation_,
        "stability": model.stability_,
        "seconds": seconds,
    }


def shuffled(X: np.ndarray, y: np.ndarray, device: str) -> dict[str, Any]:
    """The default, with the samples in five random orders and a choice for each."""
    found = []
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(X))
        found.append(fit(X[order], y[order], device, seed))
    errors = [error for _, error in found]
    return {
        "mean": statistics.fmean(errors),
        "std": statistics.stdev(errors),
        "errors": errors,
        "representations": [model.representation_ for model, _ in found],
    }


def digits() -> dict[str, Any]:
    from sklearn.cluster import KMeans, SpectralClustering

    X, y = whole("digits")
    flat = X.reshape(len(X), -1).astype(float)

    def summary(errors: list[float]) -> dict[str, Any]:
        return {"errors": errors, "mean": np.mean(errors), "std": np.std(errors, ddof=1)}

    def errors(make: Callable[[int], Any], data: np.ndarray) -> dict[str, Any]:
        return summary([clustering_error(y, make(seed).fit(data).labels_) for seed in SEEDS])

    def spectral(seed: int) -> Any:
        return SpectralClustering(10, affinity="nearest_neighbors", random_state=seed)

    figures: dict[str, Any] = {
        "k-means": {"whole": errors(lambda seed: KMeans(10, n_init=10, random_state=seed), flat)},
        "nearest-neighbour spectral clustering": {"whole": errors(spectral, flat)},
    }
    for cls in (ClosedFormSubspaceClustering, DCFSC):
        fitted, predicted = [], []
        for seed in SEEDS:
            order = np.random.default_rng(seed).permutation(len(X))
            half, rest = order[: len(X) // 2 + 1], order[len(X) // 2 + 1 :]
            model = cls(10, random_state=seed).fit(X[half])
            fitted.append(clustering_error(y[half], model.labels_))
            predicted.append(clustering_error(y[rest], model.predict(X[rest])))
        figures[cls.__name__] = {
            "whole": errors(lambda seed, cls=cls: cls(10, random_state=seed), X),
            "half": summary(fitted),
            "predicted_other_half": summary(predicted),
        }
    return figures


def main() -> None:
    options = parser(__doc__, device="auto")
    options.add_argument("--mnist", help=".npy of scattering features")
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--part", choices=("both", "seeds", "representations"), default="both")
    options.add_argument("--shuffled", action="store_true", help="in another order for each seed")
    options.add_argument("--merge", nargs="+", type=Path, help="only put these files together")
    options.add_argument("--digits", action="store_true", help="digits whole and in halves")
    args = options.parse_args()
    if args.digits:
        finish(args, "digits", digits())
        return
    figures: dict[str, Any] = {}
    for path in args.merge or ():
        record = json.loads(path.read_text())
        for name, row in record["figures"].items():
            figures.setdefault(name, {}).update({"machine": record["machine"], **row})
    if args.merge:
        finish(args, "defaults", figures)
    for name, (X, y) in () if args.merge else problems(args):
        if args.shuffled:
            figures[name] = shuffled(X, y, args.device)
        else:
            figures[name] = measure(X, y, args.device, args.part)
        print(name, figures[name], flush=True)
        finish(args, "defaults", figures)  # after each: a long run may be stopped


if __name__ == "__main__":
    main()
