"""How long the default takes in two checkouts, measured in turn.

    python -m research.benchmarks.compare_seconds ../other/checkout

Each fit is made from Python with only K given, in a process of its own, after a fit of some of the
samples, on all cores. The checkouts alternate, so that a busy machine slows both. Medians of
``--repeats``; the ratio is this checkout's seconds to the other's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
CLUSTERS = {"turntable": 20, "digits": 10}
WARM = 8  # of so many samples one is in the first fit
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def write_samples(folder: Path) -> None:
    """1,440 images of 32 x 32 pixels of 20 objects, and 1,797 digits of 8 x 8."""
    from sklearn.datasets import load_digits

    from research.benchmarks.generated_problems import turntable

    np.save(folder / "turntable.npy", turntable(0, views=72)[0])
    np.save(folder / "digits.npy", load_digits().images)


def seconds_of_a_fit(file: Path) -> float:
    """Seconds of the second fit of this process."""
    from dcfsc import ClosedFormSubspaceClustering

    X = np.load(file)
    model = ClosedFormSubspaceClustering(CLUSTERS[file.stem], random_state=0)
    model.fit(X[::WARM])
    begin = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - begin


def measured(checkout: Path, file: Path) -> float:
    """The seconds that a fit takes with the package of a checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment["PYTHONPATH"] = str(checkout / "src")
    done = subprocess.run(
        [sys.executable, str(HERE), "--fit", str(file)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout)


def row(name: str, here: list[float], other: list[float]) -> str:
    median, of_other = statistics.median(here), statistics.median(other)
    return f"{name:12} {median:8.2f} {of_other:8.2f} {median / of_other:8.2f}"


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("checkout", type=Path, help="the other checkout")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.fit:
        print(seconds_of_a_fit(args.checkout))
        return
    if not (args.checkout / "src" / "dcfsc").is_dir():
        options.error(f"there is no src/dcfsc in {args.checkout}")
    checkouts = HERE.parents[2], args.checkout.resolve()
    print(f"{'seconds':12} {'here':>8} {'other':>8} {'ratio':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write_samples(Path(folder))
        for name in CLUSTERS:
            file = Path(folder, f"{name}.npy")
            pairs = [[measured(c, file) for c in checkouts] for _ in range(args.repeats)]
            here, other = (list(seconds) for seconds in zip(*pairs, strict=True))
            print(row(name, here, other), flush=True)


if __name__ == "__main__":
    main()
