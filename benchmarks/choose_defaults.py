"""The constants of the default, chosen with labels on other data than it is measured on.

    export DCFSC_ELSEWHERE=...
    R=results/experiments; D="python benchmarks/choose_defaults.py"; W="orbit direct J2-centred"
    $D grid --m 1 1.5 2 --k 6 8 12 --power 2 4 --without $W J3-centred \\
        --json $R/elsewhere_wide_grid.json
    $D grid --m 1.5 2 3 --k 4 6 8 --power 2 4 8 --without $W J3 J3-centred \\
        --json $R/elsewhere_grid.json
    $D grid --m 3 4 --k 8 12 --power 4 --without $W J3 J3-centred \\
        --json $R/elsewhere_edge_grid.json
    $D judge $R/elsewhere_wide_grid.json $R/elsewhere_grid.json $R/elsewhere_edge_grid.json \\
        --json $R/elsewhere_constants.json

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
Problems count alike within a family, and families alike. A mean over few families is noisy, so
that a default is judged by the mean over itself and its neighbours, the same ways with one constant
a step off; one whose neighbours were not all measured is not. The least is the choice; on every
family, the choice by all other families tells what it is worth. Several files may be judged
together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import elsewhere
import numpy as np
from default_grid import Axes, Table, groups, work
from elsewhere import family
from measure import finish, parser

from dcfsc.errors import InputError
from dcfsc.representations.stability import ASSIGN


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
    if np.isnan(smooth(mean)).all():
        raise InputError("no setting has all six neighbours measured: judge more files together.")
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
