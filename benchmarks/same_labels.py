"""The labels of a checkout, or how those of two checkouts compare: a move must change none.

    PYTHONPATH=before/src python benchmarks/same_labels.py before.npz
    PYTHONPATH=src python benchmarks/same_labels.py after.npz
    python benchmarks/same_labels.py --compare before.npz after.npz

The default on digits, and on ORL and ten people of Extended Yale B where DCFSC_DATA has them; every
method, and its predictions, on two unions of subspaces; `dcfsc reproduce smoke`. All on the CPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FAST = {"pretrain_epochs": 2, "steps": 2}


def methods() -> dict[str, Any]:
    for module in ("dcfsc.estimators.registry", "dcfsc.estimators.methods"):  # now, and before
        try:
            return import_module(module).METHODS
        except ModuleNotFoundError:
            continue
    raise SystemExit("this checkout has no list of methods")


def collect() -> dict[str, np.ndarray]:
    from dcfsc import datasets, experiments
    from dcfsc.errors import InputError
    from dcfsc.experiments import pipeline

    labels: dict[str, np.ndarray] = {}
    easy = datasets.synthetic(120, 3, 3, 30, random_state=1)
    hard = datasets.synthetic(300, 5, 3, 12, noise=0.3, random_state=2)
    for name, cls in methods().items():
        options = FAST if name in ("dcfsc", "dsc") else {}
        for kind, data, k in (("easy", easy, 3), ("noisy", hard, 5)):
            model = cls(n_clusters=k, random_state=0, device="cpu", **options)
            labels[f"{name} on {kind}"] = model.fit_predict(data.X)
            if hasattr(model, "predict"):
                labels[f"{name} on {kind}, predicted"] = model.predict(data.X[:50] + 0.01)
    scored = pipeline.clustering_error
    smoke: list[np.ndarray] = []
    pipeline.clustering_error = lambda y, found: (smoke.append(found), scored(y, found))[1]
    with tempfile.TemporaryDirectory() as folder:
        experiments.reproduce("smoke", out=Path(folder), device="cpu", report=lambda line: None)
    pipeline.clustering_error = scored
    labels |= {f"smoke, clustering {i}": found for i, found in enumerate(smoke)}
    for name in ("digits", "orl", "eyaleb"):
        try:
            data = datasets.load(name)
        except InputError as error:
            print(f"{name} left out: {error}")
            continue
        rows = data.y < 10 if name == "eyaleb" else slice(None)
        K = len(np.unique(data.y[rows]))
        model = methods()["closed-form"](n_clusters=K, random_state=0, device="cpu")
        labels[f"default on {name}"] = model.fit_predict(data.X[rows])
    return labels


def compare(one: str, two: str) -> int:
    a, b = np.load(one), np.load(two)
    names = sorted({*a, *b})
    differ = [n for n in names if n not in a or n not in b or not np.array_equal(a[n], b[n])]
    for name in differ:
        print(f"{name}: different")
    print(f"{len(names) - len(differ)} of {len(names)} sets of labels are the same")
    return int(bool(differ))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", nargs="?", help="the .npz to write")
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"))
    args = parser.parse_args()
    if args.compare:
        return compare(*args.compare)
    if args.out is None:
        parser.error("give a file to write, or --compare")
    warnings.simplefilter("ignore")
    np.savez_compressed(args.out, **collect())
    return 0


if __name__ == "__main__":
    sys.exit(main())
