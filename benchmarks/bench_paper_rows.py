"""Rows of the paper that do not reproduce: features, units and post-processing that might explain.

    DCFSC_DATA=... python benchmarks/bench_paper_rows.py kssc --people 10 \
        --json results/experiments/paper_rows.json

Each combination of features, setting and affinity is scored on windows of people of Extended Yale B
or on ORL. Whoever takes the best of them has chosen by labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from measure import finish_row, parser

from dcfsc import EDSC, LRSC, SSC, AutoencoderFeatures, KernelSSC, affinity, datasets, spectral
from dcfsc.metrics import clustering_error

WINDOWS = {10: (0, 10, 20), 20: (0, 15)}
AFFINITIES = ("symmetric", "ssc-motion", "edsc", "dcfsc-eyaleb", "lrr")
WEIGHTS = {"eyaleb": ("eyaleb", "dsc_eyaleb"), "orl": ("dsc-orl", "dsc_orl")}


def problems(people: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    name = "eyaleb" if people else "orl"
    data = datasets.load(name)
    y = np.asarray(data.y)
    for start in WINDOWS.get(people, (0,)):
        chosen = (y >= start) & (y < start + people) if people else np.full(len(y), True)
        yield name, np.asarray(data.X)[chosen], y[chosen]


def latents(name: str, X: np.ndarray) -> np.ndarray:
    network, weights = WEIGHTS[name]
    model = AutoencoderFeatures(network=network, weights=weights, pretrain_epochs=0, verbose=False)
    return model.fit(X).transform(X)


def projected(Z: np.ndarray, rank: int) -> np.ndarray:
    """The rows in their first singular directions, not centred, as the released SSC code does."""
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    return (U * s)[:, :rank].astype(np.float32)


def unit_energy(Z: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Scaled to the mean squared norm of the images over their largest pixel."""
    wanted = np.square(X.reshape(len(X), -1) / X.max()).sum(dtype=np.float64)
    return (Z * np.sqrt(wanted / np.square(Z, dtype=np.float64).sum())).astype(np.float32)


def features(row: str, name: str, X: np.ndarray, K: int) -> dict[str, np.ndarray]:
    Z = latents(name, X) if row.startswith("ae") else X.reshape(len(X), -1).astype(np.float32)
    if row == "ae+edsc":
        Z = unit_energy(Z, X)
    if row == "lrsc":  # a projection only cuts what tau cuts
        return {"all": Z}
    return {"all": Z, "PCA 9K": projected(Z, 9 * K), "PCA 12K": projected(Z, 12 * K)}


def settings(row: str, Z: np.ndarray, K: int) -> dict[str, Any]:
    common: dict[str, Any] = {"device": "cpu", "random_state": 0}
    if row == "kssc":
        kernels = {"polynomial 2": {"degree": 2}, "polynomial 3": {"degree": 3}}
        kernels["rbf"] = {"kernel": "rbf"}
        return {
            f"{name}, alpha {alpha}": KernelSSC(K, alpha=alpha, **kernel, **common)
            for name, kernel in kernels.items()
            for alpha in (20.0, 800.0)
        }
    if row == "lrsc":
        largest = float(np.linalg.norm(Z.astype(np.float64), 2)) ** 2
        taus = {f"{c:g} K / s1^2": c * K / largest for c in (1e2, 3e2, 1e3, 3e3, 1e4)}
        make = partial(LRSC, K, **common)
        found = {f"tau = {n}, alpha = tau / 2": make(tau=t, alpha=t / 2) for n, t in taus.items()}
        exact = {f"tau = {n}, A = Z": make(tau=t, alpha=float("inf")) for n, t in taus.items()}
        return found | exact
    if row == "ae+ssc":
        return {
            f"alpha {alpha}, outliers {outliers}, {scale}": SSC(
                K, alpha=alpha, outliers=outliers, scale=scale, **common
            )
            for alpha, outliers, scale in (
                *((20.0, True, "none"), (20.0, False, "none"), (800.0, False, "none")),
                *((20.0, True, "unit"), (20.0, False, "unit")),
            )
        }
    ridge = {
        f"no outliers, l1 {l1}": EDSC(K, l1=l1, outliers=False, scale="none", **common)
        for l1 in (0.06, 0.6, 6.0)
    }
    with_errors = EDSC(K, l1=0.06, l2=0.01, scale="none", **common)
    return ridge | {"outliers, l1 0.06, l2 0.01": with_errors}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("row", choices=("kssc", "lrsc", "ae+ssc", "ae+edsc"))
    options.add_argument("--people", type=int, default=0, choices=(0, *WINDOWS), help="0: ORL")
    args = options.parse_args()
    warnings.simplefilter("ignore")
    errors: dict[tuple[str, str, str], list[float]] = {}
    for name, X, y in problems(args.people):
        K = len(np.unique(y))
        for how, Z in features(args.row, name, X, K).items():
            for setting, model in settings(args.row, Z, K).items():
                C = model.fit(Z).coefficients_
                for kind in AFFINITIES:
                    A = affinity.get(kind, K)(C, K)
                    labels = spectral.cluster(A, K, random_state=0).labels
                    found = clustering_error(y, labels)
                    errors.setdefault((how, setting, kind), []).append(found)
    rows = [
        {"features": how, "setting": setting, "affinity": kind, "errors": e, "mean": fmean(e)}
        for (how, setting, kind), e in errors.items()
    ]
    rows.sort(key=lambda r: r["mean"])
    key = f"{args.row}, {f'{args.people} people' if args.people else 'ORL'}"
    finish_row(args, "paper_rows", key, {"combinations": len(rows), "rows": rows})


if __name__ == "__main__":
    main()
