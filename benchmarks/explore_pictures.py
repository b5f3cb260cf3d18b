"""Ways to see the samples, measured with labels: which is best, and is it the most stable?

    export DCFSC_DATA=... DCFSC_ELSEWHERE=...
    python benchmarks/explore_pictures.py pictures --json results/experiments/pictures.json
    python benchmarks/explore_pictures.py rounds --json results/experiments/rounds.json

``pictures``: the image sets of explore_views.py, Extended Yale B and COIL-100 besides. Pixels as
they are (none), in the metric of neighbours after one and two rounds, with shifts and mirror
images; scattering coefficients in the closed form (scattering), in the metric of one round
(direct), with mirror images (mirror), and the sum of the last two graphs (sum); the same after two
rounds (sum-2), and of scattering over 8 pixels instead of 4 (sum-8).
``rounds``: the metric after one to three rounds, for vectors.

Each with its error and the stability of its partitions of random parts; at most 3,000 samples of a
set. "judges" tells how often the most stable of the library's candidates has the least error.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import bench_defaults
import earlier
import elsewhere
import explore_views
import numpy as np
import torch
from measure import finish, parser
from torch import Tensor

from dcfsc import spectral
from dcfsc.errors import InputError
from dcfsc.representations.neighbour_metric import in_metric, plain_ridge
from dcfsc.representations.scattering import mirror_form
from dcfsc.estimators.regularisation import lam_for
from dcfsc.estimators.scattering_features import ScatteringFeatures
from dcfsc.representations.orbits import ALL, views_of
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import solve
from dcfsc.self_expression.orbit import OrbitForm

Samples = tuple[np.ndarray, np.ndarray]
CANDIDATES = ("none", "metric-1", "metric-2", "sum")


def image_sets() -> dict[str, Callable[[], Samples]]:
    found = {n: load for n, load in explore_views.sets().items() if n != "digits"}
    found["eyaleb"] = lambda: bench_defaults.whole("eyaleb")
    found["coil100"] = lambda: bench_defaults.whole("coil100")
    return found


def vector_sets() -> dict[str, Callable[[], Samples]]:
    problems = elsewhere.PROBLEMS.items()
    return {n: p.load for n, p in problems if p.kind != "image" and n != "fashion-scattering"}


def closed_form(Z: Tensor, sample_shape: tuple[int, ...], name: str, K: int) -> OrbitForm:
    return earlier.orbit_form(views_of(name, Z, sample_shape), K)


def cosines(Z: Tensor, K: int, rounds: int) -> Any:
    return solve(in_metric(Z, earlier.neighbour_metric(Z, K, rounds)), plain_ridge(len(Z)))


def both_features(X: np.ndarray, J: int) -> tuple[Tensor, Tensor]:
    scattering = ScatteringFeatures(J, center=False, device="cpu", verbose=False)
    pixels = X.astype(np.float32)
    F = scattering.fit_transform(pixels)
    mirrored = scattering.transform(np.ascontiguousarray(pixels[..., ::-1]))
    return torch.from_numpy(F), torch.from_numpy(mirrored)


def scattered(X: np.ndarray, K: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    F, mirrored = both_features(X, 2)
    found["scattering"] = solve(F, lam_for(F, K, earlier.SUBSPACE_DIM))
    lam = plain_ridge(len(F))
    for rounds, name in ((1, "sum"), (2, "sum-2")):
        T = earlier.neighbour_metric(F, K, rounds)
        found[name] = mirror_form(
            torch.stack((in_metric(F, T), in_metric(mirrored, T)), dim=1), lam
        )
    found["direct"], found["mirror"] = found["sum"].ways
    F, mirrored = both_features(X, 3)
    T = earlier.neighbour_metric(F, K, 1)
    both = torch.stack((in_metric(F, T), in_metric(mirrored, T)), dim=1)
    found["sum-8"] = mirror_form(both, lam)
    return found


def pictures(X: np.ndarray, K: int) -> dict[str, Any]:
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    found: dict[str, Any] = {
        "none": closed_form(Z, X.shape[1:], "none", K),
        "metric-1": cosines(Z, K, 1),
        "metric-2": cosines(Z, K, 2),
        "shifts+mirror": closed_form(Z, X.shape[1:], ALL, K),
    }
    if min(X.shape[-2:]) >= earlier.SMALLEST_SIDE:
        found |= scattered(X, K)
    return found


def rounds(X: np.ndarray, K: int) -> dict[str, Any]:
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    found: dict[str, Any] = {"none": closed_form(Z, Z.shape[1:], "none", K)}
    return found | {f"metric-{number}": cosines(Z, K, number) for number in (1, 2, 3)}


def judged(operators: dict[str, Any], y: np.ndarray, K: int) -> dict[str, Any]:
    return {
        name: {
            "error": clustering_error(
                y, spectral.cluster(earlier.AFFINITY(operator, K), K, random_state=0).labels
            ),
            "parts": earlier.agreement(operator, K, earlier.AFFINITY, earlier.ASSIGN),
        }
        for name, operator in operators.items()
    }


def verdicts(figures: dict[str, Any]) -> dict[str, Any]:
    rows = [r for name, r in figures.items() if name != "judges"]
    found: dict[str, Any] = {}
    for label, candidates in {
        "chosen": CANDIDATES,
        "chosen after one round": ("none", "metric-1", "sum"),
        "chosen after two rounds": ("none", "metric-2", "sum"),
        "chosen with shifts": (*CANDIDATES, "shifts+mirror"),
        "chosen of pixels": ("none", "metric-1", "metric-2", "shifts+mirror"),
    }.items():
        chosen, best = [], []
        for row in rows:
            known = [row[name] for name in candidates if name in row]
            chosen.append(max(known, key=lambda way: way["parts"])["error"])
            best.append(min(way["error"] for way in known))
        found[label] = {
            "right": sum(a == b for a, b in zip(chosen, best, strict=True)),
            "of": len(rows),
            "error": statistics.fmean(chosen),
            "best": statistics.fmean(best),
        }
    names = {name for row in rows for name in row}
    for name in sorted(names):
        if all(name in row for row in rows):
            found[f"always {name}"] = {"error": statistics.fmean(r[name]["error"] for r in rows)}
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=("pictures", "rounds"))
    options.add_argument("--only", help="some of the sets, separated by semicolons")
    options.add_argument("--verdicts", action="store_true", help="only judge what --json has")
    args = options.parse_args()
    sets, ways = (image_sets(), pictures) if args.what == "pictures" else (vector_sets(), rounds)
    figures: dict[str, Any] = {}
    if args.verdicts:
        figures = json.loads(args.json.read_text())["figures"]
        figures.pop("judges", None)
        finish(args, args.what, {**figures, "judges": verdicts(figures)})
        return
    for name, load in sets.items():
        if args.only and name not in args.only.split(";"):
            continue
        try:
            X, y = load()
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        if len(X) > explore_views.MOST_SAMPLES:
            random = np.random.default_rng(0)
            chosen = np.sort(random.permutation(len(X))[: explore_views.MOST_SAMPLES])
            X, y = X[chosen], y[chosen]
        K = int(y.max()) + 1
        figures[name] = judged(ways(X, K), y, K)
        finish(args, args.what, {**figures, "judges": verdicts(figures)})


if __name__ == "__main__":
    main()
