"""The representation "affine": when it is taken, and what its one constant does to Hopkins-155.

    DCFSC_DATA=... DCFSC_PROBLEMS=... python -m research.benchmarks.bench_flats \
        --json results/experiments/flats.json

"shares" are the two figures that decide whether "auto" takes it, on the benchmark problems
(problems.py) with enough features and on the trajectories: the share of the variance that K flats
leave out, and the share of a constant that is no linear function of the samples. "distortion" is
the error of the default on all 155 sequences for several values of the constant.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.metrics import clustering_error
from dcfsc.representations import affine
from research import data as datasets
from research.data.motions import sequences

from .measure import finish, parser
from .problems import PROBLEMS

DISTORTIONS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
MOST = 1500  # samples of a problem


def shares(X: np.ndarray, K: int) -> dict[str, float] | None:
    """Both shares for samples with enough features, every one at variance one."""
    Z = torch.from_numpy(X.reshape(len(X), -1)[:MOST]).double()
    rank = affine.FLAT * K
    if Z.shape[1] < 2 * rank or X.ndim > 2:
        return None
    scale = Z.std(dim=0, correction=0)
    Z = Z / torch.where(scale > 0, scale, 1.0)
    return {"outside": affine.outside(Z, rank), "missed": affine.missed(Z, rank)}


def errors(distortion: float) -> dict[str, float]:
    """The default's mean error by number of motions, with another constant."""
    affine.DISTORTION = distortion
    found: dict[int, list[float]] = {2: [], 3: []}
    for name, K in sequences().items():
        data = datasets.load(f"hopkins155/{name}")
        model = ClosedFormSubspaceClustering(K, random_state=0, device="cpu").fit(data.X)
        found[K].append(clustering_error(data.y, model.labels_))
    return {"two": fmean(found[2]), "three": fmean(found[3]), "all": fmean(found[2] + found[3])}


def main() -> None:
    args = parser(__doc__).parse_args()
    judged: dict[str, Any] = {}
    for name, problem in PROBLEMS.items():
        try:
            X, y = problem.load()
        except InputError as error:
            print(f"{name}: {error}")
            continue
        if (found := shares(X, len(np.unique(y)))) is not None:
            judged[name] = found
    motions = [shares(datasets.load(f"hopkins155/{n}").X, K) for n, K in sequences().items()]
    judged["hopkins155, largest"] = {
        key: max(m[key] for m in motions if m is not None) for key in ("outside", "missed")
    }
    finish(
        args, "flats", {"shares": judged, "distortion": {f"{d:g}": errors(d) for d in DISTORTIONS}}
    )


if __name__ == "__main__":
    main()
