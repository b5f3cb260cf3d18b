"""SSC-OMP on MNIST from scattering features: what its error depends on.

    DCFSC_DATA=... python benchmarks/make_scattering.py mnist centred.npy
    DCFSC_DATA=... python benchmarks/make_scattering.py mnist uncentred.npy --uncentred \\
        --n 20000 --fit 5000
    DCFSC_DATA=... python benchmarks/bench_omp_mnist.py centred.npy uncentred.npy \\
        --json results/benchmarks/omp_mnist_cpu.json

You, Robinson and Vidal (CVPR 2016) project on the leading singular vectors of the coefficients,
whose mean is not subtracted, take ten coefficients a sample and scale each code by its largest; for
faces they take five and do not scale, which are the defaults of `SSCOMP`. Both settings run on both
kinds of features, on disjoint random subsets. Beside the error every row says what the graph is
like: the share of a code's weight on other classes, the connected components, and the connectivity
of the classes, 1 - w_2 with w_2 the second eigenvalue of the normalised affinity within a class.
With --append the runs go to those already in the file; --sizes, --features and --settings choose.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from measure import finish, parser

from dcfsc import affinity, datasets, spectral
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import SparseCoefficients, orthogonal_matching_pursuit

K = 10
SETTINGS = {"faces": (5, "magnitude"), "digits": (10, "symmetric")}
TOL = 1e-6
GRAM_BYTES = 2**31  # more than the solver's own choice: 20,000 samples are worth the memory here


def weight_between_classes(C: sp.csr_array, y: np.ndarray) -> float:
    """Mean over the samples of the share of sum_j |c_ij| on samples j of another class."""
    rows = np.repeat(np.arange(len(y)), np.diff(C.indptr))
    weight = np.abs(C.data)
    wrong = np.bincount(rows, weight * (y[rows] != y[C.indices]), minlength=len(y))
    total = np.bincount(rows, weight, minlength=len(y))
    return float(np.mean(wrong[total > 0] / total[total > 0]))


def connectivity(A: sp.csr_array, y: np.ndarray) -> list[float]:
    """1 - w_2 of every class's own graph; 0 where that is not connected."""
    found = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        embedding = spectral.embed(
            A[members][:, members], 2, regularization=0.0, random_state=0, tol=1e-6
        )
        connected = embedding.n_connected == 1
        found.append(1.0 - float(embedding.values[1]) if connected else 0.0)
    return found


def measure(Z: np.ndarray, y: np.ndarray, setting: str) -> dict[str, Any]:
    k, name = SETTINGS[setting]
    start = time.perf_counter()
    gram = 4 * len(Z) ** 2 <= GRAM_BYTES
    C = orthogonal_matching_pursuit(torch.from_numpy(Z), k, TOL, gram=gram).coefficients
    A = affinity.get(name, K)(SparseCoefficients(C), K)
    result = spectral.cluster(A, K, random_state=0)
    seconds = time.perf_counter() - start
    within = connectivity(sp.csr_array(A), y)
    return {
        "error_percent": clustering_error(y, result.labels),
        "weight_between_classes_percent": 100 * weight_between_classes(sp.csr_array(C), y),
        "components": result.embedding.n_connected,
        "connectivity_least": min(within),
        "connectivity_mean": float(np.mean(within)),
        "largest_cluster": int(np.bincount(result.labels).max()),
        "most_codes_with_a_sample": int(np.bincount(C.indices).max()),
        "seconds": seconds,
    }


def averages(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of every figure over the subsets of one case, and the errors' range."""
    keys = ("features", "setting", "N")
    cases = dict.fromkeys(tuple(run[key] for key in keys) for run in runs)
    rows = []
    for case in cases:
        same = [run for run in runs if tuple(run[key] for key in keys) == case]
        figures = [name for name in same[0] if name not in (*keys, "subset")]
        errors = [run["error_percent"] for run in same]
        rows.append(
            dict(zip(keys, case, strict=True))
            | {name: float(np.mean([run[name] for run in same])) for name in figures}
            | {"subsets": len(same), "error_least": min(errors), "error_most": max(errors)}
        )
    return rows


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("centred", type=Path, help="features of all samples, in their order")
    options.add_argument("uncentred", type=Path, help="features made with --uncentred, --n or not")
    options.add_argument("--sizes", default="2000,5000,20000")
    options.add_argument("--features", default="centred,uncentred")
    options.add_argument("--settings", default=",".join(SETTINGS))
    options.add_argument("--append", action="store_true")
    options.add_argument("--subsets", type=int, default=3, help="at most, as far as 20,000 go")
    args = options.parse_args()
    y = np.asarray(datasets.load("mnist").y)
    order = np.random.default_rng(0).permutation(len(y))
    files = {name: np.load(getattr(args, name), mmap_mode="r") for name in args.features.split(",")}
    runs = json.loads(args.json.read_text())["figures"]["runs"] if args.append else []
    for n in (int(size) for size in args.sizes.split(",")):
        for subset in range(min(args.subsets, max(1, 20_000 // n))):
            place = np.arange(subset * n, (subset + 1) * n)
            for (name, rows), setting in product(files.items(), args.settings.split(",")):
                # a file of fewer rows than samples is in the permutation's order
                chosen = order[place] if len(rows) == len(y) else place
                Z = np.ascontiguousarray(rows[chosen], dtype=np.float32)
                case = {"features": name, "setting": setting, "N": n, "subset": subset}
                runs.append(case | measure(Z, y[order[place]], setting))
                print(runs[-1], file=sys.stderr, flush=True)
    settings = {
        name: {"n_nonzero": k, "affinity": kind, "tol": TOL} for name, (k, kind) in SETTINGS.items()
    }
    finish(args, "omp_mnist", {"settings": settings, "means": averages(runs), "runs": runs})


if __name__ == "__main__":
    main()
