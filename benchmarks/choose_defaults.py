"""The constants of the default, chosen with labels on other data than it is measured on.

    export DCFSC_ELSEWHERE=...
    python benchmarks/choose_defaults.py grid --json results/experiments/elsewhere_grid.json \\
        --m 1 1.5 2 --k 6 8 12 --power 2 4 --without orbit direct J2-centred J3-centred
    python benchmarks/choose_defaults.py judge results/experiments/elsewhere_grid.json \\
        --json results/experiments/elsewhere_constants.json

``grid``: on the problems of elsewhere.py, at most 1,500 samples of each, the error and the
stability of every way to see the samples, for m K degrees of freedom, k neighbours and a power p:

- none, metric-1, metric-2: as they are, and in the metric of neighbours after one and two rounds;
- orbit: images of less than 16 pixels a side with their shifts and mirror images;
- J2, J3 and J2-centred, J3-centred: images by their scattering coefficients over 4 and 8 pixels,
  their mean subtracted or not, in the metric of one round; small images are enlarged first. Each
  as the sum of the graphs with and without mirror images, and direct, without.

``--shard I/N`` takes every N-th piece of work, ``--processes`` runs so many at a time, and what is
in the file already is kept. ``merge`` puts files together.

``judge``: a default is the constants m, k and p, and the ways among which the most stable is taken.
Its error on a problem less the least of all defaults there is its regret. Problems count alike
within a family, and families alike. A mean over few families is noisy, so that a default is judged
by the mean over itself and its neighbours, the same ways with one constant a step off; one whose
neighbours were not all measured is not. The least is the choice; on every family, the choice by all
other families tells what it is worth. Several files may be judged together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import elsewhere
import numpy as np
import torch
from measure import finish, parser
from torch import Tensor

from dcfsc import spectral
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.estimators.neighbour_metric import (
    MOST_FEATURES,
    in_metric,
    metric_rounds,
    plain_ridge,
)
from dcfsc.estimators.pictures import ENLARGED_SIDE, SMALLEST_SIDE, enlarged, mirror_form
from dcfsc.estimators.scattering_features import ScatteringFeatures
from dcfsc.estimators.stability import ASSIGN, SHARE, SPARE, agreement
from dcfsc.estimators.transformations import ALL, views_of
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import lam_for_dof, solve, squared_singular_values
from dcfsc.self_expression.orbit import OrbitForm, orbit_gram

MOST_SAMPLES = 1500  # of a problem
SCATTERINGS = {f"J{J}{'-centred' * c}": (J, bool(c)) for J in (2, 3) for c in (0, 1)}


@dataclass(frozen=True)
class Axes:
    """The constants tried, m the slowest and power the fastest, and how embeddings are cut."""

    m: tuple[float, ...] = (1.5, 2.0, 3.0)
    k: tuple[int, ...] = (4, 6, 8, 12)
    power: tuple[float, ...] = (2.0, 4.0, 8.0)
    orbit: tuple[float, ...] = (1.0, 1.5, 2.0)  # in place of m, with shifts and mirror images
    assign: str = ASSIGN

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.m), len(self.k), len(self.power)

    def affinities(self) -> Iterator[TopK]:
        return (TopK(k, power) for k, power in product(self.k, self.power))

    def measured(self, operator: Any, affinity: TopK, y: np.ndarray) -> tuple[float, float]:
        """Error, and stability where there are samples enough to tell it."""
        K, n = int(y.max()) + 1, len(y)
        A = affinity(operator, K)
        labels = spectral.cluster(A, K, assign=self.assign, random_state=0).labels
        enough = n > max(2 * K, SPARE * affinity.k) / SHARE
        parts = agreement(operator, K, affinity, self.assign) if enough else float("nan")
        return round(clustering_error(y, labels), 3), round(parts, 4)


Row = tuple[str, float, float]  # way, error, stability
Table = dict[str, dict[str, list[Any]]]  # way -> errors and parts, by m, k and p


def part(X: np.ndarray, y: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """A random part of a problem that is larger, always the same."""
    if len(X) <= most:
        return X, y
    chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
    return X[chosen], np.unique(y[chosen], return_inverse=True)[1]


def lam_of(squares: Tensor, m: float, K: int) -> float:
    # No ridge has more degrees of freedom than the rank; near it nothing is regularised.
    rank = int((squares > 1e-10 * squares.max()).sum())
    return lam_for_dof(squares, min(m * K, 0.95 * rank))


def pixels(X: np.ndarray, y: np.ndarray, axes: Axes) -> Iterator[Row]:
    K = int(y.max()) + 1
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    squares = squared_singular_values(Z)
    for m in axes.m:
        operator = solve(Z, lam_of(squares, m, K))
        for affinity in axes.affinities():
            yield "none", *axes.measured(operator, affinity, y)
            if Z.shape[1] > MOST_FEATURES:
                continue
            found = metric_rounds(Z, K, affinity=affinity, first=operator)
            for rounds, (_, seen) in enumerate(islice(found, 2), 1):
                yield f"metric-{rounds}", *axes.measured(seen, affinity, y)


def orbits(X: np.ndarray, y: np.ndarray, axes: Axes) -> Iterator[Row]:
    K = int(y.max()) + 1
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))
    views = views_of(ALL, Z, X.shape[1:])
    G = orbit_gram(views)
    squares = torch.linalg.eigvalsh(G).clamp_min(0.0)
    for m in axes.orbit:
        operator = OrbitForm(views, lam_of(squares, m, K), G.clone())
        for affinity in axes.affinities():
            yield "orbit", *axes.measured(operator, affinity, y)


def scattered(X: np.ndarray, y: np.ndarray, axes: Axes, way: str, direct: bool) -> Iterator[Row]:
    K, (J, center) = int(y.max()) + 1, SCATTERINGS[way]
    x = enlarged(X.astype(np.float32))
    scattering = ScatteringFeatures(J, center=center, device="cpu", verbose=False)
    F = torch.from_numpy(scattering.fit_transform(x))
    mirrored = torch.from_numpy(scattering.transform(np.ascontiguousarray(x[..., ::-1])))
    squares = squared_singular_values(F)
    for m in axes.m:
        operator = solve(F, lam_of(squares, m, K))
        for affinity in axes.affinities():
            T = next(metric_rounds(F, K, affinity=affinity, first=operator))[0]
            both = torch.stack((in_metric(F, T), in_metric(mirrored, T)), dim=1)
            ways = mirror_form(both, plain_ridge(len(F)))
            yield f"{way} sum", *axes.measured(ways, affinity, y)
            if direct:
                yield f"{way} direct", *axes.measured(ways.ways[0], affinity, y)


def work(name: str, group: str, axes: Axes, direct: bool) -> tuple[str, str, dict[str, Any], Table]:
    torch.set_num_threads(1)
    start = time.perf_counter()
    X, y = part(*elsewhere.PROBLEMS[name].load(), MOST_SAMPLES)
    if group == "pixels":
        rows = pixels(X, y, axes)
    elif group == "orbit":
        rows = orbits(X, y, axes)
    else:
        rows = scattered(X, y, axes, group, direct)
    columns: dict[str, list[tuple[float, float]]] = {}
    for way, *figures in rows:
        columns.setdefault(way, []).append((figures[0], figures[1]))
    table = {}
    for way, pairs in columns.items():
        errors, parts = np.array(pairs).T.reshape(2, *axes.shape)
        known = np.isfinite(parts).all()  # with every k, or a default could not choose
        table[way] = {"errors": errors.tolist(), "parts": parts.tolist() if known else []}
    small = X.ndim > 2 and min(X.shape[-2:]) < ENLARGED_SIDE
    about = {"N": len(X), "K": int(y.max()) + 1, "small": small}
    about["seconds"] = {group: time.perf_counter() - start}
    return name, group, about, table


def groups(name: str) -> list[str]:
    X, _ = elsewhere.PROBLEMS[name].load()
    if X.ndim < 3:
        return ["pixels"]
    found = ["pixels", *SCATTERINGS]
    small = SMALLEST_SIDE <= min(X.shape[-2:]) < ENLARGED_SIDE
    return [*found, "orbit"] if small else found


def pieces(args: Any) -> list[tuple[str, str]]:
    found = []
    for name in args.only.split(";") if args.only else list(elsewhere.PROBLEMS):
        try:
            found += [(name, group) for group in groups(name)]
        except InputError as error:
            print(f"{name} is left out: {error}")
    index, count = (int(part) for part in args.shard.split("/"))
    found.sort(key=lambda piece: piece[1] == "pixels")  # the longest first
    return found[index::count]


def add(problems: dict[str, Any], name: str, about: dict[str, Any], table: Table) -> None:
    record = problems.setdefault(name, {**about, "seconds": {}, "ways": {}})
    record["seconds"] |= about["seconds"]
    record["ways"] |= table


def grid(args: Any) -> None:
    axes = Axes(*map(tuple, (args.m, args.k, args.power, args.orbit)), args.assign)
    problems: dict[str, Any] = {}
    if args.json and args.json.exists():
        known, problems = merged([args.json])
        if known != axes:
            raise InputError(f"{args.json} has other constants: {known}")
    wanted = [
        (name, group)
        for name, group in pieces(args)
        if group not in problems.get(name, {"seconds": {}})["seconds"] and group not in args.without
    ]
    direct = "direct" not in args.without
    with ProcessPoolExecutor(args.processes) as pool:
        running = [pool.submit(work, *piece, axes, direct) for piece in wanted]
        for done in as_completed(running):
            name, group, about, table = done.result()
            print(f"{name}, {group}: {about['seconds'][group]:.0f} s", flush=True)
            add(problems, name, about, table)
            save(args, axes, problems)


def save(args: Any, axes: Axes, problems: dict[str, Any]) -> None:
    ordered = {name: problems[name] for name in elsewhere.PROBLEMS if name in problems}
    figures = {**asdict(axes), "problems": ordered}
    finish(args, "constants on other data, with labels", figures)


def merged(files: list[Path]) -> tuple[Axes, dict[str, Any]]:
    """The constants of the files, which must be the same, and their problems together."""
    found: set[Axes] = set()
    problems: dict[str, Any] = {}
    for path in files:
        figures = json.loads(path.read_text())["figures"]
        for name, record in figures.pop("problems").items():
            table = record.pop("ways")
            add(problems, name, record, table)
        values = {n: tuple(v) if isinstance(v, list) else v for n, v in figures.items()}
        found.add(Axes(**values))
    if len(found) != 1:
        raise InputError(f"files of other constants do not go together: {found}")
    return found.pop(), problems


def merge(args: Any) -> None:
    save(args, *merged(args.files))


def family(name: str) -> str:
    return name.split("-")[0]


ROUNDS = {"none": (), "once": (1,), "twice": (2,), "once or twice": (1, 2)}
SMALL = ("none", "orbit", "enlarged", "both")


def defaults(problems: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Name -> what it takes for pictures, the metric's rounds, what it takes for small pictures."""
    known = {way for record in problems.values() for way in record["ways"]}
    small = SMALL if "orbit" in known else ("none", "enlarged")
    return {
        f"{pictures}, metric {rounds}, small {of_small}": (pictures, rounds, of_small)
        for pictures, rounds, of_small in product(
            sorted(way for way in known if way[0] == "J"), ROUNDS, small
        )
    }


def candidates(record: dict[str, Any], pictures: str, rounds: str, small: str) -> list[str]:
    """The ways that a problem is seen in, among those it has."""
    ways = record["ways"]
    found = ["none", *(f"metric-{number}" for number in ROUNDS[rounds])]
    if not record["small"]:
        found.append(pictures)
    else:
        found += ["orbit"] if small in ("orbit", "both") else []
        found += [pictures] if small in ("enlarged", "both") else []
    return [way for way in found if way in ways and (way == "none" or len(ways[way]["parts"]))]


def together(files: list[Path]) -> tuple[Axes, dict[str, Any]]:
    """Files of unlike constants on one grid that has them all, not a number where none has one."""
    parts = [merged([path]) for path in files]
    if len({axes.assign for axes, _ in parts}) > 1:
        raise InputError("files with unlike assignments do not go together")
    m, k, power = (
        tuple(sorted({v for axes, _ in parts for v in getattr(axes, name)}))
        for name in ("m", "k", "power")
    )
    union = Axes(m, k, power, parts[0][0].orbit, parts[0][0].assign)
    problems: dict[str, Any] = {}
    for axes, found in parts:
        places = [
            [union_axis.index(v) for v in axis]
            for union_axis, axis in ((m, axes.m), (k, axes.k), (power, axes.power))
        ]
        for name, record in found.items():
            known = problems.setdefault(name, {"small": record["small"], "ways": {}})
            for way, table in record["ways"].items():
                empty = {"errors": np.full(union.shape, np.nan), "parts": []}
                whole = known["ways"].setdefault(way, empty)
                whole["errors"][np.ix_(*places)] = table["errors"]
                if table["parts"]:
                    if len(whole["parts"]) == 0:
                        whole["parts"] = np.full(union.shape, np.nan)
                    whole["parts"][np.ix_(*places)] = table["parts"]
    return union, problems


def outcome(record: dict[str, Any], ways: list[str]) -> np.ndarray:
    """The error (m, k, p) of the most stable way, where all are known."""
    errors = np.array([record["ways"][way]["errors"] for way in ways])
    if len(ways) == 1:
        return errors[0]
    parts = np.array([record["ways"][way]["parts"] for way in ways])
    best = np.where(np.isnan(parts), -1.0, parts).argmax(axis=0)
    found = np.take_along_axis(errors, best[None], axis=0)[0]
    return np.where(np.isnan(errors).any(axis=0), np.nan, found)


def tables(problems: dict[str, Any], choice: tuple[str, ...]) -> np.ndarray:
    """Errors (families, m, k, p) of one set of ways."""
    families: dict[str, list[np.ndarray]] = {}
    for name, record in problems.items():
        found = outcome(record, candidates(record, *choice))
        families.setdefault(family(name), []).append(found)
    return np.array([np.mean(members, axis=0) for members in families.values()])


def smooth(mean: np.ndarray) -> np.ndarray:
    """Mean over a setting (..., m, k, p) and the six with one of the three a step off.

    Not a number where one of them is unknown: at the border of what was measured nothing tells
    whether it would be better beyond.
    """
    known = np.isfinite(mean)
    values, count = np.where(known, mean, 0.0), known.astype(float)
    total, number = values.copy(), count.copy()
    for axis in range(mean.ndim - 3, mean.ndim):
        for step in (1, -1):
            there = count.copy()
            edge = [slice(None)] * mean.ndim
            edge[axis] = slice(-1, None) if step == 1 else slice(0, 1)
            there[tuple(edge)] = 0.0
            total += np.roll(there * values, step, axis)
            number += np.roll(there, step, axis)
    return np.where(known & (number == 7), total / 7, np.nan)


def least(mean: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.nanargmin(smooth(mean))), mean.shape))


def judge(args: Any) -> None:
    axes, problems = together(args.files)
    possible = defaults(problems)
    names = list(possible)
    # (ways, families, m, k, p)
    errors = np.stack([tables(problems, choice) for choice in possible.values()])
    families = list(dict.fromkeys(family(name) for name in problems))
    mean = errors.mean(axis=1)
    smoothed, best = smooth(mean), least(mean)

    def setting(place: tuple[int, ...]) -> dict[str, Any]:
        way, a, b, c = place
        pictures, rounds, small = possible[names[way]]
        ways = {"pictures": pictures, "metric": rounds, "small pictures": small}
        return {"m": axes.m[a], "k": axes.k[b], "power": axes.power[c], **ways}

    def by(axis: int, values: Sequence[Any]) -> dict[str, float]:
        """The least mean error with each value of one constant, the rest free."""
        return {str(v): float(np.nanmin(np.take(mean, i, axis))) for i, v in enumerate(values)}

    held_out, chosen = [], {}
    for i, name in enumerate(families):
        place = least(np.delete(errors, i, axis=1).mean(axis=1))
        held_out.append(float(errors[place[0], i][place[1:]]))
        chosen[name] = setting(place)
    figures = {
        "families": len(families),
        "problems": list(problems),
        "settings": int(np.isfinite(mean).sum()),
        "choice": {
            **setting(best),
            "error": float(mean[best]),
            "smoothed": float(smoothed[best]),
        },
        "least error of any": float(np.nanmin(mean)),
        "least error on each": float(np.nanmin(errors, axis=(0, 2, 3, 4)).mean()),
        "cross-validated": {"error": float(np.mean(held_out)), "chosen": chosen},
        "by m": by(1, axes.m),
        "by k": by(2, axes.k),
        "by power": by(3, axes.power),
        "by ways": {
            name: {"error": float(mean[i][best[1:]]), "smoothed": float(smoothed[i][best[1:]])}
            for i, name in enumerate(names)
            if np.isfinite(mean[i][best[1:]])
        },
    }
    finish(args, "the default's constants on other data", figures)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=("grid", "merge", "judge"))
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--m", type=float, nargs="+", default=Axes.m)
    options.add_argument("--k", type=int, nargs="+", default=Axes.k)
    options.add_argument("--power", type=float, nargs="+", default=Axes.power)
    options.add_argument("--orbit", type=float, nargs="+", default=Axes.orbit)
    options.add_argument("--assign", default=ASSIGN)
    options.add_argument("--without", nargs="*", default=(), help="orbit, direct, J3, ...")
    options.add_argument("--only", help="some of the problems, separated by semicolons")
    options.add_argument("--shard", default="0/1", metavar="I/N")
    options.add_argument("--processes", type=int, default=1)
    args = options.parse_args()
    {"grid": grid, "merge": merge, "judge": judge}[args.what](args)


if __name__ == "__main__":
    main()
