"""Whether two checkouts give the same labels.

    DCFSC_DATA=... python -m research.benchmarks.same_labels ../other/checkout

Each checkout labels the same problems with its own code: the default on digits, ORL, ten people of
Extended Yale B and features of digits, and every method on a synthetic union of subspaces. A
row says how far the labels agree: ARI 1 with "same" where they are equal to the last sample.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
UNIONS = ((90, 3), (200, 5), (400, 8))  # samples and subspaces
QUICK = {"dcfsc": {"epochs": 3, "pretrain_epochs": 3}, "dsc": {"epochs": 3, "pretrain_epochs": 3}}


def samples() -> dict[str, Any]:
    """The named sets, which every checkout is handed as arrays."""
    from dcfsc import io
    from research.data import load

    yale = load("eyaleb")
    assert yale.y is not None
    ten = np.isin(yale.y, np.unique(yale.y)[:10])
    unions = {
        f"union {n}": io.synthetic(n_samples=n, n_clusters=k, random_state=1).X for n, k in UNIONS
    }
    return {"digits": load("digits").X, "orl": load("orl").X, "yale": yale.X[ten], **unions}


def problems(given: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The labels of each problem, by the checkout whose package is on the path."""
    from dcfsc import ClosedFormSubspaceClustering, ScatteringFeatures
    from dcfsc.estimators.registry import METHODS, create

    def default(X: np.ndarray, K: int) -> np.ndarray:
        return ClosedFormSubspaceClustering(K, random_state=0).fit(X).labels_

    digits = given["digits"]
    yield "digits", default(digits, 10)
    yield "ORL", default(given["orl"], 40)
    yield "ten people of Extended Yale B", default(given["yale"], 10)
    yield "features of digits", default(ScatteringFeatures().fit_transform(digits[:600]), 10)
    for shape in UNIONS:
        union = given[f"union {shape[0]}"]
        for name in METHODS:
            model = create(name, n_clusters=shape[1], random_state=0, **options(name))
            yield f"{name}, {shape[0]} samples", model.fit(union).labels_


def options(name: str) -> dict[str, object]:
    from inspect import signature

    from dcfsc.estimators.registry import METHODS

    known = signature(METHODS[name]).parameters
    return {key: value for key, value in QUICK.get(name, {}).items() if key in known}


def labels_of(checkout: Path, folder: str) -> dict[str, np.ndarray]:
    file = Path(folder, f"{len(os.listdir(folder))}.npz")
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    words = [sys.executable, str(HERE), "--write", f"{folder}/samples.npz", str(file)]
    subprocess.run(words, env=environment, check=True)
    return dict(np.load(file))


def main() -> None:
    from sklearn.metrics import adjusted_rand_score

    if sys.argv[1] == "--write":
        found: dict[str, Any] = dict(problems(dict(np.load(sys.argv[2]))))
        np.savez(sys.argv[3], **found)
        return
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/samples.npz", **samples())
        here, other = (labels_of(p, folder) for p in (HERE.parents[2], Path(sys.argv[1])))
    for name, labels in here.items():
        ari = adjusted_rand_score(labels, other[name])
        print(f"{name:40s} {'same' if np.array_equal(labels, other[name]) else ''} ARI {ari:.4f}")


if __name__ == "__main__":
    main()
