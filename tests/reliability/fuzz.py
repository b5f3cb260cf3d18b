"""Try to break the library: malformed files, odd arrays, killed runs, runs racing for a folder.

    python tests/reliability/fuzz.py --count 10000 --arrays 5000 --kills 100 --races 50 --seed 0 \
        --json results/benchmarks/reliability.json

Each part is left out where its number is 0. The same seed gives the same inputs; the moments of
the kills are the machine's. The exit code is 1 if anything was found. What is tried, and what
counts as a crash, is in tests/reliability, which runs a little of everything.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path += [str(Path(__file__).resolve().parents[i]) for i in (0, 1)]
sys.path.append(str(Path(__file__).resolve().parents[2]))  # for research

import numpy as np
import odd_arrays
import victims
import watched
from odd_arrays import CONTENTS, DEFECTS, TYPES, Recipe

from dcfsc.estimators.registry import METHODS
from research import record

AFFINITIES, ASSIGNMENTS = ("topk", "symmetric", "low_rank"), ("kmeans", "discretize", "cluster_qr")
FORMS = ("auto", "samples", "features")


def main() -> int:
    parser = record.parser(__doc__.splitlines()[0])  # type: ignore[union-attr]
    for name, help_ in (
        ("count", "malformed files to read"),
        ("arrays", "odd arrays to cluster"),
        ("kills", "runs to kill and resume"),
        ("races", "pairs of runs into one folder"),
        ("seed", "of everything that is drawn"),
    ):
        parser.add_argument(f"--{name}", type=int, default=0, help=help_)
    options = parser.parse_args()
    count, seed, kills, races = options.count, options.seed, options.kills, options.races
    # files first: their children are forked before this process has worked with any library
    parts = {
        "files": (count, lambda: watched.summary(list(watched.outcomes(count, seed)))),
        "runs": (kills or races, lambda: victims.measure(kills, races, seed)),
        "arrays": (options.arrays, lambda: arrays(options.arrays, np.random.default_rng(seed))),
    }
    figures: dict[str, Any] = {}
    for name, (wanted, run) in parts.items():
        if wanted:
            begin = time.perf_counter()
            figures[name] = run()
            figures[name]["wall_seconds"] = round(time.perf_counter() - begin, 1)
    record.finish(options, "reliability", figures)
    runs = figures.get("runs", {})
    found = any(figures.get(name, {}).get("failures") for name in ("files", "arrays"))
    return int(found or any(runs[k]["wrong"] for k in ("kills", "races") if k in runs))


def arrays(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Cluster odd arrays by every method in turn, and hand them to the closed form itself."""
    found, wrong = Counter({"labeled": 0, "refused": 0, "wrong": 0}), []
    names = [*METHODS, "solve"]
    for i in range(count):
        recipe, method = _recipe(rng), names[i % len(names)]
        try:
            if method == "solve":
                X = recipe.array().reshape(recipe.n, -1)
                lam, form = 10.0 ** rng.integers(-30, 31), str(rng.choice(FORMS))
                took = odd_arrays.solved(X, lam, form)
            else:
                choices = {}
                if rng.random() < 0.5:
                    choices["affinity"] = str(rng.choice(AFFINITIES))
                    choices["assign"] = str(rng.choice(ASSIGNMENTS))
                clusters = int(rng.integers(1, recipe.n + 1))
                answer = odd_arrays.cluster(method, recipe.array(), clusters, **choices)
                took = isinstance(answer, np.ndarray)
            found["labeled" if took else "refused"] += 1
        except Exception as error:
            found["wrong"] += 1
            wrong.append(f"{method} {recipe}: {type(error).__name__}: {str(error)[:200]}")
    return {"arrays": count, **found, "failures": wrong}


def _recipe(rng: np.random.Generator) -> Recipe:
    shapes = (
        (int(rng.integers(1, 41)),),
        (int(rng.integers(1, 10)), int(rng.integers(1, 10))),
        (int(rng.integers(1, 4)), int(rng.integers(1, 9)), int(rng.integers(1, 9))),
    )
    return Recipe(
        n=int(rng.integers(2, 31)),
        shape=shapes[int(rng.integers(3))],
        content=str(rng.choice(CONTENTS)),
        dtype=str(rng.choice(TYPES)),
        exponent=int(rng.integers(-30, 31)),
        defect=str(rng.choice(DEFECTS)) if rng.random() < 0.1 else "none",
        seed=int(rng.integers(10_000)),
    )


if __name__ == "__main__":
    sys.exit(main())
