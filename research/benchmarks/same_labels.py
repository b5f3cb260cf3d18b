"""Whether two checkouts give the same labels.

    DCFSC_DATA=... python -m research.benchmarks.same_labels ../other/checkout

Each checkout labels the same problems with its own code: the default on digits, ORL, ten people of
Extended Yale B and features of digits, and every method on synthetic unions of subspaces. A row
says how far the labels agree: ARI 1 with "same" where they are equal to the last sample.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
UNIONS = {"union 90": 3, "union 200": 5, "union 400": 8}  # samples and subspaces
QUICK = {"epochs": 3, "pretrain_epochs": 3, "effort": "quick"}


def write_samples(file: str) -> None:
    """The named sets, which every checkout is handed as arrays."""
    from dcfsc.io import synthetic
    from research.benchmarks.samples import SETS

    arrays: Any = {name: SETS[name]()[0] for name in ("digits", "orl", "eyaleb-10")}
    for name, k in UNIONS.items():
        n = int(name.split()[1])
        arrays[name] = synthetic(n_samples=n, n_clusters=k, random_state=1).X
    np.savez(file, **arrays)


def partitions(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The labels of each problem, by the checkout whose package is on the path."""
    from dcfsc import ScatteringFeatures
    from dcfsc.estimators.registry import METHODS, create

    features = ScatteringFeatures().fit_transform(arrays["digits"][:600])
    images = {"digits": 10, "orl": 40, "eyaleb-10": 10}
    for name, X in (arrays | {"features of digits": features}).items():
        for method in METHODS if name in UNIONS else ["closed-form"]:
            known = signature(METHODS[method]).parameters
            quick = {key: value for key, value in QUICK.items() if key in known}
            K = (UNIONS | images).get(name, 10)
            model = create(method, n_clusters=K, random_state=0, **quick)
            yield f"{name}, {method}", model.fit(X).labels_


def labels_of(checkout: Path, samples: str, file: str) -> dict[str, np.ndarray]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    words = [sys.executable, __file__, "--write", samples, file]
    subprocess.run(words, env=environment, check=True)
    return dict(np.load(file))


def main() -> None:
    from sklearn.metrics import adjusted_rand_score

    if sys.argv[1] == "--write":
        labels: Any = dict(partitions(dict(np.load(sys.argv[2]))))
        np.savez(sys.argv[3], **labels)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_samples(f"{folder}/samples.npz")
        ours = labels_of(ROOT, f"{folder}/samples.npz", f"{folder}/ours.npz")
        theirs = labels_of(Path(sys.argv[1]), f"{folder}/samples.npz", f"{folder}/theirs.npz")
    for name in sorted(ours.keys() & theirs.keys()):
        labels, other = ours[name], theirs[name]
        same = "same" if np.array_equal(labels, other) else ""
        print(f"{name:40s} {same} ARI {adjusted_rand_score(labels, other):.4f}")


if __name__ == "__main__":
    main()
