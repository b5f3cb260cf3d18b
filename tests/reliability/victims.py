"""Runs that are killed, and runs that want the same folder: what is left is whole, or no run.

    python tests/reliability/victims.py --kills 5 --races 5 --seed 0

'dcfsc fit' is run in children forked from a process that has imported everything, so that a run
takes a fraction of a second and a hundred of them can be killed at any of its moments.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from typer.main import get_command

from dcfsc import DCFSC, cli
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.runs.folder import read_run
from dcfsc.runs.life import CHECKPOINT, MODEL

SAMPLES, CLUSTERS = 120, 4
COMMAND_LINE = get_command(cli.app)  # built once, not in every child
FIT = ("-k", str(CLUSTERS), "--method", "dcfsc", "--steps", "16", "--pretrain-epochs", "8")


def write_data(path: Path) -> None:
    """Digits 0 to 3, so that no seed changes what there is to find."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    chosen = bunch.target < CLUSTERS
    np.save(path, bunch.images[chosen][:SAMPLES].astype(np.uint8))


def start(data: Path, out: Path, seed: int, *extra: str) -> int:
    """Fork a child that runs 'dcfsc fit' as the command line does; its process id."""
    words = ["fit", str(data), *FIT, "--out", str(out), "--seed", str(seed), *extra]
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        said = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        # a checkpoint after every step, where a run of hours would write one in half a minute
        (DCFSC.__init__.__kwdefaults__ or {})["checkpoint_every"] = 0.0
        code = int(COMMAND_LINE(words, standalone_mode=False) or 0)
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(code)


def import_what_a_run_imports(data: Path, out: Path) -> None:
    """Let a child run once and tell which modules it loaded; then load them here."""
    told = Path(f"{out}.modules")
    child = os.fork()
    if child == 0:
        try:
            words = ["fit", str(data), *FIT, "--out", str(out), "--quiet", "--resume"]
            COMMAND_LINE(words, standalone_mode=False)
        finally:
            told.write_text("\n".join(sys.modules))
            os._exit(0)
    end_of(child)
    for name in told.read_text().splitlines():
        if name not in sys.modules and not name.startswith("__"):
            with contextlib.suppress(Exception):  # what is made while running cannot be imported
                importlib.import_module(name)


def end_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def whole_labels(folder: Path) -> np.ndarray | None:
    """The labels of a whole run, its record, labels and model agreeing; None if it is none."""
    try:
        run = read_run(folder)
    except InputError:
        return None
    model: Any = load_model(folder / MODEL, device="cpu")
    if not np.array_equal(model.labels_, run.labels) or model.random_state != run.record["seed"]:
        raise AssertionError(f"{folder} is a mixture of runs")
    return run.labels


def killed(data: Path, root: Path, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Kill ``count`` runs, each at a random moment, resume each, and compare the labels."""
    begin = time.perf_counter()
    if end_of(start(data, root / "reference", 0)) != 0:
        raise RuntimeError((root / "reference.log").read_text())
    duration = time.perf_counter() - begin
    reference = whole_labels(root / "reference")
    counts = dict.fromkeys(("kills", "with_checkpoint", "before", "after", "resumes", "same"), 0)
    wrong = []
    for trial in range(50 * count):
        if counts["kills"] == count:
            break
        folder = root / f"trial{trial}"
        child = start(data, folder, 0)
        time.sleep(float(rng.uniform(0.0, duration)))
        os.kill(child, signal.SIGKILL)
        if end_of(child) != -signal.SIGKILL:
            continue  # it had ended by itself
        counts["kills"] += 1
        left = whole_labels(folder) if folder.is_dir() else None
        counts["after"] += left is not None
        counts["with_checkpoint"] += (folder / CHECKPOINT).exists()
        counts["before"] += left is None and not (folder / CHECKPOINT).exists()
        if left is not None and not np.array_equal(left, reference):
            wrong.append(f"trial {trial}: a run that is not whole was taken for one")
        code = end_of(start(data, folder, 0, "--resume"))
        counts["resumes"] += code == 0
        labels = whole_labels(folder)
        same = labels is not None and np.array_equal(labels, reference)
        counts["same"] += same
        remains = sorted(p.name for p in folder.iterdir() if p.suffix == ".part")
        if code or not same or remains or (folder / CHECKPOINT).exists():
            said = Path(f"{folder}.log").read_text().strip()[-200:]
            wrong.append(f"trial {trial}: exit {code}, same labels {same}, left {remains}: {said}")
    return {**counts, "wrong": wrong, "seconds_of_a_run": round(duration, 3)}


def raced(data: Path, root: Path, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Two runs with different seeds into one folder at one time, ``count`` times."""
    duration = 0.0
    labels = {}
    for seed in (0, 1):
        begin = time.perf_counter()
        end_of(start(data, root / f"alone{seed}", seed))
        duration = time.perf_counter() - begin
        labels[seed] = whole_labels(root / f"alone{seed}")
    counts = {"races": count, "one_won": 0, "one_after_the_other": 0, "both_refused": 0}
    wrong = []
    for race in range(count):
        folder = root / f"race{race}"
        first = start(data, folder, 0)
        time.sleep(float(rng.uniform(0.0, 0.5 * duration)) if rng.random() < 0.7 else 0.0)
        second = start(data, folder, 1)
        codes = end_of(first), end_of(second)
        counts["one_won"] += sorted(codes) == [0, 2]
        counts["one_after_the_other"] += codes == (0, 0)
        counts["both_refused"] += codes == (2, 2)
        if not set(codes) <= {0, 2}:
            wrong.append(f"race {race}: exits {codes}")
        if 0 in codes:
            try:
                left = whole_labels(folder)
                seed = read_run(folder).record["seed"]
                if left is None or not np.array_equal(left, labels[seed]):
                    wrong.append(f"race {race}: labels of no run")
            except (AssertionError, InputError) as error:
                wrong.append(f"race {race}: {error}")
    return {**counts, "wrong": wrong}


def measure(kills: int, races: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="victims-") as folder:
        data = Path(folder) / "digits.npy"
        write_data(data)
        import_what_a_run_imports(data, Path(folder) / "first")
        for name, run, count in (("kills", killed, kills), ("races", raced, races)):
            if count:
                root = Path(folder) / name
                root.mkdir()
                found[name] = run(data, root, count, rng)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--races", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = measure(options.kills, options.races, options.seed)
    print(json.dumps(found))
    return int(any(part["wrong"] for part in found.values()))


if __name__ == "__main__":
    sys.exit(main())
